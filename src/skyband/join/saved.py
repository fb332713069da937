"""A join's state as named columns, and a join from them: what survives a restart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from skyband.flow.part import Part, joined
from skyband.flow.saved import refusing
from skyband.join.valued import Valued
from skyband.windows.timeline import Late

if TYPE_CHECKING:
    from skyband.join.pipeline import JoinPipeline

Saved = dict[str, "np.ndarray | pa.Table"]
"""Arrays and tables by name."""

_UNSET = -(1 << 62)


def save(line: JoinPipeline) -> Saved:
    """All that `line` needs to go on elsewhere: the replica, the list, the rows on it, what waits."""
    held, time = line.held, line.timeline
    held.clean()
    upcoming, slots, rows = held.payload.saved()
    window = _UNSET if line.window is None else line.window
    at = [time.watermark, time.newest, *time.lost, upcoming, window, line.reach, line.position]
    saved: Saved = {
        "line": np.array([*at, line.begun, line.purse.saved], np.int64),
        "slots": slots,
        "seen": line.arrived,
        **{f"replica/{name}": column for name, column in line.replica.saved().items()},
    }
    if isinstance(held, Valued):
        saved |= {f"list/{name}": column for name, column in held.list.saved().items()}
        saved["unscored"] = held.unscored
        extremes = [(pane, n, *ends) for pane, found in held.extremes for n, ends in found.items()]
        if extremes:
            saved["extremes"] = pa.table(
                dict(zip(("pane", "name", "low", "high"), zip(*extremes, strict=True), strict=True))
            )
    else:
        saved |= {f"counts/{name}": column for name, column in held.counts.saved().items()}
    for name, table in (("rows", rows), ("keys", line.keys.table())):
        if table is not None:
            saved[name] = table
    pushed = line.changes.saved()
    if pushed is not None:
        saved["pushed/time"], saved["pushed"] = pushed
    if line.waiting:
        part = joined(line.waiting).sorted()
        saved["waiting"], saved["waiting/time"] = part.rows, part.time
        if part.id is not None:
            saved["waiting/id"] = part.id
    return saved


@refusing()
def load(line: JoinPipeline, saved: Mapping[str, Any]) -> None:
    """Put a new pipeline where another one stood when it was saved."""

    def named(prefix: str) -> dict[str, Any]:
        return {n.removeprefix(prefix): c for n, c in saved.items() if n.startswith(prefix)}

    watermark, newest, late, ahead, upcoming, window, reach, position, begun, purse = (int(x) for x in saved["line"])
    time, held = line.timeline, line.held
    time.watermark, time.newest, time.lost = watermark, newest, Late(late, ahead)
    line.window = None if window == _UNSET else window
    line.reach, line.position, line.begun, line.purse.saved = reach, position, bool(begun), purse
    line.arrived = np.array(saved["seen"])
    if "keys" in saved:
        line.keys.load(saved["keys"])
    line.replica.load(named("replica/"))
    held.payload.load(upcoming, saved["slots"], saved.get("rows"))
    if isinstance(held, Valued):
        held.list.load(named("list/"))
        held.unscored = np.array(saved["unscored"])
        held.extremes = []
        for row in saved["extremes"].to_pylist() if "extremes" in saved else []:
            if not held.extremes or held.extremes[-1][0] != row["pane"]:
                held.extremes.append((row["pane"], {}))
            held.extremes[-1][1][row["name"]] = (row["low"], row["high"])
    else:
        held.counts.load(named("counts/"))
    if "pushed" in saved:
        line.changes.load(saved["pushed/time"], saved["pushed"])
    if "waiting" in saved:
        rows, when = saved["waiting"], saved["waiting/time"]
        line.waiting = [Part(rows, np.zeros(len(when)), when, saved.get("waiting/id"), None)]
