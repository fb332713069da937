"""A pipeline's state as named columns, and a pipeline from them: what survives a restart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from skyband.engines.validation import among, checked, held, require, under, whole
from skyband.errors import SnapshotError
from skyband.runtime.batch import PreparedBatch, joined
from skyband.windows.watermark import DroppedRows

if TYPE_CHECKING:
    from skyband.engines.protocol import Objects
    from skyband.runtime.groups import Groups
    from skyband.runtime.pipeline import Pipeline
    from skyband.runtime.row_store import RowStore
    from skyband.runtime.runs import GroupRuns

Saved = dict[str, "np.ndarray | pa.Table"]
"""Arrays and tables by name."""


def save(line: Pipeline) -> Saved:
    """All that `line` needs to go on elsewhere. Groups that have nothing left to say are forgotten."""
    line.forget_groups()
    line.payload.keep(line.emitter.needed(line.engine.candidates().id))
    upcoming, slots, rows = line.payload.saved()
    time = line.timeline
    saved: Saved = {
        "line": np.array([time.watermark, time.newest, *time.dropped, upcoming], np.int64),
        "slots": slots,
        "counts": line.positions,
        **{f"engine/{name}": column for name, column in line.engine.snapshot().items()},
        **{f"emit/{name}": column for name, column in line.emitter.saved().items()},
    }
    if rows is not None:
        saved["rows"] = rows
    number = _save_groups(line, saved)
    if line.waiting:
        part = joined(line.waiting).sorted()
        if part.group is not None and number is not None:
            part = part._replace(group=number[part.group])
        saved["waiting"] = part.rows
        for name, column in zip(PreparedBatch._fields[1:], part[1:], strict=True):
            if column is not None:
                saved[f"waiting/{name}"] = column
    return saved


def _save_groups(line: Pipeline, saved: Saved) -> np.ndarray | None:
    if line.groups is None:
        return None
    if line.runs is not None:
        return save_groups(line.groups, line.runs, saved)
    table = line.groups.table()
    if table is not None:
        saved["groups"] = table
    return None


def save_groups(groups: Groups, runs: GroupRuns, saved: Saved) -> np.ndarray | None:
    """Save groups by the numbers of their runs, then those of which rows wait only; the number of each group."""
    if not len(groups):
        return None
    owner = runs.groups(np.arange(runs.count))
    number = np.full(len(groups), -1, np.int32)
    number[owner] = np.arange(len(owner), dtype=np.int32)
    rest = np.flatnonzero(number < 0)
    number[rest] = np.arange(len(owner), len(owner) + len(rest), dtype=np.int32)
    saved["groups"] = pa.Table.from_arrays(groups.values(np.concatenate([owner, rest])), names=groups.per)
    saved["groups/last"] = runs.saved()
    return number


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
    line.timeline.watermark, line.timeline.newest, line.timeline.dropped = watermark, newest, DroppedRows(late, ahead)
    group = _load_groups(line, saved)
    lists = line.lists()
    line.stand_at(watermark, newest)
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
        known = lists if group is None else len(group)
        part = _waiting(line, table_of(saved, "waiting"), under(saved, "waiting/"), known)
        line.waiting = [part if part.group is None or group is None else part._replace(group=group[part.group])]


def _load_groups(line: Pipeline, saved: Saved) -> np.ndarray | None:
    if line.groups is None or "groups" not in saved:
        return None
    if line.runs is not None:
        return load_groups(line.groups, line.runs, saved, max(line.timeline.newest, line.timeline.watermark))
    line.groups.load(table_of(saved, "groups"))
    return None


def load_groups(groups: Groups, runs: GroupRuns, saved: Saved, now: int) -> np.ndarray | None:
    """Know saved groups again; the group of each row of their table."""
    if "groups" not in saved:
        return None
    group = groups.codes(table_of(saved, "groups"))
    if "groups/last" in saved:
        last = checked(saved, {"groups/last": held("i8", "runs")})["groups/last"]
    else:  # saved before it was known when a group was seen last: it goes on
        last = np.full(len(group), now)
    require(len(last) <= len(group), "groups/last has more groups than there are")
    runs.load(group[: len(last)], last, len(groups))
    return group


def table_of(saved: Mapping[str, Any], name: str) -> pa.Table:
    """A table that was saved."""
    found = saved[name]
    require(isinstance(found, pa.Table), f"{name} is no table")
    return cast("pa.Table", found)


def load_payload(payload: RowStore, upcoming: int, slots: np.ndarray, rows: pa.Table | None) -> None:
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


def _waiting(line: Pipeline, rows: pa.Table, columns: Mapping[str, Any], lists: int) -> PreparedBatch:
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
    part = PreparedBatch(rows, *(found.get(name) for name in PreparedBatch._fields[1:]))  # type: ignore[arg-type]
    require(part.in_order(), "the rows that wait are in no order of time")
    return part
