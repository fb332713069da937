"""A finite source whose times go back is put in order first, on disk if it is large."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from skyband.runtime.arrow import combine_chunks, concat_rows, decode, take_rows
from skyband.runtime.schema import conform
from skyband.runtime.source import BATCH, Source, open_source

if TYPE_CHECKING:
    from skyband.runtime.time_type import TimeType

MEMORY = 1 << 30
"""Bytes of rows that are sorted in memory; more go by way of a temporary folder."""


def rising(source: Source, name: str, kind: TimeType) -> bool:
    """Whether the times of a finite source never go back. Reads one column."""
    from skyband.kernels.columns import is_sorted

    assert source.column is not None
    last = -(1 << 62)
    for column in source.column(name):
        time, missing = kind.micros(column)
        time = time if missing is None else time[~missing]
        if len(time) and (time[0] < last or not is_sorted(time)):
            return False
        last = int(time[-1]) if len(time) else last
    return True


def in_time_order(source: Source, name: str, kind: TimeType, memory: int = MEMORY) -> Source:
    """The same rows by time; rows of one moment as they came.

    What does not fit into memory is dealt into files by time, each small enough to sort.
    """
    assert source.schema is not None
    if source.bytes is None or source.bytes <= memory:
        whole = concat_rows([conform(rows, source.schema) for rows, _ in source.batches()])
        return replace(open_source(_sorted(whole, name, kind)), schema=source.schema)

    def batches() -> Iterator[tuple[pa.Table, Any]]:
        assert source.bytes is not None
        with tempfile.TemporaryDirectory(prefix="skyband-") as folder:
            for path in _dealt(source, name, kind, -(-2 * source.bytes // memory), Path(folder)):
                with pa.OSFile(str(path)) as file:
                    rows = pa.ipc.open_stream(file).read_all()
                ordered = _sorted(combine_chunks(rows), name, kind)
                for low in range(0, ordered.num_rows, BATCH):
                    yield ordered.slice(low, BATCH), None

    return Source(batches, finite=True, rows=source.rows, column=source.column, schema=source.schema)


def _sorted(rows: pa.Table, name: str, kind: TimeType) -> pa.Table:
    time, missing = kind.micros(rows.column(name))
    if missing is not None:
        time = np.where(missing, -(1 << 62), time)
    return take_rows(rows, np.argsort(time, kind="stable"))


def _dealt(source: Source, name: str, kind: TimeType, files: int, folder: Path) -> Iterator[Path]:
    """Deal the rows into files that follow each other in time."""
    assert source.column is not None
    assert source.schema is not None
    sample = []
    for column in source.column(name):
        time, missing = kind.micros(column)
        sample.append((time if missing is None else time[~missing])[::97])
    cuts = np.unique(np.quantile(np.concatenate(sample), np.linspace(0, 1, files + 1)[1:-1], method="lower"))
    paths = [folder / f"{i}.arrow" for i in range(len(cuts) + 1)]
    writers: dict[int, Any] = {}
    for batch, _ in source.batches():
        rows = decode(conform(batch, source.schema))  # dictionaries may differ from batch to batch
        time, missing = kind.micros(rows.column(name))
        file = np.searchsorted(cuts, time, side="right")
        if missing is not None:
            file[missing] = 0
        for i in np.unique(file):
            if i not in writers:
                writers[i] = pa.ipc.new_stream(str(paths[i]), rows.schema)
            writers[i].write_table(take_rows(rows, np.flatnonzero(file == i)))
    for writer in writers.values():
        writer.close()
    return (paths[i] for i in sorted(writers))
