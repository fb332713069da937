"""A join's state as named columns, and a join from them: what survives a restart."""

from __future__ import annotations

import time as clock_time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from skyband.engines.validation import WINDOWS, among, checked, held, require, under, whole
from skyband.join.board import LONG_AGO, Board
from skyband.join.replica import NEVER
from skyband.join.summed import Summed
from skyband.join.valued import Valued
from skyband.runtime.batch import PreparedBatch, joined
from skyband.runtime.saved import load_payload, refusing, table_of
from skyband.windows.watermark import DroppedRows

if TYPE_CHECKING:
    from skyband.join.pipeline import JoinPipeline

Saved = dict[str, "np.ndarray | pa.Table"]
"""Arrays and tables by name."""


def save(line: JoinPipeline) -> Saved:
    """All that `line` needs to go on elsewhere: the replica, the lists, the rows on them, what waits."""
    forget_keys(line)
    lookup, time = line.remote.lookup, line.timeline
    quiet = int((clock_time.time() + lookup.quiet - clock_time.monotonic()) * 1e6)  # as others read the clock
    at = [time.watermark, time.newest, *time.dropped, line.position, line.begun, line.remote.purse.saved, quiet]
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
        if part.missing is not None:
            saved["waiting/missing"] = part.missing
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
        saved["forgotten"], saved["ranked"] = held.forgotten, held.ranked
        known = held.extremes
        column, place = np.nonzero(~np.isnan(known.low))
        if len(place):
            saved["extremes"] = pa.table({
                "pane": board.clock.start(place + known.oldest),
                "name": [known.columns[i] for i in column],
                "low": known.low[column, place],
                "high": known.high[column, place],
            })  # fmt: skip
    else:
        saved |= {f"counts/{name}": column for name, column in held.counts.saved().items()}
    return saved


_HOLDS = {"line": held("i8", 8), "boards": held("i8", "boards", 2, low=0)}
_FORGOTTEN = {"forgotten": held("i8", "keys"), "ranked": held("?", "keys")}
_BOARD = {"at": held("i8", 3), "slots": held("i8", "slots", low=0), "seen": held("i8", "seen")}


@refusing()
def load(line: JoinPipeline, saved: Mapping[str, Any]) -> None:
    """Put a new pipeline where another one stood when it was saved."""
    found = checked(saved, _HOLDS)
    watermark, newest, late, ahead, position, begun, purse, quiet = (int(x) for x in found["line"])
    require(min(late, ahead, position) >= 0, "line has a value that it cannot have")
    time = line.timeline
    time.watermark, time.newest, time.dropped = watermark, newest, DroppedRows(late, ahead)
    line.position, line.begun, line.remote.purse.saved = position, bool(begun), purse
    line.remote.lookup.quiet = quiet / 1e6 - clock_time.time() + clock_time.monotonic()
    if "keys" in saved:
        line.keys.load(table_of(saved, "keys"))
    for number, groups in enumerate(line.groups):
        if groups is not None and f"groups/{number}" in saved:
            groups.load(table_of(saved, f"groups/{number}"))
    line.replica.load(under(saved, "replica/"))
    require(len(line.replica.time) == len(line.keys), "the replica has other keys than there are")
    for place, (number, group) in enumerate(found["boards"].tolist()):
        require(number < len(line.queries), "a board is of a query that is not there")
        names = line.groups[number]
        require(group < (1 if names is None else len(names)), "a board is of a group that never came")
        board = line.boards[(number, group)] = Board(line, number, line.queries[number], group)
        _board_load(board, under(saved, f"board/{place}/"))
    if "pushed" in saved:
        rows = table_of(saved, "pushed")
        line.changes.load(checked(saved, {"pushed/time": held("i8", "rows")}, rows=rows.num_rows)["pushed/time"], rows)
    if "waiting" in saved:
        line.waiting = [_waiting(line, saved)]


