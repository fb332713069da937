"""The page on what was measured of joins, made of the lines of `skyband bench join`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from statistics import fmean, median
from typing import Any, NamedTuple

from skyband.query.join import POLICIES
from skyband_lab.bench.join import OVER

Lines = list[dict[str, Any]]
RIVALS = tuple(name for name in POLICIES if name not in ("all", "likely"))
"""The policies of the paper that a budget binds."""


class Claim(NamedTuple):
    """One line of the paper's Table 7: in which cases which policies are said to be the best."""

    name: str
    experiment: int
    metric: str
    best: tuple[str, ...]
    said: str
    where: Callable[[dict[str, Any]], bool]


def _always(_: dict[str, Any]) -> bool:
    return True


CLAIMS = (
    Claim("Hp.1 relevancy", 1, "ndcg", ("top",), "AT-TSM is best for B > 3", lambda case: case["budget"] > 3),
    Claim("Hp.1 accuracy", 1, "precision", ("border",), "AT-BSM is best for every B", _always),
    Claim("Hp.2 relevancy", 2, "ndcg", ("top",), "AT-TSM is best for every CH", _always),
    Claim("Hp.2 accuracy", 2, "precision", ("border",), "AT-BSM is best for every CH", _always),
    Claim("Hp.3 relevancy", 3, "ndcg", ("top", "border"), "AT-TSM or AT-BSM is best for every K", _always),
    Claim("Hp.3 accuracy", 3, "precision", ("border",), "AT-BSM is best for K < 7", lambda case: case["k"] < 7),
    Claim("Hp.3 accuracy", 3, "precision", ("wsj-lru",), "WSJ-LRU is best for K > 10", lambda case: case["k"] > 10),
    Claim("Hp.4 relevancy", 4, "ndcg", ("top",), "AT-TSM is best for every N", _always),
    Claim("Hp.4 accuracy", 4, "precision", ("border",), "AT-BSM is best for every N", _always),
)


class Verdict(NamedTuple):
    """What became of a claim."""

    claim: Claim
    cells: int
    held: int
    margins: tuple[float, float]  # least and greatest lead over the best rival, in hundredths of its value

    @property
    def word(self) -> str:
        """Confirmed, refuted, or something between."""
        if not self.cells:
            return "not measured"
        if self.held == self.cells:
            return "confirmed"
        return "refuted" if 2 * self.held < self.cells else "partly confirmed"


def cells(lines: Lines, experiment: int, metric: str) -> dict[tuple[int, int, int, int], dict[str, float]]:
    """Of each setting (CH, k, N, B) of an experiment the median over the regenerated sets, by policy."""
    found: dict[tuple[int, int, int, int], dict[str, list[float]]] = {}
    for line in lines:
        if line.get("experiment") == experiment and line["seed"] is not None:
            cell = (line["ch"], line["k"], line["spare"], line["budget"])
            found.setdefault(cell, {}).setdefault(line["policy"], []).append(line[metric])
    return {cell: {p: median(values) for p, values in by.items()} for cell, by in sorted(found.items())}


def verdicts(lines: Lines) -> list[Verdict]:
    """Every line of Table 7, held against what was measured. A tie counts as held."""
    out = []
    for claim in CLAIMS:
        leads = []
        for (ch, k, spare, budget), by in cells(lines, claim.experiment, claim.metric).items():
            if claim.where({"ch": ch, "k": k, "spare": spare, "budget": budget}) and all(p in by for p in RIVALS):
                ours = max(by[p] for p in claim.best)
                rival = max(by[p] for p in RIVALS if p not in claim.best)
                leads.append(100 * (ours - rival) / rival)
        held = sum(lead >= -1e-9 for lead in leads)
        out.append(Verdict(claim, len(leads), held, (min(leads, default=0.0), max(leads, default=0.0))))
    return out


class Stand(NamedTuple):
    """Our policy in one cell: its lead in nDCG over AT-TSM, and in precision over AT-BSM."""

    name: str
    seed: int | None
    k: int
    spare: int
    budget: int
    ndcg: float
    precision: float

    @property
    def worse(self) -> bool:
        """Whether it is behind in one of the two."""
        return self.ndcg < -1e-9 or self.precision < -1e-9

    @property
    def better(self) -> bool:
        """Whether it leads in both."""
        return self.ndcg > 1e-9 and self.precision > 1e-9


def stands(lines: Lines) -> list[Stand]:
    """Every set, k and N, with every budget of 3 and more."""
    found: dict[tuple[str, int | None, int, int, int], dict[str, dict[str, Any]]] = {}
    for line in lines:
        if "experiment" in line and line["budget"] >= 3:
            cell = (line["name"], line["seed"], line["k"], line["spare"], line["budget"])
            found.setdefault(cell, {})[line["policy"]] = line
    return [
        Stand(
            *cell,
            by["likely"]["ndcg"] - by["top"]["ndcg"],
            by["likely"]["precision"] - by["border"]["precision"],
        )
        for cell, by in sorted(found.items(), key=str)
        if all(p in by for p in ("likely", "top", "border"))
    ]


def page(lines: Lines, pictures: str | None = None) -> str:
    """The page as Markdown; `pictures` is the folder of the figures, seen from it."""
    parts = (_head(lines), _table_7(lines), _ours(lines), _curves(lines, pictures), _costs(lines))
    return "\n".join(line for part in parts for line in part) + "\n"


