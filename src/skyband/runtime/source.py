"""Where rows come from: paths, tables, frames, dicts, iterators; always Arrow batches in the end."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from skyband.errors import SourceError, not_utf8
from skyband.runtime.arrow import combine_chunks, concat_rows, decode, take_rows
from skyband.runtime.batch import is_ascending
from skyband.runtime.schema import conform
from skyband.windows import MIN_TIME

if TYPE_CHECKING:
    import pyarrow.dataset as ds

    from skyband.runtime.schema import TimeType


BATCH = 1 << 20
"""Rows of a finite source that are handled at once."""

_FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".jsonl": "json",
    ".ndjson": "json",
    ".json": "json",
}


@dataclass(frozen=True)
class Source:
    """Rows to come.

    `batches()` yields (table, watermark): watermark None means that the batch says nothing of time. A
    finite source can be read again, so it can be looked over first.
    """

    batches: Callable[[], Iterator[tuple[pa.Table, Any]]]
    finite: bool
    rows: int | None = None  # how many there will be, where that is known
    column: Callable[[str], Iterator[pa.ChunkedArray]] | None = None  # one column of all batches, cheaply
    schema: pa.Schema | None = None
    bytes: int | None = None


def open_source(source: object, batch: int = BATCH) -> Source:
    """Return the rows of whatever a user has: a path, a table, a frame, a dict of lists, an iterator of batches."""
    if isinstance(source, (str, Path)):
        return _open_path(Path(source), batch)
    if isinstance(source, Iterator) or (isinstance(source, (list, tuple)) and not _is_table(source)):
        return Source(lambda: map(_batch, iter(source)), finite=False)
    if _is_table(source):
        return _open_table(as_table(source), batch)
    if isinstance(source, Iterable):
        return Source(lambda: map(_batch, iter(source)), finite=False)
    raise SourceError(
        f"source={type(source).__name__} cannot be read: give a path, an Arrow table, a pandas or Polars frame, "
        f"a dict of lists, or an iterator of such batches"
    )


def _is_table(source: object) -> bool:
    if isinstance(source, (pa.RecordBatchReader, pa.ipc.RecordBatchFileReader)):
        return False  # can be read once only: a stream of batches
    if isinstance(source, (Mapping, pa.Table, pa.RecordBatch)) or hasattr(source, "__arrow_c_stream__"):
        return True
    return type(source).__module__.startswith(("pandas.", "polars."))


def as_table(source: Any) -> pa.Table:
    """Return one batch as an Arrow table.

    Examples
    --------
    >>> as_table({"x": [1, 2]}).num_rows
    2
    """
    found = _as_table(source)
    runs = [n for n, kind in enumerate(found.schema.types) if pa.types.is_run_end_encoded(kind)]
    for number in runs:  # Arrow can do next to nothing with them
        import pyarrow.compute as pc

        name = found.column_names[number]
        try:
            found = found.set_column(number, name, pc.run_end_decode(found.column(number)))
        except pa.ArrowNotImplementedError as error:
            raise SourceError(
                f"column {name!r} is {found.schema.field(number).type}, which cannot be decoded: cast it in the source"
            ) from error
    return found


def _as_table(source: Any) -> pa.Table:
    try:
        if isinstance(source, pa.Table):
            return source
        if isinstance(source, pa.RecordBatch):
            return pa.Table.from_batches([source])
        if isinstance(source, Mapping):
            return pa.table(dict(source))
        if type(source).__module__.startswith("pandas"):
            return pa.Table.from_pandas(source, preserve_index=False)
        if type(source).__module__.startswith("polars"):
            frame = source.collect() if hasattr(source, "collect") else source
            return frame.to_arrow()
        return pa.table(source)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, TypeError, ValueError) as error:
        raise SourceError(
            f"this {type(source).__name__} is no table: {str(error).splitlines()[0]}. Give columns of equal length"
        ) from error


def _batch(item: Any) -> tuple[pa.Table, Any]:
    """Return an item of an iterator: a batch, or a batch and the watermark that holds after it."""
    if isinstance(item, tuple) and len(item) == 2:
        return as_table(item[0]), item[1]
    return as_table(item), None


def _open_table(table: pa.Table, batch: int) -> Source:
    def batches() -> Iterator[tuple[pa.Table, Any]]:
        # not before the first batch: by then the types have been checked
        rows = combine_chunks(table) if any(column.num_chunks > 1 for column in table.columns) else table
        for low in range(0, rows.num_rows, batch):
            yield rows.slice(low, batch), None

    return Source(
        batches,
        finite=True,
        rows=table.num_rows,
        column=lambda name: iter([table[name]]),
        schema=table.schema,
        bytes=table.nbytes,
    )


def _open_path(path: Path, batch: int) -> Source:
    import pyarrow.dataset as ds

    if not path.exists():
        raise SourceError(f"source={str(path)!r} does not exist: check the path")
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file() and p.name[0] not in "._")
    kinds = {_FORMATS.get(_ending(p)) for p in files}
    if len(kinds) != 1 or None in kinds:
        found = ", ".join(sorted({_ending(p) or p.name for p in files})) or "no files"
        raise SourceError(
            f"source={str(path)!r} holds {found}: give files of one kind, Parquet, CSV or JSON lines (.jsonl)"
        )
    for p in files:
        if not_utf8(p):
            raise SourceError(f"source={str(p)!r} must have a name in UTF-8, which Arrow needs: rename the file")
    kind: str = kinds.pop()  # type: ignore[assignment]
    read = _parquet if kind == "parquet" else _lines
    try:
        data = ds.dataset([str(p) for p in files], format=kind)
        rows = data.count_rows() if kind == "parquet" else None
    except (pa.ArrowInvalid, OSError) as error:
        raise _unreadable(path, error) from error

    def tables(columns: list[str] | None) -> Iterator[pa.Table]:
        try:
            yield from _ahead(_sized(read(data, columns), batch))
        except (pa.ArrowInvalid, OSError) as error:
            raise _unreadable(path, error) from error

    return Source(
        lambda: ((t, None) for t in tables(None)),
        finite=True,
        rows=rows,
        column=lambda name: (t[name] for t in tables([name])),
        schema=data.schema,
        bytes=sum(p.stat().st_size for p in files) * (4 if kind == "parquet" else 1),
    )


def _unreadable(path: Path, error: Exception) -> SourceError:
    return SourceError(f"source={str(path)!r} cannot be read: {str(error).splitlines()[0]}")


def _ending(path: Path) -> str:
    """Return the suffix that tells the format, whatever the compression."""
    return (path.with_suffix("") if path.suffix in (".gz", ".bz2", ".zst") else path).suffix.lower()


def _parquet(data: ds.Dataset, columns: list[str] | None) -> Iterator[pa.Table]:
    """Row group by row group: twice as fast as a scan of the dataset. Text stays in dictionaries, as on disk."""
    import pyarrow.parquet as pq

    texts = [f.name for f in data.schema if pa.types.is_string(f.type) or pa.types.is_large_string(f.type)]
    for name in data.files:
        with pq.ParquetFile(name, read_dictionary=texts, memory_map=True, pre_buffer=False) as file:
            for group in range(file.num_row_groups):
                if file.metadata.row_group(group).num_rows <= 4 * BATCH:
                    yield file.read_row_group(group, columns=columns, use_threads=False)
                else:
                    parts = file.iter_batches(BATCH, row_groups=[group], columns=columns, use_threads=False)
                    yield from (pa.Table.from_batches([part]) for part in parts)


def _lines(data: ds.Dataset, columns: list[str] | None) -> Iterator[pa.Table]:
    """CSV and JSON lines, in the order of the files."""
    return (pa.Table.from_batches([part]) for part in data.to_batches(columns=columns))


def _sized(tables: Iterator[pa.Table], batch: int) -> Iterator[pa.Table]:
    """Tables put together until there are about `batch` rows, and cut where there are far more."""
    waiting: list[pa.Table] = []
    size = 0
    for table in tables:
        if size and size + table.num_rows > batch:
            yield pa.concat_tables(waiting)
            waiting, size = [], 0
        if table.num_rows > 2 * batch:
            yield from (table.slice(low, batch) for low in range(0, table.num_rows, batch))
        else:
            waiting.append(table)
            size += table.num_rows
    if waiting:
        yield pa.concat_tables(waiting)


def _ahead(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Yield the same tables, the next one being read while the one at hand is worked on."""
    with ThreadPoolExecutor(1, "skyband-reader") as reader:
        coming = reader.submit(next, tables, None)
        while (table := coming.result()) is not None:
            coming = reader.submit(next, tables, None)
            yield table


MEMORY = 1 << 30
"""Bytes of rows that are sorted in memory; more go by way of a temporary folder."""


def rising(source: Source, name: str, kind: TimeType) -> bool:
    """Return whether the times of a finite source never go back. Reads one column."""
    assert source.column is not None
    last = MIN_TIME
    for column in source.column(name):
        time, missing = kind.micros(column)
        time = time if missing is None else time[~missing]
        if len(time) and (time[0] < last or not is_ascending(time)):
            return False
        last = int(time[-1]) if len(time) else last
    return True


def in_time_order(source: Source, name: str, kind: TimeType, memory: int = MEMORY) -> Source:
    """Yield the same rows by time; rows of one moment as they came.

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
        time = np.where(missing, MIN_TIME, time)
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
