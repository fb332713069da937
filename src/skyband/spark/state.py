"""State as bytes: Arrow data under a header that says what it belongs to.

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
    from skyband.query import TopK

FORMAT = 2
CHUNK = 4 << 20
"""Bytes of a chunk; only chunks that have changed are written."""

_KEY = b"skyband"
_SUM = b"checksum"


def fingerprint(query: TopK, buckets: int, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """What a state belongs to: everything that, changed, would make its answers wrong.

    Examples
    --------
    >>> import skyband as sb
    >>> fingerprint(sb.TopK(k=3, by="x", window=sb.Counting(10)), 1)["k"]
    '3'
    """
    by = getattr(query.by, "text", f"function, version {query.version}")
    named = {"by": by, "per": ", ".join(query.per), "buckets": buckets}
    fields = ("k", "window", "time", "id", "ascending", "emit", "ranks", "unit", "prefix")
    said = {**{f: getattr(query, f) for f in fields}, **named, **(more or {})}
    return {name: str(value) for name, value in said.items()}


def check(header: Mapping[str, Any], expected: Mapping[str, str]) -> None:
    """Raise unless a state was written by this query."""
    was = header["query"]
    changed = [name for name in expected if was.get(name) != expected[name]]
    if changed:
        what = "; ".join(f"{name} was {was.get(name)!r} and is {expected[name]!r}" for name in changed)
        msg = (
            f"the checkpoint was written by another query: {what}. Start the changed query with a new checkpoint "
            f"location, or go back to the query as it was"
        )
        raise SnapshotError(msg)


def widened(saved: Saved, was: pa.Schema, now: pa.Schema) -> Saved:
    """A state whose rows have the columns of `now`: added ones are NULL, any other change is refused."""
    if was.names == now.names and was.types == now.types:
        return saved
    for field in was:
        there = now.field(field.name).type if field.name in now.names else None
        if there != field.type:
            what = "is gone" if there is None else f"is now {there}"
            msg = (
                f"the source has changed: column {field.name!r} was {field.type} and {what}. Columns may be added: "
                f"start with a new checkpoint location, or give the source its old schema"
            )
            raise SnapshotError(msg)

    def wide(table: pa.Table) -> pa.Table:
        for field in now:
            if field.name not in was.names:
                table = table.append_column(field, pa.nulls(table.num_rows, field.type))
        return table.select([name for name in now.names if name in table.column_names])

    def rows(name: str) -> bool:
        return name in ("rows", "waiting") or (name.startswith("board/") and name.endswith("/rows"))

    return {name: wide(value) if rows(name) else value for name, value in saved.items()}


def dump(saved: Saved, header: Mapping[str, Any]) -> bytes:
    """Named columns and their header as bytes."""
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


def read(blob: bytes) -> tuple[dict[str, Any], Saved]:
    """Header and columns of a state; an error that says what to do if it is damaged."""
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
        msg = (
            f"the state of this query is damaged ({type(error).__name__}: {str(error).splitlines()[0][:200]}): restore "
            f"the checkpoint folder from a copy, or start with a new one and let the source be read again"
        )
        raise SnapshotError(msg) from error
    if not 1 <= header["format"] <= FORMAT:
        found = header["format"]
        msg = f"the state has format {found}, this version of skyband reads {FORMAT}: use the version that wrote it"
        raise SnapshotError(msg)
    return header, saved


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


def chunks(blob: bytes) -> list[bytes]:
    """The bytes in pieces that a state store takes well."""
    return [blob[at : at + CHUNK] for at in range(0, len(blob), CHUNK)]
