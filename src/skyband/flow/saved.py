"""A pipeline's state as named columns, and a pipeline from them: what survives a restart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from skyband.engines.checked import among, checked, held, require, under, whole
from skyband.errors import SnapshotError
from skyband.flow.part import Part, joined
from skyband.windows.timeline import Late

if TYPE_CHECKING:
    from skyband.engines.protocol import GroupedEngine, Objects
    from skyband.flow.payload import Payload
    from skyband.flow.pipeline import Pipeline

Saved = dict[str, "np.ndarray | pa.Table"]
"""Arrays and tables by name."""


def save(line: Pipeline) -> Saved:
    """All that `line` needs to go on elsewhere. Groups that have nothing left to say are forgotten."""
    forget_idle(line)
    line.payload.keep(line.emitter.needed(line.engine.candidates().id))
    upcoming, slots, rows = line.payload.saved()
    time = line.timeline
    saved: Saved = {
        "line": np.array([time.watermark, time.newest, *time.lost, upcoming], np.int64),
        "slots": slots,
        "counts": line.positions,
        **{f"engine/{name}": column for name, column in line.engine.snapshot().items()},
        **{f"emit/{name}": column for name, column in line.emitter.saved().items()},
    }
    if rows is not None:
        saved["rows"] = rows
    groups = None if line.groups is None else line.groups.table()
    if groups is not None:
        saved["groups"] = groups
    if line.waiting:
        part = joined(line.waiting).sorted()
        saved["waiting"] = part.rows
        for name, column in zip(Part._fields[1:], part[1:], strict=True):
            if column is not None:
                saved[f"waiting/{name}"] = column
    return saved


_BROKEN = (
    KeyError, IndexError, ValueError, TypeError, AttributeError, AssertionError, ArithmeticError, MemoryError,
    pa.ArrowException,
)  # fmt: skip


@contextmanager
def refusing() -> Iterator[None]:
    """What does not fit together while a state is loaded, as a SnapshotError."""
    try:
        yield
    except _BROKEN as error:
        if isinstance(error, SnapshotError):
            raise
        msg = f"this state does not fit the query ({type(error).__name__}: {error}): start without it, from the source"
        raise SnapshotError(msg) from error


_ROWS = 1 << 60  # of a stream
_STEPS = 1 << 31  # positions that may follow after the last row that is kept
_HOLDS = {
    "line": held("i8", 5),
    "slots": held("i8", "slots", low=0),
    "counts": held("i8", "positions", low=0),
}
_WAITING = {"score": held("f8", "rows"), "time": held("i8", "rows")}


@refusing()
def load(line: Pipeline, engine: str, saved: Saved) -> None:
    """Put a new pipeline where another one stood when it was saved."""
    found = checked(saved, _HOLDS)
    watermark, newest, late, ahead, upcoming = (int(x) for x in found["line"])
    require(min(late, ahead, upcoming) >= 0, "line has a value that it cannot have")
    line.timeline.watermark, line.timeline.newest, line.timeline.lost = watermark, newest, Late(late, ahead)
    if line.groups is not None and "groups" in saved:
        line.groups.load(table_of(saved, "groups"))
    lists = 1 if line.groups is None else len(line.groups)
    parts = under(saved, "engine/")
    line.engine = line.made(engine, parts)
    line.emitter.load(under(saved, "emit/"), lists)
    line.positions = found["counts"]
    require(len(line.positions) <= lists, "counts has more groups than there are")
    rows = table_of(saved, "rows") if "rows" in saved else None
    load_payload(line.payload, upcoming, found["slots"], rows)
    if line.clock.counts or not {"id", "first"} <= parts.keys():
        kept = line.engine.candidates()
        ids, groups = kept.id, 0 if kept.group is None else int(kept.group.max(initial=-1)) + 1
        if line.clock.counts:
            _check_positions(line, kept)
    else:  # the rows as they are: asking for them would prune them once more
        ids, groups = parts["id"], parts["first"].shape[1]
    among(line.emitter.needed(ids), found["slots"], "the engine")
    require(groups <= lists, "there are rows of groups that never came")
    if "waiting" in saved:
        line.waiting = [_waiting(line, table_of(saved, "waiting"), under(saved, "waiting/"), lists)]


def table_of(saved: Mapping[str, Any], name: str) -> pa.Table:
    """A table that was saved."""
    found = saved[name]
    require(isinstance(found, pa.Table), f"{name} is no table")
    return cast("pa.Table", found)


def load_payload(payload: Payload, upcoming: int, slots: np.ndarray, rows: pa.Table | None) -> None:
    """Have a payload go on with saved rows."""
    require(len(slots) == (0 if rows is None else rows.num_rows), "slots counts other rows than there are")
    require(np.diff(slots) > 0, "slots do not rise")
    require((slots < upcoming) & (upcoming < _ROWS), "slots names a row that never came")
    payload.load(upcoming, slots, rows)


def _check_positions(line: Pipeline, kept: Objects) -> None:
    """Steps are made up to where each group has come, so this must not lie far after what is kept."""
    reach = np.zeros(len(line.positions), np.int64)
    group = np.zeros(len(kept.time), np.int64) if kept.group is None else kept.group
    require(group < len(reach), "counts has fewer groups than there are")
    np.maximum.at(reach, group, kept.time)
    require(line.positions - reach < _STEPS, "counts lies far after the rows that are kept")
    require((line.positions > reach) | (reach == 0), "there are rows after the last one counted")


def _waiting(line: Pipeline, rows: pa.Table, columns: Mapping[str, Any], lists: int) -> Part:
    holds = dict(_WAITING)
    score = columns.get("score")
    if isinstance(score, np.ndarray) and score.ndim > 1:  # points
        holds["score"] = held("f8", "rows", score.shape[1])
    if line.query.id is not None:
        holds["id"] = whole("rows")
        if "missing" in columns:
            holds["missing"] = held("?", "rows")
    if line.groups is not None:
        holds["group"] = held("i4", "rows", low=0, high=lists - 1)
    found = checked(columns, holds, rows=rows.num_rows)
    part = Part(rows, *(found.get(name) for name in Part._fields[1:]))  # type: ignore[arg-type]
    require(part.in_order(), "the rows that wait are in no order of time")
    return part


def forget_idle(line: Pipeline) -> None:
    """Drop groups that keep no rows, wait with none and owe no deletion. Positions of counting windows stay."""
    groups = line.groups
    table = None if groups is None else groups.table()
    if groups is None or table is None or line.clock.counts:
        return
    engine = cast("GroupedEngine", line.engine)
    busy = [engine.busy(), line.emitter.busy(), *(p.group for p in line.waiting if p.group is not None)]
    keep = np.unique(np.concatenate(busy)).astype(np.int64)
    if len(keep) == len(groups):
        return
    engine.regroup(keep)
    line.emitter.regroup(keep)
    groups.load(table.take(pa.array(keep)))
    number = np.zeros(table.num_rows, np.int32)
    number[keep] = np.arange(len(keep), dtype=np.int32)
    line.waiting = [p._replace(group=number[p.group]) for p in line.waiting]
