"""What is run: a grid file for each figure of a paper, in `grids/PAPER/FIGURE.yaml`.

A grid file says what the paper shows (`title`, `shows`), how we do it (`ours`), which `kind` of experiment it is, what
is varied, which panels are drawn from the results, and what the paper claims of them, each claim with the rule that
decides about it (see `rules`). `set` and `parts` hold the settings: a part has a `set` of its own and a `vary` whose
values are combined; `quick` and `full` add to both for that mode. A figure that only reads the runs of others names
them in `runs`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import product
from typing import Any, NamedTuple

import yaml

from skyband.errors import QueryError, nearest

QUICK, FULL = "quick", "full"
MODES = (QUICK, FULL)
PAPERS = ("mintopk", "mtops", "topkw", "views", "acquatop")


class Run(NamedTuple):
    """One measurement: everything it depends on is in its settings."""

    paper: str
    figure: str
    mode: str
    kind: str
    name: str  # what is varied; unique within figure and mode
    settings: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.paper} {self.figure} {self.name}"


@dataclass(frozen=True)
class Figure:
    """A figure or table of a paper."""

    paper: str
    name: str  # "figure-7", "table-v"
    title: str
    shows: str
    ours: str
    kind: str
    sources: tuple[str, ...]  # the figures whose runs it reads: mostly itself
    panels: tuple[Mapping[str, Any], ...]
    claims: tuple[Mapping[str, Any], ...]
    plan: Mapping[str, Any]

    @property
    def label(self) -> str:
        """As the paper writes it.

        Examples
        --------
        >>> figure("topkw", "table-v").label, figure("mintopk", "figure-7").label
        ('Table V', 'Figure 7')
        """
        what, _, number = self.name.partition("-")
        return f"{what.title()} {number.upper()}"

    def runs(self, mode: str) -> list[Run]:
        """All runs of this figure, those of other figures that it reads among them.

        Examples
        --------
        >>> [run.name for run in figure("mintopk", "figure-7").runs("quick")][:2]
        ['win=100000,slide=10000,k=1,engine=mintopk', 'win=100000,slide=10000,k=1,engine=pretopk']
        """
        if self.sources != (self.name,):
            return [run for name in self.sources for run in figure(self.paper, name).runs(mode)]
        return [
            Run(self.paper, self.name, mode, self.kind, _named(varied), settings)
            for settings, varied in _settings(self.plan, mode)
        ]


@dataclass(frozen=True)
class Paper:
    """A paper, and its figures in order."""

    name: str
    title: str
    cite: str
    about: str
    figures: tuple[str, ...]


def _settings(plan: Mapping[str, Any], mode: str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """The settings of each run, and those among them that are varied."""
    common = {**plan.get("set", {}), **plan.get(mode, {})}
    for part in plan.get("parts", [plan]):
        special = {} if part is plan else part.get(mode, {})
        vary = {**part.get("vary", {}), **special.get("vary", {})}
        told = {**({} if part is plan else part.get("set", {})), **special.get("set", {})}
        for values in product(*vary.values()):
            varied = dict(zip(vary, values, strict=True))
            yield {**common, **told, **varied}, {**(told if "parts" in plan else {}), **varied}


def _named(varied: Mapping[str, Any]) -> str:
    """Name a run by what is varied."""
    text = ",".join(f"{name}={value}" for name, value in varied.items()) or "all"
    return "".join(sign if sign.isalnum() or sign in "=,.-_" else "-" for sign in text.replace(", ", "-"))


def _read(paper: str, name: str) -> dict[str, Any]:
    place = files("skyband_lab.reproduce").joinpath("grids", paper, f"{name}.yaml")
    found: dict[str, Any] = yaml.safe_load(place.read_text(encoding="utf-8"))
    return found


@cache
def papers() -> dict[str, Paper]:
    """The papers by short name.

    Examples
    --------
    >>> list(papers())
    ['mintopk', 'mtops', 'topkw', 'views', 'acquatop']
    """
    found = {}
    for name in PAPERS:
        told = _read(name, "paper")
        found[name] = Paper(name, told["title"], told["cite"], told["about"].strip(), tuple(told["figures"]))
    return found


@cache
def figure(paper: str, name: str) -> Figure:
    """One figure."""
    told = _read(paper, name)
    sources = told.get("runs", name)
    return Figure(
        paper,
        name,
        told["title"],
        told["shows"].strip(),
        told["ours"].strip(),
        told.get("kind", ""),
        (sources,) if isinstance(sources, str) else tuple(sources),
        tuple(told.get("panels", ())),
        tuple(told["claims"]),
        {key: told[key] for key in ("set", "vary", "parts", *MODES) if key in told},
    )


def chosen(paper: str, name: str | None = None) -> list[Figure]:
    """The figures that a command names: all of a paper, of all papers ("all"), or one.

    Examples
    --------
    >>> [one.name for one in chosen("mintopk", "7")], chosen("topkw", "Table V")[0].name
    (['figure-7'], 'table-v')
    """
    known = papers()
    if paper == "all" and name is None:
        return [figure(each.name, one) for each in known.values() for one in each.figures]
    if paper not in known:
        raise QueryError(f"paper {paper!r} is unknown: {nearest(paper, [*known, 'all'])}")
    there = known[paper].figures
    if name is None:
        return [figure(paper, one) for one in there]
    asked = name.strip().lower().replace(" ", "-")
    for way in (asked, f"figure-{asked}", f"table-{asked}"):
        if way in there:
            return [figure(paper, way)]
    labels = ", ".join(figure(paper, one).label for one in there)
    raise QueryError(f"{paper} has no figure {name!r} here: write one of {labels}")
