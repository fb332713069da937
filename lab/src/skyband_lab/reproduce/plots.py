"""Pictures of figures, from raw results only: the same results give the same bytes. matplotlib loads only here."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skyband_lab.bench.plots import pyplot
from skyband_lab.reproduce.rules import Row, matching, points
from skyband_lab.reproduce.runs import rows_of

if TYPE_CHECKING:
    from skyband_lab.reproduce.grid import Figure

_COLOURS = (
    "#1f6fb4",
    "#d9662b",
    "#3b8f3e",
    "#b3362f",
    "#7a57a6",
    "#82583f",
    "#c05fa0",
    "#6b6b6b",
    "#a09a1d",
    "#2aa5b5",
)
_SIGNS = "osD^vPX*<>"
_ACROSS = 3  # panels in a row


def series_of(panel: Mapping[str, Any], rows: list[Row]) -> dict[str, dict[Any, float]]:
    """The lines of a panel: by the values of its `series` field, or one."""
    chosen = matching(rows, panel.get("where"))
    if "measures" in panel:  # several figures of the same runs, one line each
        made = {name: points(chosen, field, panel["x"]) for field, name in panel["measures"].items()}
        return {name: line for name, line in made.items() if line}
    field = panel.get("series")
    names = list(dict.fromkeys(row[field] for row in chosen if field in row)) if field else [None]
    lines = {
        _name(panel, name): points(chosen, panel["y"], panel["x"], {field: name} if field else None, panel.get("per"))
        for name in names
    }
    return {name: line for name, line in lines.items() if line}


def tracks_of(panel: Mapping[str, Any], rows: list[Row]) -> dict[str, tuple[list[float], list[float]]]:
    """The lines of a panel whose runs hold whole curves (`track: true`): a run, a line."""
    found: dict[str, tuple[list[float], list[float]]] = {}
    for row in matching(rows, panel.get("where")):
        ys = row.get(panel["y"])
        if ys:
            found.setdefault(
                _name(panel, row[panel["series"]]), (row.get(panel["x"]) or list(range(1, len(ys) + 1)), ys)
            )
    return found


def lines_of(panel: Mapping[str, Any], rows: list[Row]) -> list[str]:
    """The names of a panel's lines: none where no run belongs to it."""
    return list(tracks_of(panel, rows) if panel.get("track") else series_of(panel, rows))


def _name(panel: Mapping[str, Any], value: Any) -> str:
    if value is None:
        return str(panel.get("ylabel", panel["y"]))
    told = f"{panel['series']} {value:,}" if isinstance(value, (int, float)) else str(value)
    return str(panel.get("names", {}).get(value, told))


def picture(figure: Figure, folder: Path) -> str | None:
    """The SVG of a figure, or None where there is nothing to draw yet."""
    _, rows = rows_of(folder, figure)
    panels = [panel for panel in figure.panels if panel.get("draw", True) and lines_of(panel, rows)]
    if not rows or not panels:
        return None
    plt = pyplot()
    across = 2 if len(panels) == 4 else min(len(panels), _ACROSS)
    down = -(-len(panels) // across)
    colours = _colours(figure, rows)
    with plt.rc_context(_STYLE):
        drawn, axes = plt.subplots(down, across, figsize=(4.1 * across + 0.4, 3.2 * down), squeeze=False)
        for place, panel in enumerate(panels):
            _draw(axes[place // across][place % across], panel, rows, colours)
        for spare in range(len(panels), down * across):
            axes[spare // across][spare % across].set_axis_off()
        drawn.tight_layout()
        held = io.StringIO()
        drawn.savefig(held, format="svg", metadata={"Date": None, "Creator": None})
        plt.close(drawn)
    return _smaller(held.getvalue())


def _colours(figure: Figure, rows: list[Row]) -> dict[str, int]:
    """A colour for each line, the same in all panels."""
    names: list[str] = []
    for panel in figure.panels:
        names += lines_of(panel, rows)
    return {name: place for place, name in enumerate(dict.fromkeys(names))}


def _draw(axis: Any, panel: Mapping[str, Any], rows: list[Row], colours: Mapping[str, int]) -> None:
    if panel.get("track"):
        lines = {name: (xs, ys, False) for name, (xs, ys) in tracks_of(panel, rows).items()}
    else:
        lines = {name: (list(line), list(line.values()), True) for name, line in series_of(panel, rows).items()}
    words = any(isinstance(x, str) for xs, _, _ in lines.values() for x in xs)
    labels = list(dict.fromkeys(x for xs, _, _ in lines.values() for x in xs)) if words else []
    for name, (xs, ys, marked) in lines.items():
        colour = colours[name] % len(_COLOURS)
        style = {"color": _COLOURS[colour], "label": name, "linewidth": 1.4}
        at = [labels.index(x) for x in xs] if words else xs
        axis.plot(at, ys, marker=_SIGNS[colour] if marked else None, markersize=4, **style)
    if words:
        axis.set_xticks(range(len(labels)), [str(label) for label in labels], rotation=25, ha="right")
    for sign, scale in (("x", axis.set_xscale), ("y", axis.set_yscale)):
        if sign in panel.get("log", "") and not (sign == "x" and words):
            scale("log")
    if "floor" in panel:
        axis.set_ylim(bottom=panel["floor"])
    axis.minorticks_off()  # they are most of a file
    axis.set_xlabel(panel.get("xlabel", panel["x"]))
    axis.set_ylabel(panel.get("ylabel", panel.get("y", "")))
    if panel.get("title"):
        axis.set_title(panel["title"])
    if len(lines) > 1 or panel.get("legend"):
        axis.legend(fontsize=7, frameon=False, ncols=2 if len(lines) > 5 else 1)
    axis.grid(alpha=0.25, linewidth=0.6)


_STYLE = {
    "svg.fonttype": "none",
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "path.simplify": True,
}


def _smaller(svg: str) -> str:
    """Coordinates to one digit behind the point, no indentation: nobody sees more."""
    attributes = re.sub(r'="[^"]*"', lambda found: re.sub(r"(\d+\.\d)\d+", r"\1", found[0]), svg)
    return re.sub(r"\n +", "\n", attributes)
