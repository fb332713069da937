"""skyband bench view."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from skyband.cli.bench._shown import short

HELP = """Measure what an update of a top-k view costs, against kmax, for three workloads and several databases; and
leaderboards on Spark against plain Spark.

k is 100. The cost of an update is its CPU time and its part of the refills, which are priced as measured on each
database; "against best" compares it with the fixed kmax that would have been best in hindsight.

Examples:

  skyband bench view --quick

  skyband bench view --quick --json > view.jsonl
"""


def view(
    *,
    quick: Annotated[bool, typer.Option("--quick", help="A table of 100,000 rows instead of a million.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON line for every case as it ends.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the made-up updates.")] = 0,
    views: Annotated[bool, typer.Option(help="Measure views.")] = True,
    spark: Annotated[bool, typer.Option(help="Measure leaderboards on Spark.")] = True,
) -> None:
    """Run the view suite and print what it found."""
    if views:
        _views(quick=quick, as_json=as_json, seed=seed)
    if spark:
        _boards(quick=quick, as_json=as_json)


def _views(*, quick: bool, as_json: bool, seed: int) -> None:
    from skyband.bench.view import run

    before = ""
    for cost in run(quick=quick, seed=seed):
        if as_json:
            print(json.dumps(cost.as_dict()), flush=True)
            continue
        title = f"{cost.case}, {cost.base} (a refill costs {cost.refill_ms:.3g} ms)"
        if title != before:
            print(f"\n{title}\n{'kmax':>18}  {'updates':>8}  {'refills':>8}  {'cost per update':>15}  against best")
            before = title
        print(
            f"{cost.kmax:>18}  {short(cost.updates):>8}  {cost.refills:>8,}  {cost.cost_ns:>12,.1f} ns  "
            f"{cost.against_best:>12,.2f}",
            flush=True,
        )


def _boards(*, quick: bool, as_json: bool) -> None:
    from skyband.bench.boards import cases, run

    before = ""
    for result in run(cases(quick=quick)):
        if as_json:
            print(json.dumps(result.as_dict()), flush=True)
            continue
        if result.case != before:
            print(f"\n{result.case}\n{'way':>20}  {'rows/s':>8}  {'CPU per row':>12}  state")
            before = result.case
        rate = short(round(result.rows / result.seconds))
        print(
            f"{result.way:>20}  {rate:>8}  {result.micros_per_row:>9.2f} us  {result.state_bytes / 1e6:.2f} MB",
            flush=True,
        )
