"""Columns of every Arrow type, built from plain Python values and read back as such, for tests.

Times are given and read as whole ticks, which Python's own types cannot all hold; text as bytes where it is not UTF-8.
"""

import decimal
import itertools
import math

import pyarrow as pa

MIN64, MAX64 = -(1 << 63), (1 << 63) - 1
FLOATS = [1.5, -0.0, 0.0, math.nan, math.inf, -math.inf, -2.0]
TEXTS = ["a", "", "é", "b", "a much longer text than sixteen bytes"]
BYTES = [b"a", b"", b"\xff\xfe", b"\x80", b"more than sixteen bytes of it"]
UUIDS = [bytes(16), b"\xff" * 16, b"0123456789abcdef"]
LISTS = [[1], [], [1, None]]


class Points(pa.ExtensionType):
    """An extension type that is not among Arrow's own."""

    def __init__(self):
        super().__init__(pa.float64(), "tests.points")

    def __arrow_ext_serialize__(self):
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage, serialized):
        return cls()


def _integers():
    for width in (8, 16, 32, 64):
        top = 1 << width - 1
        yield getattr(pa, f"int{width}")(), [-top, -top + 1, -1, 0, 1, top - 2, top - 1]
        yield getattr(pa, f"uint{width}")(), [0, 1, 2, top - 1, top, 2 * top - 2, 2 * top - 1]


