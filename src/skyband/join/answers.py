"""Answers of a join as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from skyband.join.replica import NEVER
from skyband.join.topkn import STATUS

if TYPE_CHECKING:
    from skyband.join.pipeline import JoinPipeline


class Answer(NamedTuple):
    """One window's list, best first."""

    end: int
    now: int
    score: np.ndarray
    key: np.ndarray
    place: np.ndarray  # of the remote row in the replica
    status: np.ndarray
    rows: pa.Table | None  # the stream's rows
    remote: pa.Table | None
    age: np.ndarray  # of the remote row; NaN where there is none
    values: tuple[np.ndarray, ...] = ()  # over the window
    lookups: tuple[int, int, int, int] = (0, 0, 0, 0)


def ages(line: JoinPipeline, key: np.ndarray, now: int) -> np.ndarray:
    """How old each key's remote row is: seconds, or rows for windows that count."""
    read = line.replica.time[key]
    unit = 1.0 if line.clock.counts else 1e6
    return np.where(read == NEVER, np.nan, np.maximum(now - read, 0) / unit)


def columns_of(line: JoinPipeline, answers: list[Answer]) -> pa.Table:
    """The lists, one after the other."""
    query, join = line.query, line.join
    answers = [a for a in answers if len(a.key)]
    sizes = [len(a.key) for a in answers]
    start, end = line.clock.shown(np.repeat(np.array([a.end for a in answers], np.int64), sizes))
    window = [pa.array(x) if line.clock.counts or line.time is None else line.time.column(x) for x in (start, end)]
    score = _joined([a.score for a in answers])
    columns = {
        query.column("window_start"): window[0],
        query.column("window_end"): window[1],
        query.column("rank"): pa.array(_joined([np.arange(1, n + 1) for n in sizes], np.int32), pa.int32()),
        query.column("score"): pa.array(-score if query.ascending else score),
    }
    own = [a.rows for a in answers if a.rows is not None]
    rows = pa.concat_tables(own, promote_options="default") if own else None
    for field in line.schema:
        column = pa.array([], field.type) if rows is None else rows.column(field.name)
        columns[field.name] = column if column.type == field.type else column.cast(field.type)
    for i, name in enumerate(join.aggregate_names):
        value = _joined([a.values[i] for a in answers])
        whole = join.aggregates[i].function == "count"
        columns[name] = pa.array(value.astype(np.int64) if whole else value, from_pandas=not whole)
    remote = [a.remote for a in answers if a.remote is not None]
    there = pa.concat_tables(remote, promote_options="default") if remote else None
    known = line.replica.table()
    for name in join.columns:
        none = pa.nulls(sum(sizes)) if known is None else pa.array([], known.schema.field(name).type)
        columns[name] = none if there is None else there.column(name)
    columns[query.column("staleness")] = pa.array(_joined([a.age for a in answers]), pa.float64(), from_pandas=True)
    status = _joined([a.status for a in answers], np.int8)
    columns[query.column("status")] = pa.array(STATUS).take(pa.array(status.astype(np.int64)))
    counts = np.repeat(np.array([a.lookups for a in answers], np.int64).reshape(-1, 4), sizes, axis=0)
    names = ["wanted", "made", "failed", "late"]
    columns[query.column("lookups")] = pa.StructArray.from_arrays([pa.array(c) for c in counts.T], names)
    return pa.table(columns)


def _joined(parts: list[np.ndarray], kind: type = np.float64) -> np.ndarray:
    return np.concatenate(parts).astype(kind) if parts else np.empty(0, kind)