def _waiting(line: JoinPipeline, saved: Mapping[str, Any]) -> PreparedBatch:
    rows = table_of(saved, "waiting")
    holds = {"time": held("i8", "rows")} | ({} if line.queries[0].id is None else {"id": whole("rows")})
    columns = under(saved, "waiting/")
    if "missing" in columns and "id" in holds:
        holds["missing"] = held("?", "rows")
    found = checked(columns, holds, rows=rows.num_rows)
    part = PreparedBatch(rows, np.zeros(rows.num_rows), found["time"], found.get("id"), None, found.get("missing"))
    require(part.in_order(), "the rows that wait are in no order of time")
    return part


def _board_load(board: Board, saved: Mapping[str, Any]) -> None:
    found = checked(saved, _BOARD)
    kept, keys = board.held, len(board.line.keys)
    window, board.reach, upcoming = (int(x) for x in found["at"])
    board.window = None if window == LONG_AGO else window
    require(LONG_AGO in (board.reach, window) or board.reach - window < WINDOWS, "a window lies far away")
    board.arrived = found["seen"]
    require(len(board.arrived) <= keys, "there are rows of keys that never came")
    load_payload(kept.payload, upcoming, found["slots"], table_of(saved, "rows") if "rows" in saved else None)
    if isinstance(kept, Summed):
        kept.counts.load(under(saved, "counts/"))
        slots = kept.counts.slots()
    else:
        kept.list.load(under(saved, "list/"))
        _valued_load(kept, saved)
        slots = np.concatenate([kept.list.listed.slot, kept.unscored[0]])
    among(slots, found["slots"], "the list")
    named = kept.keys_held()
    require((named >= 0) & (named < keys), "there are rows of keys that never came")


def _valued_load(kept: Valued, saved: Mapping[str, Any]) -> None:
    """Restore what a list has besides its objects. States before `forgotten` do not tell: all keys may be."""
    board, clock = kept.line, kept.line.clock
    known = "forgotten" in saved
    unscored = checked(saved, {"unscored": held("i8", 3 if known else 2, "unscored")})["unscored"]
    extremes = kept.extremes
    extremes.expire(kept.list.oldest)
    for row in table_of(saved, "extremes").to_pylist() if "extremes" in saved else []:
        window = int(clock.last(row["pane"]))
        require(window - extremes.oldest < WINDOWS, "a window lies far away")
        extremes.add(extremes.columns.index(row["name"]), np.array([window]), row["low"], row["high"])
    listed = kept.list.listed
    rows = kept.payload.take(listed.slot) if len(listed.slot) else None
    if rows is not None:
        kept.list.listed = listed._replace(values=extremes.numbers(rows))
    if known:
        kept.unscored = unscored
        found = checked(saved, _FORGOTTEN)
        kept.forgotten, kept.ranked = found["forgotten"], found["ranked"]
        require(len(kept.forgotten) <= len(board.keys), "there are forgotten rows of keys that never came")
        return
    require((unscored[1] >= 0) & (unscored[1] < len(board.arrived)), "there are rows of keys that never came")
    last = clock.last(board.arrived[unscored[1]])
    if board.join.each == "row" and len(last):  # the rows tell, or for windows that count the slots
        rows = None if clock.counts or board.time is None else kept.payload.take(unscored[0])
        at = unscored[0] if rows is None else board.time.micros(rows[board.query.time])[0]  # type: ignore[union-attr]
        last = clock.last(at)
    kept.unscored = np.stack([*unscored, last])
    kept.grow()
    there = np.flatnonzero(board.arrived > LONG_AGO)
    if board.join.each == "key":
        there = np.setdiff1d(there, kept.keys_held())
    kept.forgotten[there], kept.ranked[there] = clock.last(board.arrived[there]), not extremes.conditional
    if len(there) and board.join.changes is None:
        extremes.unknown(int(kept.forgotten.max()))
    if board.join.each == "row" or len(board.line.queries) > 1 or board.query.per:  # nor did it doubt what others read
        kept.list.doubt(np.full(len(there), np.inf), kept.forgotten[there])


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
        board.held.renumber(codes, number)