def _decimals():
    for make, most in ((pa.decimal32, 9), (pa.decimal64, 18), (pa.decimal128, 38), (pa.decimal256, 76)):
        for precision, scale in ((most, most // 2), (most, most), (2, -3)):
            unscaled = [0, 1, -1, 7, 10**precision - 1, 10**precision - 2, 1 - 10**precision]
            with decimal.localcontext(prec=100):
                yield make(precision, scale), [decimal.Decimal(number).scaleb(-scale) for number in unscaled]


def _times():
    yield pa.date32(), [-700_000, -1, 0, 1, 7, 2_932_896]
    yield pa.date64(), [day * 86_400_000 for day in (-700_000, -1, 0, 1, 7, 2_932_896)]
    for unit, day in (("s", 86_400), ("ms", 86_400_000)):
        yield pa.time32(unit), [0, 1, 2, day - 1]
    for unit, day in (("us", 86_400_000_000), ("ns", 86_400_000_000_000)):
        yield pa.time64(unit), [0, 1000, 2000, day - 1000]
    for unit, second in (("s", 1), ("ms", 1000), ("us", 10**6), ("ns", 10**9)):
        yield pa.duration(unit), [0, 1, -1, MAX64, MIN64 + 1]
        for zone in (None, "UTC", "Europe/Berlin", "+05:30"):
            # the second hour repeats in Berlin; 253,402,300,800 s is the year 10,000
            ticks = [0, second, -second, 1_729_987_200 * second, 1_729_990_800 * second, MAX64 // 2, MIN64 // 2]
            yield pa.timestamp(unit, zone), ticks + ([253_402_300_800 * second] if unit != "ns" else [])


def _plain():
    yield from _integers()
    yield pa.float16(), [1.5, -0.0, 0.0, math.nan, math.inf, -math.inf, 65504.0]
    yield pa.float32(), [*FLOATS, 3.4028234663852886e38, 2.0**-149]
    yield pa.float64(), [*FLOATS, 1.7976931348623157e308, 5e-324]
    yield from _decimals()
    yield pa.bool_(), [True, False]
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        yield kind, TEXTS
    for kind in (pa.binary(), pa.large_binary(), pa.binary_view()):
        yield kind, BYTES
    yield pa.binary(2), [b"aa", b"\xff\xfe", b"\x00\x00"]
    yield from _times()
    yield pa.month_day_nano_interval(), [(1, 2, 3), (0, 0, 0), (-1, 31, MAX64)]
    yield pa.null(), [None]


PLAIN = dict(_plain())
INVALID = {"invalid UTF-8": pa.string(), "invalid large UTF-8": pa.large_string(), "invalid view": pa.string_view()}


def _encoded():
    plain = [
        pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.binary(2), pa.int8(), pa.int64(), pa.uint64(),
        pa.float16(), pa.float32(), pa.float64(), pa.bool_(), pa.decimal64(18, 9), pa.decimal128(38, 19), pa.date32(),
        pa.time64("ns"), pa.timestamp("us", "Europe/Berlin"), pa.timestamp("ns"), pa.duration("s"), pa.null(),
        pa.month_day_nano_interval(),
    ]  # fmt: skip
    for kind in plain:
        yield pa.dictionary(pa.int8(), kind), PLAIN[kind]
        yield pa.run_end_encoded(pa.int16(), kind), PLAIN[kind]
    for index in (pa.uint8(), pa.int16(), pa.uint32(), pa.int64(), pa.uint64()):
        yield pa.dictionary(index, pa.string()), TEXTS
    yield pa.dictionary(pa.int32(), pa.string(), ordered=True), TEXTS
    for ends in (pa.int32(), pa.int64()):
        yield pa.run_end_encoded(ends, pa.string()), TEXTS
    yield pa.run_end_encoded(pa.int32(), pa.dictionary(pa.int8(), pa.string())), TEXTS


def _extended():
    yield pa.uuid(), UUIDS
    yield pa.json_(), ['{"a": 1}', "null", ""]
    yield pa.json_(pa.large_string()), ['{"a": 1}', "null", ""]
    yield pa.json_(pa.string_view()), ['{"a": 1}', "null", ""]
    yield pa.bool8(), [0, 1]
    yield pa.opaque(pa.int32(), "kind", "vendor"), [1, -1, 0]
    yield pa.opaque(pa.binary(), "kind", "vendor"), BYTES
    yield pa.opaque(pa.list_(pa.int8()), "kind", "vendor"), LISTS
    yield pa.fixed_shape_tensor(pa.float32(), [2]), [[1.0, 2.0], [3.0, math.inf]]
    yield Points(), FLOATS
    yield pa.dictionary(pa.int8(), pa.uuid()), UUIDS[:2]
    yield pa.run_end_encoded(pa.int32(), pa.uuid()), UUIDS[:2]


def _nested():
    inner = [
        pa.int64(), pa.string(), pa.string_view(), pa.float16(), pa.null(), pa.decimal32(9, 4), pa.uuid(), pa.bool8(),
        pa.timestamp("us", "UTC"), pa.dictionary(pa.int8(), pa.string()), pa.run_end_encoded(pa.int32(), pa.string()),
        pa.list_(pa.int8()), pa.month_day_nano_interval(),
    ]  # fmt: skip
    known = {**PLAIN, **dict(_encoded()), pa.uuid(): UUIDS, pa.bool8(): [0, 1], pa.list_(pa.int8()): LISTS}
    for kind in inner:
        some = [*known[kind][:2], None]
        yield pa.list_(kind), [some, [], some[:1]]
        yield pa.struct({"a": kind}), [{"a": value} for value in some]
    for make in (pa.large_list, pa.list_view, pa.large_list_view):
        for kind in (pa.int64(), pa.string_view()):
            some = [*known[kind][:2], None]
            yield make(kind), [some, [], some[:1]]
    yield pa.list_(pa.int64(), 2), [[1, 2], [3, None]]
    yield pa.list_(pa.string_view(), 1), [["a"], [None]]
    yield pa.struct([]), [{}]
    yield pa.struct({"a": pa.struct({"b": pa.string_view()}), "c": pa.int8()}), [{"a": {"b": "x"}, "c": 1}]
    yield pa.map_(pa.string(), pa.int64()), [[("a", 1)], [], [("b", None)]]
    yield pa.map_(pa.string_view(), pa.float16()), [[("a", 1.5)], []]
    fields = [pa.field("i", pa.int64()), pa.field("s", pa.string())]
    yield pa.sparse_union(fields), [1, "a", 2, "b"]
    yield pa.dense_union(fields), [1, "a", 2, "b"]
    yield pa.list_(pa.dense_union(fields)), [[1, "a"], [], ["b"]]
    yield pa.struct({"u": pa.sparse_union(fields)}), [{"u": 1}, {"u": "a"}]


TYPES = [(str(kind) if len(str(kind)) < 70 else f"{str(kind)[:67]}...", kind, values) for kind, values in (
    *PLAIN.items(), *_encoded(), *_extended(), *_nested()
)] + [(name, kind, BYTES) for name, kind in INVALID.items()]  # fmt: skip
"""Name, type and some values of it, to which NULL may be added."""


def column_of(kind, values, spare=0):
    """An Arrow array with these values. With `spare` an encoding has entries it does not need, with 2 also NULL."""
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, column_of(kind.storage_type, values, spare))
    if types.is_dictionary(kind):
        return _dictionary(kind, values, spare)
    if types.is_run_end_encoded(kind):
        return _run_ends(kind, values, spare)
    if types.is_union(kind):
        return _union(kind, values)
    if types.is_struct(kind):
        parts = [[None if row is None else row[field.name] for row in values] for field in kind]
        columns = [column_of(field.type, part) for field, part in zip(kind, parts, strict=True)]
        mask = pa.array([row is None for row in values], pa.bool_())
        if not columns:
            return pa.array(values, kind)
        return pa.StructArray.from_arrays(columns, fields=list(kind), mask=mask)
    if types.is_list(kind):
        ends = [0, *itertools.accumulate(0 if row is None else len(row) for row in values)]
        offsets = pa.array(
            [None if row is None else end for row, end in zip(values, ends, strict=False)] + ends[-1:], pa.int32()
        )
        flat = column_of(kind.value_type, [value for row in values if row is not None for value in row])
        return pa.ListArray.from_arrays(offsets, flat, type=kind)
    ticks = _ticks(kind)
    if ticks is not None:
        return pa.array(values, ticks).view(kind)
    if kind in INVALID.values() and any(isinstance(value, bytes) for value in values):
        raw = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary(), pa.string_view(): pa.binary_view()}
        return pa.array(values, raw[kind]).view(kind)
    if types.is_interval(kind):
        return pa.array([None if value is None else pa.MonthDayNano(value) for value in values], kind)
    return pa.array(values, kind)


def _ticks(kind):
    """The integer that counts in a type of time; None for other types."""
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        return pa.int32() if kind.bit_width == 32 else pa.int64()
    return None


def _dictionary(kind, values, spare):
    entries = list(dict.fromkeys(same(value) for value in values if value is not None))
    first = {same(value): value for value in reversed(values)}
    entries = [first[entry] for entry in entries]
    index = {same(entry): at for at, entry in enumerate(entries)}
    missing = None
    if spare >= 1 and entries:
        entries = [*entries, *entries]
    if spare >= 2:
        missing, entries = len(entries), [*entries, None]
    indices = pa.array([missing if value is None else index[same(value)] for value in values], kind.index_type)
    entries = column_of(kind.value_type, entries)
    return pa.DictionaryArray.from_arrays(indices, entries, ordered=kind.ordered)


def _run_ends(kind, values, spare):
    ends, runs = [], []
    for end, value in enumerate(values, 1):
        if not runs or spare or same(runs[-1]) != same(value):
            ends.append(end)
            runs.append(value)
        ends[-1] = end
    return pa.RunEndEncodedArray.from_arrays(pa.array(ends, kind.run_end_type), column_of(kind.value_type, runs), kind)


def _union(kind, values):
    whole = [value if isinstance(value, int) else None for value in values]
    text = [value if isinstance(value, str) else None for value in values]
    tags = pa.array([1 if isinstance(value, str) else 0 for value in values], pa.int8())
    names = [kind.field(at).name for at in range(kind.num_fields)]
    if kind.mode == "sparse":
        return pa.UnionArray.from_sparse(tags, [pa.array(whole, pa.int64()), pa.array(text, pa.string())], names)
    places = pa.array(range(len(values)), pa.int32())
    return pa.UnionArray.from_dense(tags, places, [pa.array(whole, pa.int64()), pa.array(text, pa.string())], names)


def values_of(column):
    """The values of an Arrow column, as `column_of` takes them."""
    if isinstance(column, pa.ChunkedArray):
        return [value for chunk in column.chunks for value in values_of(chunk)]
    kind, types = column.type, pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return values_of(column.storage)
    if types.is_dictionary(kind):
        entries = values_of(column.dictionary)
        return [None if at is None else entries[at] for at in column.indices.to_pylist()]
    if types.is_run_end_encoded(kind):
        runs = values_of(column.values)
        ends = column.run_ends.to_pylist()
        every = [value for value, length in zip(runs, _lengths(ends), strict=True) for _ in range(length)]
        return every[column.offset : column.offset + len(column)]
    if types.is_struct(kind) and kind.num_fields:
        parts = [values_of(column.field(at)) for at in range(kind.num_fields)]
        names = [field.name for field in kind]
        rows = [dict(zip(names, row, strict=True)) for row in zip(*parts, strict=True)]
        return [row if valid else None for row, valid in zip(rows, column.is_valid().to_pylist(), strict=True)]
    if types.is_list(kind):
        return [values_of(row.values) if row.is_valid else None for row in column]
    ticks = _ticks(kind)
    if ticks is not None:
        return column.view(ticks).to_pylist()
    if kind in INVALID.values():
        raw = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary(), pa.string_view(): pa.binary_view()}
        return [_text(value) for value in column.view(raw[kind]).to_pylist()]
    if types.is_interval(kind):
        return [None if value is None else tuple(value) for value in column.to_pylist()]
    return column.to_pylist()


def _lengths(ends):
    return [high - low for low, high in itertools.pairwise([0, *ends])]


def _text(value):
    """Bytes as text if they are UTF-8."""
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return value


def same(value):
    """What two values share exactly if they are the same to the last bit; NaN is one."""
    return repr(_text(value) if isinstance(value, bytes) else value)


def group_of(value):
    """What two values share exactly if they are one group: zero and minus zero are."""
    return repr(abs(value)) if isinstance(value, float) and value == 0 else same(value)
