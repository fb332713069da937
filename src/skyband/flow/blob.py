"""Named columns as bytes: Arrow data under a header and a checksum.

Nothing in it is code, and all of it is checked before it is used.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from skyband.errors import SnapshotError

if TYPE_CHECKING:
    from skyband.flow.saved import Saved

FORMAT = 2
_KEY, _SUM = b"skyband", b"checksum"
_DAMAGED = "the state of this query is damaged"
_RESTORE = "restore the checkpoint folder from a copy, or start with a new one and let the source be read again"


def dump(saved: Saved, header: Mapping[str, Any]) -> bytes:
    """Named columns and their header as bytes.

    Examples
    --------
    >>> read(dump({"id": np.array([[3, 4]])}, {"query": {}}))[1]
    {'id': array([[3, 4]])}
    """
    names, shapes, blobs = [], [], []
    for name, value in saved.items():
        table = value if isinstance(value, pa.Table) else pa.table({"v": value.reshape(-1)})
        names.append(name)
        shapes.append(None if isinstance(value, pa.Table) else list(value.shape))
        blobs.append(write(table))
    table = pa.table(
        {"name": names, "shape": pa.array(shapes, pa.list_(pa.int64())), "data": pa.array(blobs, pa.binary())}
    )
    said = json.dumps({"format": FORMAT, **header}).encode()
    return write(table.replace_schema_metadata({_KEY: said, _SUM: _checksum(said, table)}))


def _checksum(said: bytes, table: pa.Table) -> bytes:
    """Of the header and all columns: a bit that has turned must not become an answer, or a place in memory."""
    found = zlib.crc32(said)
    for name, shape, blob in zip(*(column.to_pylist() for column in table.columns), strict=True):
        found = zlib.crc32(blob, zlib.crc32(f"{name}{shape}".encode(), found))
    return str(found).encode()


def read(blob: bytes, wrong: str = _DAMAGED, instead: str = _RESTORE) -> tuple[dict[str, Any], Saved]:
    """Header and columns; of damaged ones an error that says what is `wrong`, why, and what to do `instead`."""
    try:
        table = unwrite(blob)
        metadata = table.schema.metadata or {}
        header = json.loads(metadata[_KEY])
        if metadata.get(_SUM, b"none") != (_checksum(metadata[_KEY], table) if header["format"] > 1 else b"none"):
            msg = "its checksum is another"
            raise ValueError(msg)  # noqa: TRY301 - told below
        saved: Saved = {}
        for row in table.to_pylist():
            inner = unwrite(row["data"])
            if row["shape"] is None:
                saved[row["name"]] = inner
            else:
                saved[row["name"]] = np.array(inner.column("v").to_numpy()).reshape(row["shape"])
    except (pa.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
        why = (str(error).splitlines() or [""])[0][:200]
        msg = f"{wrong} ({type(error).__name__}: {why}): {instead}"
        raise SnapshotError(msg) from error
    if not 1 <= header["format"] <= FORMAT:
        found = header["format"]
        msg = f"the state has format {found}, this version of skyband reads {FORMAT}: use the version that wrote it"
        raise SnapshotError(msg)
    return header, saved


def header_of(start: bytes) -> dict[str, Any]:
    """The header of a state of which only the first bytes are given."""
    try:
        with pa.ipc.open_stream(start) as reader:
            header: dict[str, Any] = json.loads(reader.schema.metadata[_KEY])
    except (pa.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
        msg = f"{_DAMAGED} ({type(error).__name__}): {_RESTORE}"
        raise SnapshotError(msg) from error
    return header


def write(table: pa.Table) -> bytes:
    """A table as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def unwrite(blob: bytes) -> pa.Table:
    """The table in an Arrow stream, checked in full."""
    with pa.ipc.open_stream(blob) as reader:
        table = reader.read_all()
    table.validate(full=True)
    return table
