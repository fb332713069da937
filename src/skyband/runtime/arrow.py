"""Arrow operations that hold for every column type and for any amount of text.

Arrow cannot take rows of, concatenate or number columns of every type, and the offsets of its usual text types end at
2 GB. Columns are kept in a storage type, which is nearly always their own, and given back in the source's type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.errors import SchemaError

Column = Any
"""A pa.ChunkedArray or pa.Array."""

_OFFSETS = (1 << 31) - 1  # bytes that 32-bit offsets can address
_LISTS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.Field], pa.DataType]], ...] = (
    (pa.types.is_list, pa.list_),
    (pa.types.is_large_list, pa.large_list),
    (pa.types.is_list_view, pa.list_view),
    (pa.types.is_large_list_view, pa.large_list_view),
)


def storage_type(kind: pa.DataType) -> pa.DataType:
    """Return the type that a column of `kind` is stored in.

    Examples
    --------
    >>> storage_type(pa.list_(pa.string_view())), storage_type(pa.int8())
    (ListType(list<item: large_string>), DataType(int8))
    """
    if pa.types.is_dictionary(kind):
        return kind if _unifies(kind.value_type) else plain_type(kind)
    if isinstance(kind, pa.BaseExtensionType) and storage_type(kind.storage_type) != kind.storage_type:
        return storage_type(kind.storage_type)
    return _map_types(kind, _without_view)


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type in which values of `kind` are compared, numbered and computed with."""
    if pa.types.is_dictionary(kind):
        return plain_type(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType):
        return plain_type(kind.storage_type)
    if pa.types.is_decimal32(kind) or pa.types.is_decimal64(kind):
        return pa.decimal128(kind.precision, kind.scale)
    return pa.float32() if pa.types.is_float16(kind) else _without_view(kind)


def _without_view(kind: pa.DataType) -> pa.DataType:
    if kind == pa.string_view():
        return pa.large_string()
    return pa.large_binary() if kind == pa.binary_view() else kind


def _with_wide_offsets(kind: pa.DataType) -> pa.DataType:
    if kind == pa.string():
        return pa.large_string()
    if pa.types.is_list(kind):
        return pa.large_list(kind.value_field)
    return pa.large_binary() if kind == pa.binary() else kind


def _map_types(kind: pa.DataType, change: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """Return a type with every type inside it changed, and then itself."""
    if pa.types.is_struct(kind):
        kind = pa.struct([field.with_type(_map_types(field.type, change)) for field in kind])
    elif pa.types.is_map(kind):
        kind = pa.map_(_map_types(kind.key_type, change), _map_types(kind.item_type, change), kind.keys_sorted)
    elif pa.types.is_fixed_size_list(kind):
        kind = pa.list_(kind.value_field.with_type(_map_types(kind.value_type, change)), kind.list_size)
    else:
        for matches, make in _LISTS:
            if matches(kind):
                kind = make(kind.value_field.with_type(_map_types(kind.value_type, change)))
    return change(kind)


def _unifies(kind: pa.DataType) -> bool:
    """Return whether Arrow can unify dictionaries with values of this type."""
    types = pa.types
    text = types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind) or types.is_large_binary(kind)
    return bool(text or types.is_integer(kind) or types.is_float32(kind) or types.is_float64(kind))


