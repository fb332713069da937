"""A join's state as named columns, and a join from them: what survives a restart."""

from __future__ import annotations

import time as clock_time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from skyband.flow.part import Part, joined
from skyband.flow.saved import refusing
from skyband.join.board import LONG_AGO, Board
from skyband.join.replica import NEVER
from skyband.join.summed import Summed
from skyband.join.valued import Valued
from skyband.windows.timeline import Late

if TYPE_CHECKING:
    from skyband.join.pipeline import JoinPipeline

Saved = dict[str, "np.ndarray | pa.Table"]
"""Arrays and tables by name."""


def save(line: JoinPipeline) -> Saved:
    """All that `line` needs to go on elsewhere: the replica, the lists, the rows on them, what waits."""
    forget_keys(line)
    lookup, time = line.lookup, line.timeline
    quiet = int((clock_time.time() + lookup.quiet - clock_time.monotonic()) * 1e6)  # as others read the clock
    at = [time.watermark, time.newest, *time.lost, line.position, line.begun, line.purse.saved, quiet]
    saved: Saved = {
        "line": np.array(at, np.int64),
        "boards": np.array(list(line.boards), np.int64).reshape(-1, 2),
        **{f"replica/{name}": column for name, column in line.replica.saved().items()},
    }
    for place, board in enumerate(line.boards.values()):
        saved |= {f"board/{place}/{name}": value for name, value in _board_saved(board).items()}
    tables = {"keys": line.keys.table()}
    tables |= {f"groups/{n}": None if g is None else g.table() for n, g in enumerate(line.groups)}
    saved |= {name: table for name, table in tables.items() if table is not None}
    pushed = line.changes.saved()
    if pushed is not None:
        saved["pushed/time"], saved["pushed"] = pushed
    if line.waiting:
        part = joined(line.waiting).sorted()
        saved["waiting"], saved["waiting/time"] = part.rows, part.time
        if part.id is not None:
            saved["waiting/id"] = part.id
    return saved


def _board_saved(board: Board) -> Saved:
    held = board.held
    held.clean()
    upcoming, slots, rows = held.payload.saved()
    window = LONG_AGO if board.window is None else board.window
    saved: Saved = {
        "at": np.array([window, board.reach, upcoming], np.int64),
        "slots": slots,
        "seen": board.arrived,
    }
    if rows is not None:
        saved["rows"] = rows
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
    return saved


@refusing()
def load(line: JoinPipeline, saved: Mapping[str, Any]) -> None:
    """Put a new pipeline where another one stood when it was saved."""
    watermark, newest, late, ahead, position, begun, purse, quiet = (int(x) for x in saved["line"])
    time = line.timeline
    time.watermark, time.newest, time.lost = watermark, newest, Late(late, ahead)
    line.position, line.begun, line.purse.saved = position, bool(begun), purse
    line.lookup.quiet = quiet / 1e6 - clock_time.time() + clock_time.monotonic()
    if "keys" in saved:
        line.keys.load(saved["keys"])
    for number, groups in enumerate(line.groups):
        if groups is not None and f"groups/{number}" in saved:
            groups.load(saved[f"groups/{number}"])
    line.replica.load(_named(saved, "replica/"))
    for place, (number, group) in enumerate(saved["boards"].tolist()):
        board = line.boards[(number, group)] = Board(line, number, line.queries[number], group)
        _board_load(board, _named(saved, f"board/{place}/"))
    if "pushed" in saved:
        line.changes.load(saved["pushed/time"], saved["pushed"])
    if "waiting" in saved:
        rows, when = saved["waiting"], saved["waiting/time"]
        line.waiting = [Part(rows, np.zeros(len(when)), when, saved.get("waiting/id"), None)]


def _board_load(board: Board, saved: Mapping[str, Any]) -> None:
    held = board.held
    window, board.reach, upcoming = (int(x) for x in saved["at"])
    board.window = None if window == LONG_AGO else window
    board.arrived = np.array(saved["seen"])
    held.payload.load(upcoming, saved["slots"], saved.get("rows"))
    if isinstance(held, Summed):
        held.counts.load(_named(saved, "counts/"))
        return
    held.list.load(_named(saved, "list/"))
    held.unscored = np.array(saved["unscored"])
    held.extremes = []
    for row in saved["extremes"].to_pylist() if "extremes" in saved else []:
        if not held.extremes or held.extremes[-1][0] != row["pane"]:
            held.extremes.append((row["pane"], {}))
        held.extremes[-1][1][row["name"]] = (row["low"], row["high"])


def _named(saved: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    return {n.removeprefix(prefix): c for n, c in saved.items() if n.startswith(prefix)}


def forget_keys(line: JoinPipeline) -> None:
    """Drop the numbers of keys that were never read, or were forgotten, and that no open window holds."""
    table = line.keys.table()
    if table is None:
        return
    keep = line.replica.time > NEVER
    for board in line.boards.values():
        keep[board.needed()] = True
        keep[board.held.keys_held()] = True
    if keep.all():
        return
    codes = np.flatnonzero(keep)
    number = np.cumsum(keep) - 1
    line.keys.load(table.take(pa.array(codes)))
    line.replica.renumber(codes)
    line.forget_ties()
    for board in line.boards.values():
        board.grow_to(len(keep))
        board.arrived = board.arrived[codes]
        board.held.renumber(number)
