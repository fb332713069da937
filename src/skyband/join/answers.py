"""Answers of a join as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from skyband.join.replica import NEVER
from skyband.join.topkn import STATUS
from skyband.runtime.arrow import concat_rows, from_storage

if TYPE_CHECKING:
    from skyband.join.board import Board
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
    board: Board | None = None  # whose list it is
    incomplete: bool = False  # whether it is short, and a forgotten object may belong in it


def ages(board: Board, key: np.ndarray, now: int) -> np.ndarray:
    """How old each key's remote row is: seconds, or rows for windows that count."""
    read = board.replica.time[key]
    unit = 1.0 if board.clock.counts else 1e6
    return np.where(read == NEVER, np.nan, np.maximum(now - read, 0) / unit)


def columns_of(line: JoinPipeline, answers: list[Answer]) -> pa.Table:
    """The lists, one after the other."""
    query, join = line.query, line.join
    answers = [a for a in answers if len(a.key)]
    boards = [a.board for a in answers if a.board is not None]
    sizes = [len(a.key) for a in answers]
    columns: dict[str, pa.Array | pa.ChunkedArray] = {}
    if line.names is not None:
        named = [line.names[board.number] for board in boards]
        columns[query.column("query")] = pa.array(np.repeat(np.array(named, object), sizes), pa.string())
    shown = [board.clock.bounds(np.array([a.end])) for board, a in zip(boards, answers, strict=True)]
    for at, name in enumerate(("window_start", "window_end")):
        moments = np.repeat(_joined([pair[at] for pair in shown], np.int64), sizes)
        plain = line.clock.counts or line.time is None
        columns[query.column(name)] = pa.array(moments) if plain else line.time.column(moments)  # type: ignore[union-attr]
    own = [a.rows for a in answers if a.rows is not None]
    rows = concat_rows(own) if own else None
    for name in line.per:
        columns[name] = _per(line, name, boards, sizes)
    columns[query.column("rank")] = pa.array(_joined([np.arange(1, n + 1) for n in sizes], np.int32), pa.int32())
    scores = [-a.score if board.query.ascending else a.score for board, a in zip(boards, answers, strict=True)]
    columns[query.column("score")] = pa.array(_joined(scores))
    for field in line.schema:
        if field.name not in line.per:
            column = pa.nulls(0, field.type) if rows is None else rows.column(field.name)
            columns[field.name] = from_storage(column, field.type, field.name)
    columns |= {a.name: _over_window(a.name, a.function == "count", boards, answers) for a in join.aggregates}
    known = line.replica.schema or pa.schema([pa.field(name, pa.null()) for name in join.columns])
    remote = [known.empty_table(), *(_remote(a, known) for a in answers)]
    there = pa.concat_tables(remote, promote_options="permissive")
    columns |= {name: there.column(name) for name in join.columns}
    columns[query.column("staleness")] = pa.array(_joined([a.age for a in answers]), pa.float64(), from_pandas=True)
    status = _joined([a.status for a in answers], np.int8)
    columns[query.column("status")] = pa.array(STATUS).take(pa.array(status.astype(np.int64)))
    counts = np.repeat(np.array([a.lookups for a in answers], np.int64).reshape(-1, 4), sizes, axis=0)
    names = ["wanted", "made", "failed", "late"]
    columns[query.column("lookups")] = pa.StructArray.from_arrays([pa.array(c) for c in counts.T], names)
    return pa.table(columns)


def _remote(answer: Answer, known: pa.Schema) -> pa.Table:
    """The remote rows of an answer, NULL where nothing had been read."""
    if answer.remote is not None:
        return answer.remote
    return pa.table([pa.nulls(len(answer.key), kind) for kind in known.types], schema=known)


def _per(line: JoinPipeline, name: str, boards: list[Board], sizes: list[int]) -> pa.Array:
    """The value of a group's column, NULL for queries that do not group by it."""
    kind = line.schema.field(name).type
    values = []
    for board, size in zip(boards, sizes, strict=True):
        groups = line.groups[board.number]
        if groups is None or name not in groups.per:
            values.append(pa.nulls(size, kind))
        else:
            value = groups.values(np.full(size, board.group))[groups.per.index(name)]
            values += from_storage(value, kind, name).chunks
    return pa.chunked_array(values, kind)


def _over_window(name: str, whole: bool, boards: list[Board], answers: list[Answer]) -> pa.Array:
    """A value over the window, NULL for queries that do not have it."""
    values = [
        a.values[board.join.aggregate_names.index(name)]
        if name in board.join.aggregate_names
        else np.full(len(a.key), np.nan)
        for board, a in zip(boards, answers, strict=True)
    ]
    column = pa.array(_joined(values), pa.float64(), from_pandas=True)
    return column.cast(pa.int64()) if whole else column


def _joined(parts: list[np.ndarray], kind: type = np.float64) -> np.ndarray:
    return np.concatenate(parts).astype(kind) if parts else np.empty(0, kind)
