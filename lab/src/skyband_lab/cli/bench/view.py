"""skyband bench view."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from skyband_lab.cli.bench._shown import short

HELP = """Measure what an update of a top-k view costs, against kmax, for three workloads and several databases; and
leaderboards on Spark against plain Spark.

k is 100. The cost of an update is its CPU time and its part of the refills, which are priced as measured on each
database; "against best" compares it with the fixed kmax that would have been best in hindsight.

With --out, lines of the same things in that file are replaced and all others stay, so that it can be run in parts.

Examples:

  skyband bench view --quick

  skyband bench view --quick --json > view.jsonl

  skyband bench view --case sales --no-spark --out view.jsonl
"""
Lines = dict[tuple[str, ...], dict[str, Any]]


def view(
    *,
    quick: Annotated[bool, typer.Option("--quick", help="A table of 100,000 rows instead of a million.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON line for every case as it ends.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the made-up updates.")] = 0,
    case: Annotated[
        list[str] | None,
        typer.Option(metavar="WHAT", help='Only "sales", "ups and downs", "moving window" or "speed"; repeatable.'),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="File of JSON lines to keep the results in.")] = None,
    views: Annotated[bool, typer.Option(help="Measure views.")] = True,
    spark: Annotated[bool, typer.Option(help="Measure leaderboards on Spark.")] = True,
) -> None:
    """Run the view suite and print what it found."""
    from skyband_lab.bench.slide import checked
    from skyband_lab.bench.updates import WORKLOADS

    if not views and not spark:
        from skyband.errors import QueryError

        raise QueryError("views=False and spark=False leave nothing to measure: leave out --no-views or --no-spark")
    chosen = checked(case or [], [*WORKLOADS, "speed"], "case") or [*WORKLOADS, "speed"]
    show = _Shown(out, as_json=as_json)
    if views:
        _views(show, chosen, quick=quick, seed=seed)
    if spark:
        _boards(show, quick=quick)


class _Shown:
    """Prints and keeps what was measured, and says on the side what is being done."""

    def __init__(self, out: Path | None, *, as_json: bool) -> None:
        self.out, self.as_json = out, as_json
        self.began, self.before = time.monotonic(), ""
        self.lines: Lines = {}
        if out is not None:
            self.lines = _kept(out)

    def say(self, words: str) -> None:
        print(f"{time.monotonic() - self.began:5.0f} s  {words}", file=sys.stderr, flush=True)

    def line(self, line: dict[str, Any], title: str, head: str, text: str) -> None:
        """One result: kept, and printed under its title."""
        self.lines[_key(line)] = line
        if self.out is not None:
            self.out.write_text("".join(json.dumps(each) + "\n" for each in self.lines.values()), encoding="utf-8")
        if self.as_json:
            print(json.dumps(line), flush=True)
            return
        if title != self.before:
            print(f"\n{title}\n{head}")
            self.before = title
        print(text, flush=True)


def _kept(out: Path) -> Lines:
    """What a file of results holds; told before anything is measured if it cannot be read or written."""
    from skyband.errors import SinkError

    try:
        with out.open("a+", encoding="utf-8") as file:
            file.seek(0)
            return {_key(line): line for line in map(json.loads, file.read().splitlines())}
    except OSError as error:
        raise SinkError(
            f"out={str(out)!r} cannot be written ({error.strerror}): write a path in a folder that exists"
        ) from error
    except (ValueError, AttributeError) as error:
        raise SinkError(
            f"out={str(out)!r} holds something else than results: write the path of another file"
        ) from error


def _key(line: dict[str, Any]) -> tuple[str, ...]:
    return tuple(str(line.get(name, "")) for name in ("case", "base", "kmax", "way"))


def _views(show: _Shown, chosen: list[str], *, quick: bool, seed: int) -> None:
    from skyband_lab.bench import reads
    from skyband_lab.bench import view as suite

    scale = suite.QUICK if quick else suite.FULL
    cases = [case for case in chosen if case in suite.WORKLOADS]
    if cases:
        for cost in suite.run(scale, cases=cases, seed=seed, say=show.say):
            show.line(
                cost.as_dict(),
                f"{cost.case}, {cost.base} (a refill costs {cost.refill_ms:.3g} ms)",
                f"{'kmax':>18}  {'updates':>8}  {'refills':>8}  {'cost per update':>15}  against best",
                f"{cost.kmax:>18}  {short(cost.updates):>8}  {cost.refills:>8,}  {cost.cost_ns:>12,.1f} ns  "
                f"{cost.against_best:>12,.2f}",
            )
    if "speed" in chosen:
        show.say("ignorable updates and reads")
        for speed in reads.run(scale.rows, suite.K, seed=seed):
            show.line(
                speed.as_dict(),
                "updates that can be ignored, and reads",
                f"{'':>46}  {'each':>12}  a second",
                f"{speed.case + ': ' + speed.way:>46}  {speed.each_ns:>9,.1f} ns  {short(1e9 / speed.each_ns):>8}",
            )


def _boards(show: _Shown, *, quick: bool) -> None:
    from skyband_lab.bench.boards import cases, run

    for result in run(cases(quick=quick), say=show.say):
        rate = short(round(result.rows / result.seconds))
        show.line(
            result.as_dict(),
            result.case,
            f"{'way':>20}  {'rows/s':>8}  {'CPU per row':>12}  state",
            f"{result.way:>20}  {rate:>8}  {result.micros_per_row:>9.2f} us  {result.state_bytes / 1e6:.2f} MB",
        )
