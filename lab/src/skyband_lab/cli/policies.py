"""skyband compare-policies: the refresh policies of a join, side by side on the AcquaTop data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from skyband_lab.bench.acquatop import Evening

HELP = """Compare the refresh policies of a join on the AcquaTop data: 150 windows, against the truth.

One line a policy: the sums of nDCG@k and precision@k over the windows, and the look-ups that were made.

Examples:

  skyband compare-policies --set ch80 --k 5 --spare 10 --budget 7

  skyband compare-policies --set ch05 --seed 3 --budget 5 --json

  skyband compare-policies --plot errors.svg
"""

app = typer.Typer(add_completion=False)


@app.command("compare-policies", help=HELP)
def compare_policies(
    *,
    data: Annotated[
        Path | None, typer.Option(help="Folder of the AcquaTop data (else acquatop in SKYBAND_DATA).")
    ] = None,
    name: Annotated[str, typer.Option("--set", help="ch20, ch40 or ch80; with --seed also ch05 and ch10.")] = "ch20",
    seed: Annotated[int | None, typer.Option(help="Take the set made anew with this seed, 1 to 5.")] = None,
    k: Annotated[int, typer.Option(min=1, help="How many rows an answer has.")] = 5,
    spare: Annotated[int, typer.Option(min=0, help="How many objects are kept behind them (the paper's N).")] = 10,
    budget: Annotated[int, typer.Option(min=0, help="Look-ups an evaluation may make.")] = 7,
    save: Annotated[int, typer.Option(min=0, help="Unused look-ups that may be saved for later.")] = 0,
    policy: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only this policy; repeatable.")] = None,
    width_in_seconds: Annotated[
        bool,
        typer.Option(
            "--width-in-seconds",
            help="Let WSJ-WBM add the window's width in seconds to milliseconds, as the authors' program does.",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON line for every policy.")] = False,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the cumulated errors over the windows (the paper's figure 11).")
    ] = None,
) -> None:
    """Run the comparison and print what it found."""
    from skyband.api import compare
    from skyband.query.join import POLICIES, Budget
    from skyband_lab.bench.acquatop import SPAN, find_folder, load

    evening = load(find_folder(data), name, seed)
    query = evening.query(k, spare, Budget(budget, save))
    ways: list[Any] = list(policy or POLICIES)
    if width_in_seconds:
        ways = [_authors_wbm(evening) if way == "wsj-wbm" else way for way in ways]
    lines = compare(query, evening.mentions, ways, **SPAN).to_pylist()
    if plot is not None:
        from skyband_lab.bench.plots import errors

        errors(lines, plot)
    for line in lines:
        line.pop("ndcg_error"), line.pop("precision_error")
        line["ndcg"], line["precision"] = round(line["ndcg"], 4), round(line["precision"], 4)
    if as_json:
        for line in lines:
            print(json.dumps({**line, "set": name, "seed": seed, "k": k, "spare": spare, "budget": budget}))
        return
    _print_table(lines)


def _authors_wbm(evening: Evening) -> Any:
    from skyband_lab.bench.acquatop import WidthInSeconds

    return WidthInSeconds(evening)


def _print_table(lines: list[dict[str, Any]]) -> None:
    from rich.table import Table

    from skyband.cli._common import stdout_console

    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for column in ("policy", "paper"):
        table.add_column(column, no_wrap=True)
    for column in ("nDCG", "precision", "look-ups"):
        table.add_column(column, justify="right")
    for line in lines:
        made = str(line["lookups"])
        table.add_row(line["policy"], line["paper"], f"{line['ndcg']:.2f}", f"{line['precision']:.1f}", made)
    stdout_console().print(table)
