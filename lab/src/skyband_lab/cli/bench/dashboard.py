"""skyband bench dashboard."""

from __future__ import annotations

import json
from typing import Annotated

import typer

HELP = """Measure the dashboard in a real browser, with many queries behind it that answer five times a second.

The server should take less than 5 % of one core, and no frame of the page more than 50 ms of processor time. Frames
are also given by the clock, which other programs on the machine disturb: an empty page in a second browser is watched
at the same time, and shows what they do.

Examples:

  skyband bench dashboard

  skyband bench dashboard --queries 100 --seconds 5 --json
"""


def dashboard(
    *,
    queries: Annotated[int, typer.Option(min=1, help="How many queries are behind it.")] = 1000,
    seconds: Annotated[float, typer.Option(min=1.0, help="How long each view is watched.")] = 10.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON line for every view.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the made-up answers.")] = 0,
) -> None:
    """Run the dashboard suite and print what it found."""
    from skyband_lab.bench.dashboard import measure_all

    for load in measure_all(queries=queries, seconds=seconds, seed=seed):
        if as_json:
            print(json.dumps(load.as_dict()), flush=True)
        else:
            print(
                f"{load.view:6} {load.fed:9} {load.boards:3} boards at {load.updates:.1f} updates/s  "
                f"server {load.server:.1%} + hub {load.feeding:.1%} of a core  "
                f"busiest frame {load.busiest_frame:.1f} ms, longest {load.longest_frame:.0f} ms "
                f"({load.frames_over} over 50 ms; empty page {load.empty_longest:.0f} ms, {load.empty_over})  "
                f"{'good' if load.good else 'NOT GOOD'}",
                flush=True,
            )
