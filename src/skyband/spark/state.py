"""What a state belongs to, and whether it fits the query that finds it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skyband.errors import SnapshotError

if TYPE_CHECKING:
    from skyband.flow.saved import Saved
    from skyband.query import TopK

CHUNK = 4 << 20
"""Bytes of a chunk; only chunks that have changed are written."""


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
    changed = [name for name in dict.fromkeys([*expected, *was]) if was.get(name) != expected.get(name)]
    if changed:
        what = "; ".join(f"{name} was {was.get(name)!r} and is {expected.get(name)!r}" for name in changed)
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


def chunks(blob: bytes) -> list[bytes]:
    """The bytes in pieces that a state store takes well."""
    return [blob[at : at + CHUNK] for at in range(0, len(blob), CHUNK)]
