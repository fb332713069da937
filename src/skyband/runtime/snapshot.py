"""Named columns as bytes: Arrow data under a header and a checksum.

Nothing in it is code, and all of it is checked before it is used.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.errors import SnapshotError

if TYPE_CHECKING:
    from skyband.query import TopK
    from skyband.runtime.protocols import Snapshot

FORMAT = 3
"""The format that is written. Formats 1 and 2 are read: see `legacy`."""
_KEY, _SUM = b"skyband", b"checksum"
_DAMAGED = "the state of this query is damaged"
_RESTORE = "restore the checkpoint folder from a copy, or start with a new one and let the source be read again"


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
        raise SnapshotError(
            f"this state does not fit the query ({type(error).__name__}: {error}): start without it, from the source"
        ) from error


def fingerprint(query: TopK, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the fields of a query that, changed, would make a stored state wrong; `more` are those of its operator.

    Examples
    --------
    >>> import skyband as sb
    >>> fingerprint(sb.TopK(k=3, by="x", window=sb.Counting(10)))["k"]
    '3'
    """
    by = getattr(query.by, "text", f"function, version {query.version}")
    fields = ("k", "window", "time", "id", "ascending", "emit", "ranks", "unit", "prefix")
    found = {
        **{field: getattr(query, field) for field in fields},
        "by": by,
        "per": ", ".join(query.per),
        **(more or {}),
    }
    return {name: str(value) for name, value in found.items()}


def fingerprint_changes(was: Mapping[str, str], expected: Mapping[str, str]) -> dict[str, str]:
    """Return what is different in two fingerprints, by field, as text."""
    changed = [name for name in dict.fromkeys([*expected, *was]) if was.get(name) != expected.get(name)]
    return {name: f"{name} was {was.get(name)!r} and is {expected.get(name)!r}" for name in changed}


def table_of(saved: Mapping[str, Any], name: str) -> pa.Table:
    """Return a table of a snapshot."""
    found = saved[name]
    if not isinstance(found, pa.Table):
        raise TypeError(f"{name} must be a table, got {type(found).__name__}")
    return found


def dump(saved: Snapshot, header: Mapping[str, Any]) -> bytes:
    """Return named columns and their header as bytes.

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


def read(blob: bytes, wrong: str = _DAMAGED, instead: str = _RESTORE) -> tuple[dict[str, Any], Snapshot]:
    """Header and columns; of damaged ones an error that says what is `wrong`, why, and what to do `instead`."""
    try:
        table = _unwrite_untrusted(blob)
        metadata = table.schema.metadata or {}
        header = json.loads(metadata[_KEY])
        if metadata.get(_SUM, b"none") != (_checksum(metadata[_KEY], table) if header["format"] > 1 else b"none"):
            raise ValueError("its checksum is another")  # noqa: TRY301 - told below
        saved: Snapshot = {}
        for row in table.to_pylist():
            inner = _unwrite_untrusted(row["data"])
            if row["shape"] is None:
                saved[row["name"]] = inner
            else:
                saved[row["name"]] = _numbers(inner.column("v")).reshape(row["shape"])
    except (pa.ArrowException, OSError, KeyError, TypeError, ValueError, RecursionError, struct.error) as error:
        why = (str(error).splitlines() or [""])[0][:200]
        raise SnapshotError(f"{wrong} ({type(error).__name__}: {why}): {instead}") from error
    if not 1 <= header["format"] <= FORMAT:
        found = header["format"]
        raise SnapshotError(
            f"the state has format {found}, this version of skyband reads 1 to {FORMAT}: use the version that wrote it"
        )
    return header, saved


def header_of(start: bytes) -> dict[str, Any]:
    """Return the header of a state of which only the first bytes are given."""
    try:
        with pa.ipc.open_stream(start) as reader:
            header: dict[str, Any] = json.loads(reader.schema.metadata[_KEY])
    except (pa.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
        raise SnapshotError(f"{_DAMAGED} ({type(error).__name__}): {_RESTORE}") from error
    return header


def write(table: pa.Table) -> bytes:
    """Return a table as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def unwrite(blob: bytes) -> pa.Table:
    """Return the table in an Arrow stream, checked in full."""
    with pa.ipc.open_stream(blob) as reader:
        table = reader.read_all()
    table.validate(full=True)
    return table


# ---------------------------------------------------------------- what others may have written


def _unwrite_untrusted(blob: bytes) -> pa.Table:
    """Return the table in an Arrow stream, refused before it would take much more memory than `blob`.

    Arrow allocates what compressed buffers declare, and gives arrays any length whose type needs no buffer.
    """
    for message in pa.ipc.MessageReader.open_stream(blob):
        if _compressed(bytes(message.metadata)):
            raise ValueError("its buffers are compressed")
    table = unwrite(blob)
    longest = 8 * len(blob) + 1024  # a bit a value is the least that we write; a few rows may be of nothing but NULL
    if table.num_rows > longest:
        raise ValueError(f"{table.num_rows} rows in {len(blob)} bytes")
    for column in table.columns:
        if pa.types.is_nested(column.type) or pa.types.is_dictionary(column.type):
            for chunk in column.chunks:
                _check_lengths(chunk, longest)
    return table


def _compressed(metadata: bytes) -> bool:
    """Whether a message of an Arrow stream is a batch with compressed buffers (Message.fbs of the Arrow format)."""

    def field(table: int, number: int) -> int:
        """Return where a field of a flatbuffer table is; 0 if it is not there."""
        vtable = table - struct.unpack_from("<i", metadata, table)[0]
        place = 4 + 2 * number
        if place >= struct.unpack_from("<H", metadata, vtable)[0]:
            return 0
        offset: int = struct.unpack_from("<H", metadata, vtable + place)[0]
        return table + offset if offset else 0

    def pointed(place: int) -> int:
        return place + int(struct.unpack_from("<I", metadata, place)[0])

    message = pointed(0)
    kind, header = field(message, 1), field(message, 2)
    if not kind or not header or metadata[kind] not in (2, 3):  # a dictionary or a record batch
        return False
    batch = pointed(header)
    if metadata[kind] == 2:
        data = field(batch, 1)
        if not data:
            return False
        batch = pointed(data)
    return field(batch, 3) != 0


def _check_lengths(array: pa.Array, longest: int) -> None:
    """Refuse arrays that hold, at any depth, more values than their bytes can."""
    kind = array.type
    if pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):
        total = pc.sum(pc.list_value_length(array)).as_py() or 0  # views may overlap
    else:
        total = len(array)
    if total > longest:
        raise ValueError(f"{total} values of type {kind} in {longest // 8} bytes")
    if pa.types.is_dictionary(kind):
        _check_lengths(array.dictionary, longest)
    elif pa.types.is_struct(kind) or pa.types.is_union(kind):
        for place in range(kind.num_fields):
            _check_lengths(array.field(place), longest)
    elif pa.types.is_nested(kind):  # lists of all kinds, maps, runs
        _check_lengths(array.values, longest)


def _numbers(column: pa.ChunkedArray) -> np.ndarray:
    if not (pa.types.is_primitive(column.type) and not column.null_count):
        raise ValueError(f"an array of type {column.type} with {column.null_count} NULLs")
    return np.array(column.to_numpy())
