"""The pages of the docs: claim, measurement, picture and verdict of every figure, made from the raw results alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skyband_lab.reproduce.grid import FULL, Figure, Paper, figure, papers
from skyband_lab.reproduce.plots import picture, series_of
from skyband_lab.reproduce.runs import rows_of
from skyband_lab.reproduce.verdicts import CONFIRMED, DIFFERENT, REFUTED, UNTESTED, Verdict, short, verdicts

if TYPE_CHECKING:
    from skyband_lab.reproduce.rules import Row

FOLDER = Path("docs") / "evidence"
_SIGN = {CONFIRMED: "✔", DIFFERENT: "≈", REFUTED: "✘", UNTESTED: "…"}
_HEAD = "<!-- Made by `skyband reproduce` from lab/results/reproduce: do not edit. -->\n"


def written(raw: Path, folder: Path) -> list[Path]:
    """Write all pages and pictures into `folder`; those that changed."""
    changed = []
    for name, text in made(raw).items():
        path = folder / name
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            changed.append(path)
    return changed


def made(raw: Path) -> dict[str, str]:
    """Every page and picture, by its path within the folder."""
    found: dict[str, str] = {}
    all_verdicts: dict[str, list[Verdict]] = {}
    for paper in papers().values():
        parts = []
        for name in paper.figures:
            one = figure(paper.name, name)
            drawn = picture(one, raw)
            image = f"img/{paper.name}-{name}.svg"
            if drawn is not None:
                found[image] = drawn
            said = verdicts(one, raw)
            all_verdicts.setdefault(paper.name, []).extend(said)
            parts.append(_section(one, raw, said, image if drawn is not None else None))
        found[f"{paper.name}.md"] = _page(paper, all_verdicts[paper.name], parts)
    found["index.md"] = _index(all_verdicts)
    return found


def _page(paper: Paper, said: list[Verdict], parts: list[str]) -> str:
    return "\n".join([_HEAD, f"# {paper.title}\n", f"{paper.cite}\n", f"{paper.about}\n", f"{_count(said)}\n", *parts])


def _count(said: list[Verdict]) -> str:
    count = Counter(one.verdict for one in said)
    told = ", ".join(f"{count[name]} {name}" for name in _SIGN if count[name])
    return f"Of {len(said)} statements: **{told}**."


def _section(one: Figure, raw: Path, said: list[Verdict], image: str | None) -> str:
    mode, rows = rows_of(raw, one)
    scale = "full grid" if mode == FULL else "quick grid" if mode else "not run yet"
    lines = [f"## {one.label}: {one.title}\n", f"{one.shows}\n", f"*Ours ({scale}, {len(rows)} runs):* {one.ours}\n"]
    if image:
        lines.append(f"![{one.label}: {one.title}]({image})\n")
    for panel in one.panels:
        if panel.get("table", True) and not panel.get("track") and series_of(panel, rows):
            lines += [table(panel, rows), ""]
    lines += ["| the paper says | we measured | verdict |", "| --- | --- | --- |"]
    lines += [_verdict_row(verdict) for verdict in said]
    lines += ["", *_rules(said), ""]
    return "\n".join(lines)


def _verdict_row(one: Verdict) -> str:
    why = f": {one.because}" if one.because else ""
    cells = (f"{one.says} ({one.cite})", f"{one.what}: {one.measured}", f"{_SIGN[one.verdict]} **{one.verdict}**{why}")
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _rules(said: list[Verdict]) -> list[str]:
    """The rules in words, folded away."""
    told = [f"- {one.says}: {one.rule}." for one in said]
    return ['<details markdown="1"><summary>Confirmed if</summary>', "", *told, "", "</details>"]


def table(panel: Mapping[str, Any], rows: list[Row]) -> str:
    """The numbers of a panel: a line for each place, a column for each series."""
    lines = series_of(panel, rows)
    places = list(dict.fromkeys(place for line in lines.values() for place in line))
    if not any(isinstance(place, str) for place in places):
        places.sort()
    title = panel.get("title")
    unit = panel.get("ylabel", panel.get("y", ""))
    head = f"| {panel.get('xlabel', panel['x'])} | {' | '.join(lines)} |"
    told = [f"{title}, {unit}:\n" if title else f"{unit[:1].upper()}{unit[1:]}:\n", head]
    told.append("| --- |" + " ---: |" * len(lines))
    early = _not_full(panel, rows)
    for place in places:
        cells = [short(line.get(place)) + ("*" if (name, place) in early else "") for name, line in lines.items()]
        told.append(f"| {_plain(place)} | {' | '.join(cells)} |")
    if early:
        told.append("\n\\* measured before the longest window was full: it did not fill within the time allowed")
    return "\n".join(told)


def _not_full(panel: Mapping[str, Any], rows: list[Row]) -> set[tuple[str, Any]]:
    """The cells whose runs began to count before a window was full."""
    if "measures" in panel:
        return set()
    flags = series_of({**panel, "y": "filled", "per": None}, rows)
    return {(name, place) for name, line in flags.items() for place, full in line.items() if not full}


def _plain(place: Any) -> str:
    return f"{place:,}" if isinstance(place, int) else str(place)


def _index(found: Mapping[str, list[Verdict]]) -> str:
    lines = [
        _HEAD,
        "# The papers, run again\n",
        "skyband is built from five papers. Each of their experiments is a grid file; `skyband reproduce` runs it,",
        "keeps one line per run in a file per figure, and makes these pages from those files. A verdict is computed by",
        "a rule that stands beside it: *confirmed* where all numbers are as claimed, *refuted* where none is,",
        "*different* in between.\n",
        "```sh",
        "skyband reproduce mintopk 7 --quick     # one figure, in some seconds",
        "skyband reproduce all --quick           # all of them, in some minutes",
        "skyband reproduce acquatop              # the whole grid of a paper",
        "```\n",
        "How far to trust them: every figure says whether it comes from its full grid or from the quick one, which is",
        "smaller than the paper's; both are one run a setting on a busy machine with two cores, so close ratios mean",
        "little. What counts as claimed is a range that we chose, stated beside each verdict; the reasons in brackets",
        "are our reading, and few of them were tested. A line that cites our goal judges skyband, not the paper.\n",
        "| paper | confirmed | different | refuted |",
        "| --- | ---: | ---: | ---: |",
    ]
    for paper in papers().values():
        count = Counter(one.verdict for one in found[paper.name])
        cells = (str(count[name]) for name in (CONFIRMED, DIFFERENT, REFUTED))
        lines.append(f"| [{paper.title}]({paper.name}.md) | {' | '.join(cells)} |")
    lines += ["", "## What did not hold\n"]
    for paper in papers().values():
        for one in found[paper.name]:
            if one.verdict == REFUTED:
                label = figure(paper.name, one.figure).label
                why = f" ({one.because})" if one.because else ""
                told = f"{one.says}. {one.what[:1].upper()}{one.what[1:]}: {one.measured}{why}."
                lines.append(f"- [{paper.title}]({paper.name}.md), {label}: {told}")
    return "\n".join([*lines, ""])
