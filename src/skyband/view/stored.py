"""What a view saved, in a file: Arrow data and a checksum. Nothing in it is code."""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from skyband.errors import SnapshotError

if TYPE_CHECKING:
    from skyband.flow.saved import Saved

_SUM, _FORMAT = b"skyband view, checksum", b"skyband view, format"
_FORMATS = (b"1",)


def store(saved: Saved, path: Path) -> None:
    """Write named arrays and tables into a file; it is the old one until all of the new one is there.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store({"id": np.array([[3, 4]])}, Path(folder) / "view.arrow")
    ...     stored(Path(folder) / "view.arrow")
    {'id': array([[3, 4]])}
    """
    rows = [_row(name, value) for name, value in saved.items()]
    schema = pa.schema({"name": pa.string(), "shape": pa.list_(pa.int64()), "data": pa.binary()})
    table = pa.Table.from_pylist(rows, schema=schema)
    said = {_FORMAT: _FORMATS[-1], _SUM: _checksum(table)}
    fresh = path.with_name(path.name + ".new")
    with fresh.open("wb") as file:
        file.write(_written(table.replace_schema_metadata(said)))
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


def stored(path: Path) -> Saved:
    """What `store` wrote. Raises SnapshotError where the file is missing or damaged."""
    try:
        table = _read(path.read_bytes())
        said = table.schema.metadata or {}
        if said.get(_FORMAT) not in _FORMATS:
            msg = "it has no format that this version of skyband reads"
            raise ValueError(msg)  # noqa: TRY301 - told below
        if said.get(_SUM) != _checksum(table):
            msg = "its checksum is another"
            raise ValueError(msg)  # noqa: TRY301 - told below
        saved: Saved = {}
        for row in table.to_pylist():
            inner = _read(row["data"])
            shape = row["shape"]
            saved[row["name"]] = inner if shape is None else np.array(inner.column("v").to_numpy()).reshape(shape)
    except (pa.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
        why = str(error).splitlines()[0][:200]
        msg = f"{path.name} holds no saved view ({type(error).__name__}: {why}): build the view again with sb.View(...)"
        raise SnapshotError(msg) from error
    return saved


def _row(name: str, value: np.ndarray | pa.Table) -> dict[str, object]:
    if isinstance(value, pa.Table):
        return {"name": name, "shape": None, "data": _written(value)}
    return {"name": name, "shape": list(value.shape), "data": _written(pa.table({"v": value.reshape(-1)}))}


def _checksum(table: pa.Table) -> bytes:
    found = 0
    for row in table.to_pylist():
        found = zlib.crc32(row["data"], zlib.crc32(f"{row['name']}{row['shape']}".encode(), found))
    return str(found).encode()


def _written(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def _read(blob: bytes) -> pa.Table:
    with pa.ipc.open_stream(blob) as reader:
        table = reader.read_all()
    table.validate(full=True)
    return table