def _head(lines: Lines) -> Iterator[str]:
    cases = {tuple(line[f] for f in ("name", "seed", "k", "spare", "budget")) for line in lines if "experiment" in line}
    seeds = sorted({line["seed"] for line in lines if line.get("seed") is not None})
    yield "# Joins, measured"
    yield ""
    yield "Made by `skyband bench join --out lab/results/join.jsonl --page docs/joins-measured.md`, from the"
    yield "evening of mentions that the AcquaTop paper used. Sums over 150 windows, so 150 is the best there is;"
    yield f"{len(cases)} cases so far, on the authors' sets and on those made anew with the seeds"
    yield f"{', '.join(map(str, seeds)) or 'none yet'}. Run it again to go on: what is there is not measured twice."


def _table_7(lines: Lines) -> Iterator[str]:
    yield from ("", "## The paper's Table 7", "")
    seeds = {line["seed"] for line in lines if line.get("experiment") in OVER and line["seed"] is not None}
    yield "Each claim against the best of the other policies that a budget binds, at every setting the median over the"
    yield f"sets made anew, so far with {len(seeds)} of 5 seeds. The lead is in per cent of the best rival's value: the"
    yield "least and the greatest."
    yield ""
    yield "| claim | says | verdict | holds | lead |"
    yield "|---|---|---|---|---|"
    for v in verdicts(lines):
        lead = f"{v.margins[0]:+.2f} to {v.margins[1]:+.2f} %" if v.cells else ""
        yield f"| {v.claim.name} | {v.claim.said} | {v.word} | {v.held} of {v.cells} | {lead} |"


def _ours(lines: Lines) -> Iterator[str]:
    known = stands(lines)
    found = [s for s in known if s.k == 5 and s.spare == 10]
    yield from ("", "## Our own policy", "")
    yield "`likely` against AT-TSM's nDCG and AT-BSM's precision, the best the paper has for each; k 5, N 10, budgets"
    yield "of 3 and more. One run of it has to beat both."
    yield ""
    yield "| sets | cells | better in both | as good in one | worse in one | mean lead nDCG | precision |"
    yield "|---|---|---|---|---|---|---|"
    groups: dict[str, Callable[[Stand], bool]] = {
        "the authors'": lambda s: s.seed is None,
        "seeds 1, 2, 3 (looked at while it was made)": lambda s: s.seed in (1, 2, 3),
        "seeds 4, 5 (not looked at)": lambda s: s.seed in (4, 5),
        "all": lambda _: True,
    }
    for name, inside in groups.items():
        mine = [s for s in found if inside(s)]
        if mine:
            better, worse = sum(s.better for s in mine), sum(s.worse for s in mine)
            ndcg, precision = fmean(s.ndcg for s in mine), fmean(s.precision for s in mine)
            even = len(mine) - better - worse
            yield f"| {name} | {len(mine)} | {better} | {even} | {worse} | {ndcg:+.2f} | {precision:+.2f} |"
    bad = [s for s in found if s.worse]
    if bad:
        yield from ("", "Where it is worse:", "", "| set | seed | budget | nDCG | precision |", "|---|---|---|---|---|")
        for s in bad:
            yield f"| {s.name} | {s.seed or 'authors'} | {s.budget} | {s.ndcg:+.2f} | {s.precision:+.1f} |"
    yield from _elsewhere([s for s in known if s.k != 5 or s.spare != 10])


def _elsewhere(others: list[Stand]) -> Iterator[str]:
    """Our policy with other k and N, the least leads beside the mean."""
    if not others:
        return
    yield from ("", "With other k and N; the least lead is that of the worst set.", "")
    yield "| k, N, B | cells | better in both | worse in one | mean lead nDCG | precision | least nDCG | precision |"
    yield "|---|---|---|---|---|---|---|---|"
    for cell in sorted({(s.k, s.spare, s.budget) for s in others}):
        mine = [s for s in others if (s.k, s.spare, s.budget) == cell]
        ndcg, precision = [s.ndcg for s in mine], [s.precision for s in mine]
        counts = f"{len(mine)} | {sum(s.better for s in mine)} | {sum(s.worse for s in mine)}"
        leads = f"{fmean(ndcg):+.2f} | {fmean(precision):+.2f} | {min(ndcg):+.2f} | {min(precision):+.2f}"
        yield f"| {', '.join(map(str, cell))} | {counts} | {leads} |"


def _curves(lines: Lines, pictures: str | None) -> Iterator[str]:
    for experiment, over in OVER.items():
        known = cells(lines, experiment, "ndcg"), cells(lines, experiment, "precision")
        if not known[0]:
            continue
        yield from ("", f"## Figure {11 + experiment}: over {over}", "")
        for budget in ("",) if experiment < 3 or pictures is None else ("-budget-7", "-budget-15"):
            if pictures is not None:
                yield f"![nDCG and precision over {over}]({pictures}/figure-{11 + experiment}{budget}.svg)"
                yield ""
        yield "nDCG / precision, the median over the sets made anew."
        yield ""
        policies = [p for p in POLICIES if any(p in by for by in known[0].values())]
        yield f"| {'CH, k, N, B'} | {' | '.join(policies)} |"
        yield "|---" * (len(policies) + 1) + "|"
        for cell, by in known[0].items():
            values = [f"{by[p]:.1f} / {known[1][cell][p]:.1f}" if p in by else "" for p in policies]
            yield f"| {', '.join(map(str, cell))} | {' | '.join(values)} |"


def _costs(lines: Lines) -> Iterator[str]:
    costs = [line for line in lines if "experiment" not in line]
    if not costs:
        return
    yield from ("", "## Costs, and answers on time", "")
    for line in _last(costs):
        said = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in line.items() if name not in _NAMES)
        yield f"- {line['case']}: {said}"


_NAMES = ("suite", "case")


def _last(costs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of lines of one case the last."""
    return list({line["case"]: line for line in costs}.values())