def to_storage(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Return a column as it is stored, where the source's is of `kind`. Dictionaries of its values stay as they are."""
    wanted = storage_type(kind)
    if pa.types.is_dictionary(column.type):
        value = wanted.value_type if pa.types.is_dictionary(wanted) else wanted
        nulls = any(chunk.dictionary.null_count for chunk in column.chunks)  # Arrow cannot unify such dictionaries
        if column.type.value_type == value and _unifies(value) and not nulls:
            return column
        column = plain(column)
    if pa.types.is_dictionary(wanted):
        wanted = plain_type(wanted)
    return column if column.type == wanted else column.cast(wanted)


def from_storage(column: Column, kind: pa.DataType, name: str) -> Column:
    """Return a stored column in the source's own type."""
    if column.type == kind:
        return column
    try:
        if pa.types.is_dictionary(kind):
            return _encode(column, kind)
        if kind == pa.string() or kind == pa.binary():
            column = _cut(column)
        return column.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        why = str(error).splitlines()[0]
        raise SchemaError(f"column {name!r} cannot be given as {kind} ({why}): cast it in the source") from error


def plain(column: Column) -> Column:
    """Return a column's values in a type that can be compared, numbered and computed with."""
    if pa.types.is_dictionary(column.type):
        return _decode(column)
    wanted = plain_type(column.type)
    return column if column.type == wanted else column.cast(wanted)


def _decode(column: Column) -> Column:
    if isinstance(column, pa.ChunkedArray):
        kind = plain_type(column.type)
        chunks = [_decode(chunk) for chunk in column.chunks]
        kind = next((chunk.type for chunk in chunks if chunk.type != kind), kind)  # with wide offsets
        return pa.chunked_array([chunk.cast(kind) for chunk in chunks], kind)
    values = plain(column.dictionary)
    try:
        return values.take(column.indices)
    except pa.ArrowInvalid:  # more text than 32-bit offsets can address
        return values.cast(_with_wide_offsets(values.type)).take(column.indices)


def _encode(column: Column, kind: pa.DictionaryType) -> pa.ChunkedArray:
    """Return a column as a dictionary of exactly this type, encoded anew if its dictionary is too long for it."""
    chunks = []
    for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
        found = chunk
        if not pa.types.is_dictionary(found.type) or len(found.dictionary) > 1 << kind.index_type.bit_width - 1:
            found = pc.dictionary_encode(plain(found))
        values = found.dictionary.cast(kind.value_type)
        chunks.append(pa.DictionaryArray.from_arrays(found.indices.cast(kind.index_type), values, ordered=kind.ordered))
    return pa.chunked_array(chunks, kind)


def _cut(column: Column) -> Column:
    """Return text in chunks that 32-bit offsets can address."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    if all(chunk.nbytes <= _OFFSETS for chunk in chunks):
        return column
    parts = []
    for chunk in chunks:
        ends = np.cumsum(pc.binary_length(plain(chunk)).fill_null(0).to_numpy(zero_copy_only=False), dtype=np.int64)
        low = 0
        while low < len(chunk):
            before = int(ends[low - 1]) if low else 0
            high = max(int(np.searchsorted(ends, before + _OFFSETS, side="right")), low + 1)
            parts.append(chunk.slice(low, high - low))
            low = high
    return pa.chunked_array(parts, column.type)


def take_rows(table: pa.Table, places: np.ndarray) -> pa.Table:
    """Return the rows at these places, in this order."""
    try:
        return table.take(pa.array(places))
    except pa.ArrowInvalid:  # more text than 32-bit offsets can address, in the chunks or in what is taken
        order = np.argsort(places, kind="stable")
        parts, low, wanted = [], 0, places[order]
        for batch in _wide(table).to_batches():
            first, last = np.searchsorted(wanted, [low, low + batch.num_rows])
            parts.append(pa.Table.from_batches([batch]).take(pa.array(wanted[first:last] - low)))
            low += batch.num_rows
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return pa.concat_tables(parts).combine_chunks().take(pa.array(back))


def concat_rows(tables: Sequence[pa.Table]) -> pa.Table:
    """Return all rows of tables with the same columns, each column in one chunk unless it has too much text for one.

    Columns may be encoded in one table and plain in another.
    """
    if len(tables) == 1:
        return tables[0]
    if any(table.schema.types != tables[0].schema.types for table in tables):
        tables = _alike(tables)
    return combine_chunks(pa.concat_tables(tables, promote_options="permissive"))


def combine_chunks(table: pa.Table) -> pa.Table:
    """Return the rows with each column in one chunk, unless it has too much text, in a type that can be stored."""
    columns = [to_storage(column, column.type) for column in table.columns]
    whole = pa.table(columns, names=table.column_names)
    try:
        return whole.unify_dictionaries().combine_chunks()
    except pa.ArrowInvalid:  # all values together need a wider index
        return decode(whole).combine_chunks()


def _alike(tables: Sequence[pa.Table]) -> list[pa.Table]:
    """Return the tables with columns decoded whose types differ between tables."""
    names = tables[0].column_names
    mixed = [name for name in names if len({str(table.schema.field(name).type) for table in tables}) > 1]
    return [
        pa.table([_decoded(table[name]) if name in mixed else table[name] for name in names], names=names)
        for table in tables
    ]


def decode(table: pa.Table) -> pa.Table:
    """Return the same rows without dictionaries."""
    return pa.table([_decoded(column) for column in table.columns], names=table.column_names)


def _decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return _decode(column) if pa.types.is_dictionary(column.type) else column


def _wide(table: pa.Table) -> pa.Table:
    kinds = [_map_types(kind, _with_wide_offsets) for kind in table.schema.types]
    return table.cast(pa.schema([field.with_type(kind) for field, kind in zip(table.schema, kinds, strict=True)]))


def check_storable(name: str, kind: pa.DataType) -> None:
    """Raise unless rows of a column of this type can be kept and given back."""
    try:
        column = to_storage(pa.chunked_array([pa.nulls(2, kind)]), kind)
        rows = concat_rows([pa.table({name: column}), pa.table({name: column})])
        column = take_rows(rows, np.array([1, 0])).column(0)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        why = str(error).splitlines()[0]
        raise SchemaError(
            f"column {name!r} is {kind}, rows of which cannot be kept ({why}): cast it in the source, or leave it out"
        ) from error
    from_storage(column, kind, name)
