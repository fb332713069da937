"""skyband view: plan the size of a view."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Top-k views over tables.", no_args_is_help=True)

PLAN = """Compare sizes of a view: refill interval and cost per update for each kmax.

p and q are the shares of updates that remove a row from the view and that add one. The plan uses the random-walk model
of Yi et al. (ICDE 2003).

Examples:

  skyband view plan --rows 1000000 --k 100

  skyband view plan --rows 1000000 --k 100 --p 0.02 --q 0.02 --refill 400ms --update 1us --plot plan.svg
"""

_UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}


@app.callback()
def _view() -> None:
    """Keep `plan` a command of its own while it is the only one."""


@app.command("plan", help=PLAN)
def plan(
    *,
    rows: Annotated[int, typer.Option(min=1, help="Rows of the base table.")] = 1_000_000,
    k: Annotated[int, typer.Option(min=1, help="Rows of the list.")] = 100,
    p: Annotated[float, typer.Option(min=0, max=1, help="Share of updates that remove a row.")] = 0.01,
    q: Annotated[float, typer.Option(min=0, max=1, help="Share of updates that add a row.")] = 0.01,
    refill: Annotated[str, typer.Option(help="Cost of a refill: 400ms, 2s.")] = "400ms",
    update: Annotated[str, typer.Option(help="Cost of an update of the view: 1us, 7ns.")] = "1us",
    plot: Annotated[Path | None, typer.Option(help="Plot the costs into this file (needs skyband\\[plot]).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Print the plan, and plot it on request."""
    from skyband.view.model import Costs, plan_size, plot_plan

    found = plan_size(rows, k, p, q, Costs(parse_cost(refill, "refill"), parse_cost(update, "update")))
    if plot is not None:
        plot_plan(found, plot)
    if as_json:
        print(json.dumps(found.as_dict()))
        return
    print(f"{'kmax':>10}  {'of rows':>8}  {'refill every':>14}  {'cost per update':>16}")
    for point in found.points:
        mark = "  <- least" if point.kmax == found.best else ""
        every = f"{point.interval:,.0f}" if point.interval < 1e15 else f"{point.interval:.1e}"
        every = every if math.isfinite(point.interval) else "never"
        print(f"{point.kmax:>10,}  {point.kmax / rows:>8.2%}  {every:>14}  {format_cost(point.cost):>16}{mark}")
    for note in found.notes:
        print(note)


def parse_cost(text: str, field: str) -> float:
    """Return a cost such as 400ms in seconds.

    Examples
    --------
    >>> parse_cost("400ms", "refill")
    0.4
    """
    from skyband.errors import QueryError

    for unit, size in _UNITS.items():
        if text.endswith(unit):
            try:
                value = float(text[: -len(unit)]) * size
            except ValueError:
                break
            if 0 < value < 1e9:
                return value
            break
    raise QueryError(f"{field} must be a number with ns, us, ms or s, such as 400ms, got {text!r}")


def format_cost(cost: float) -> str:
    """Format a cost in the unit that fits.

    Examples
    --------
    >>> format_cost(0.0000021), format_cost(0.4), format_cost(0.000001)
    ('2.1 us', '400 ms', '1 us')
    """
    for unit, size in _UNITS.items():
        if cost < 999.5 * size or unit == "s":
            return f"{cost / size:.3g} {unit}"
    raise AssertionError
