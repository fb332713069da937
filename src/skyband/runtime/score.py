"""Scores of rows: the score expression, evaluated on columns by Arrow's compute engine.

Every operand is cast to double. An arithmetic operation or function whose result is not finite (overflow, division by
zero, the logarithm of zero, infinity plus one) gives NULL, which is NaN in the column that comes out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.errors import SchemaError
from skyband.query.expression import Expression, Tree
from skyband.query.points import Distance, Weighted
from skyband.runtime.arrow import plain

if TYPE_CHECKING:
    from skyband.query.topk import Score, TopK

_SIMPLE: dict[str, Callable[..., Any]] = {
    "exp": pc.exp,
    "ln": pc.ln,
    "sqrt": pc.sqrt,
    "power": pc.power,
}
_COMPARE: dict[str, Callable[..., Any]] = {
    "=": pc.equal,
    "<>": pc.not_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
    "<": pc.less,
    "<=": pc.less_equal,
}
_PARTS: dict[str, Callable[..., Any]] = {"week": pc.iso_week}
_FLOAT = pa.float64()
_WHOLE = 2.0**52  # from here on every double is a whole number
_HALF = 0.49999999999999994  # the largest double below 0.5: adding it never rounds up to the next integer
_FEW = 8  # choices of IN that are compared one by one sooner than looked up
_EXACT_TEN = 22  # the largest power of ten that a double holds
_NULL = pa.scalar(None, _FLOAT)
_NUMERAL = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"


def scores(by: Expression | Distance | Weighted | Score, rows: pa.Table) -> np.ndarray:
    """Return the score of each row as float64, NaN where it has none.

    Examples
    --------
    >>> from skyband.query.expression import parse
    >>> scores(parse("a / b"), pa.table({"a": [6, 1, None], "b": [3, 0, 1]}))
    array([ 2., nan, nan])
    """
    if isinstance(by, (Distance, Weighted)):
        return _distances(by, points(by.columns, rows))
    if not isinstance(by, Expression):
        return _call(by, rows)
    if by.tree[0] == "column":
        own = rows.column(by.tree[1])
        if own.type == _FLOAT:  # its own score, NaN and infinities as they are: no look is needed
            return _numpy(own)
    value = _value(by.tree, rows)
    if isinstance(value, pa.Scalar):
        return np.full(rows.num_rows, np.nan if value.as_py() is None else value.as_py())
    return _numpy(value)


def check_types(query: TopK, schema: pa.Schema) -> None:
    """Raise unless the score can be computed from columns of these types. That of a join is known once its table is.

    Examples
    --------
    >>> import skyband as sb
    >>> check_types(sb.TopK(k=1, by="note", window=sb.Counting(9)), pa.schema({"note": pa.string()}))
    Traceback (most recent call last):
        ...
    skyband.errors.SchemaError: column 'note' in by must be a number, got string: cast it, or compare it
    """
    by = query.by
    if query.join is not None or not isinstance(by, (Expression, Distance, Weighted)):
        return
    if isinstance(by, Expression) and by.tree[0] == "total":
        if by.tree[2] is None:
            return
        by = Expression(by.text, by.tree[2], by.columns)
    scores(by, schema.empty_table())


def ranks_by(query: TopK, rows: pa.Table) -> np.ndarray:
    """Return what an engine ranks the rows by, larger first."""
    score = scores(query.by, rows)
    return -score if query.ascending else score


def points(columns: tuple[str, ...], rows: pa.Table) -> np.ndarray:
    """Return the rows as points, a coordinate for each column; NaN where there is none.

    Examples
    --------
    >>> points(("x", "y"), pa.table({"x": [1, 2], "y": [3.0, None]})).tolist()
    [[1.0, 3.0], [2.0, nan]]
    """
    found = np.empty((rows.num_rows, len(columns)))
    for at, name in enumerate(columns):
        found[:, at] = _numpy(_double(rows.column(name), name))
    return found


def _distances(by: Distance | Weighted, at: np.ndarray) -> np.ndarray:
    """Return distances, or weighted sums, added column by column: the kernels for many queries add in this order."""
    weights = by.weights or (1.0,) * at.shape[1]
    put = np.maximum if by.kind == "chebyshev" else np.add
    with np.errstate(over="ignore", invalid="ignore"):
        if by.kind == "sum":
            parts = [weight * at[:, j] for j, weight in enumerate(weights)]
        else:
            parts = [weight * np.abs(at[:, j] - by.to[j]) for j, weight in enumerate(weights)]
        euclidean = by.kind == "euclidean"
        total = np.sqrt(reduce(put, [part * part for part in parts])) if euclidean else reduce(put, parts)
    wrong = np.isinf(total)
    if wrong.any():  # an overflow is no score; an infinite coordinate is one
        total[wrong & np.isfinite(at).all(axis=1)] = np.nan
    return total


def _numpy(value: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """Return a column of doubles as a NumPy array, NULL as NaN; without a copy if no value is NULL."""
    if isinstance(value, pa.ChunkedArray):
        value = value.chunk(0) if value.num_chunks == 1 else value.combine_chunks()
    if isinstance(value, pa.ChunkedArray):
        value = pa.concat_arrays(value.chunks) if value.num_chunks else pa.array([], _FLOAT)
    return np.asarray(value.to_numpy(zero_copy_only=False), np.float64)


class _Columns(Mapping[str, np.ndarray]):
    """The columns of a table as NumPy arrays, each converted when it is asked for."""

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows

    def __getitem__(self, name: str) -> np.ndarray:
        return self._rows.column(name).to_numpy()

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows.column_names)

    def __len__(self) -> int:
        return self._rows.num_columns


def _call(by: Score, rows: pa.Table) -> np.ndarray:
    found = by(_Columns(rows))
    try:
        column = np.asarray(found, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise SchemaError(f"by={_name(by)} must return a float64 array, got {type(found).__name__}") from error
    if column.shape != (rows.num_rows,):
        raise SchemaError(
            f"by={_name(by)} must return a number for each of {rows.num_rows} rows, got shape {column.shape}"
        )
    return column


def _name(by: Score) -> str:
    return getattr(by, "__name__", repr(by))


def _value(tree: Tree, rows: pa.Table) -> Any:
    """Return the value of a tree: an Arrow column, or a scalar if it has no column."""
    operation, *parts = tree
    if operation == "column":
        return _double(rows.column(parts[0]), parts[0])
    if operation == "raw":
        return plain(rows.column(parts[0]))
    if operation == "number":
        return pa.scalar(parts[0], _FLOAT)
    if operation in ("text", "yes"):
        return pa.scalar(parts[0])
    if operation == "null":
        return _NULL
    if operation == "flag":
        return _flag(rows.column(parts[0]), parts[0])
    if operation == "part":
        return _part(parts[0], parts[1], rows)
    if operation in ("whole", "real"):
        value = _cast(_value(parts[0], rows), tree)
        return pc.trunc(value) if operation == "whole" else value
    if operation in ("sum", "product", "round"):
        return _chain(parts, rows) if operation != "round" else _round(_value(parts[0], rows), parts[1])
    values = [_value(part, rows) for part in parts]
    if operation in _COMPARE or operation == "in":
        _check_texts(parts, values)
        return _COMPARE[operation](*values) if operation != "in" else _is_in(*values)
    if operation in _SIMPLE:
        return _finite_or_null(_SIMPLE[operation](*values))
    return _OTHERS[operation](*values)


def _chain(parts: list[Any], rows: pa.Table) -> Any:
    """Return a + b - c, or a * b / c, from left to right. A value that is not finite stays so: one test is enough."""
    result = _value(parts[0], rows)
    for sign, part in zip(parts[1::2], parts[2::2], strict=True):
        result = _STEPS[sign](result, _value(part, rows))
    return _finite_or_null(result)


def _round(value: Any, digits: int) -> Any:
    """Return values rounded half away from zero: the integer nearest to x * 10^digits, divided by 10^digits."""
    x = np.array([_plain(value)]) if isinstance(value, pa.Scalar) else _numpy(value)
    scale = float(f"1e{abs(digits)}")
    with np.errstate(over="ignore", invalid="ignore"):
        result = x * scale if digits >= 0 else x / scale
        result += np.copysign(_HALF, x)
        np.trunc(result, out=result)
        result = result / scale if digits >= 0 else result * scale
        large = np.abs(x) >= (_WHOLE / scale if digits >= 0 else np.inf)
    if large.any():
        result[large] = x[large]
    found = _finite_or_null(pa.array(result, _FLOAT, from_pandas=True))
    return found[0] if isinstance(value, pa.Scalar) else found


def _finite_or_null(result: Any) -> Any:
    """Return `result` with NULL where it is not finite."""
    if isinstance(result, pa.Scalar):
        return result if np.isfinite(_plain(result)) else _NULL
    return result if _all_finite(result) else pc.if_else(pc.is_finite(result), result, _NULL)


def _nan_to_null(column: Any) -> Any:
    return column if _all_finite(column) else pc.if_else(pc.is_nan(column), _NULL, column)


def _all_finite(column: Any) -> bool:
    """Return whether no value is NaN or infinite: if one is, so is the sum."""
    with np.errstate(over="ignore", invalid="ignore"):
        if not column.null_count and np.isfinite(sum(chunk.to_numpy().sum() for chunk in _chunks(column))):
            return True
    return pc.all(pc.is_finite(column), min_count=0).as_py() is not False  # NULL is neither


def _chunks(column: Any) -> list[pa.Array]:
    return column.chunks if isinstance(column, pa.ChunkedArray) else [column]


def _double(column: pa.ChunkedArray, name: str) -> Any:
    """Return a column as doubles; NaN is NULL."""
    column = plain(column)
    kind = column.type
    if pa.types.is_float64(kind):
        return _nan_to_null(column)
    if pa.types.is_decimal(kind):
        return _decimals_to_double(column)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        value = column.cast(_FLOAT, safe=False)
        return _nan_to_null(value) if pa.types.is_floating(kind) else value
    if pa.types.is_boolean(kind):
        return column.cast(pa.int8()).cast(_FLOAT)
    if pa.types.is_null(kind):
        return column.cast(_FLOAT)
    hint = "use a part of it, such as hour(...)" if pa.types.is_temporal(kind) else "cast it, or compare it"
    raise SchemaError(f"column {name!r} in by must be a number, got {kind}: {hint}")


def _decimals_to_double(column: Any) -> Any:
    """Return the doubles nearest to decimals; Arrow's own cast is off by one digit in many cases."""
    kind = column.type
    if pa.types.is_decimal128(kind) and 0 <= kind.scale <= _EXACT_TEN:
        found = [_small_decimals_to_double(chunk, kind.scale) for chunk in _chunks(column)]
        if all(part is not None for part in found):
            return pa.chunked_array(found, _FLOAT)
    return column.cast(pa.string()).cast(_FLOAT)


def _small_decimals_to_double(chunk: pa.Array, scale: int) -> pa.Array | None:
    """Return decimals as doubles by one division, which rounds once; None if a side of it is not a double."""
    low, high = np.frombuffer(chunk.buffers()[1], np.int64, 2 * len(chunk), 16 * chunk.offset).reshape(-1, 2).T
    missing = chunk.is_null().to_numpy(zero_copy_only=False) if chunk.null_count else None
    if missing is not None:
        low, high = np.where(missing, 0, low), np.where(missing, 0, high)
    if len(low) and not (low.min() >= -(2**53) and low.max() <= 2**53 and (high == low >> 63).all()):
        return None
    return pa.array(low / 10.0**scale, _FLOAT, mask=missing)


def _flag(column: pa.ChunkedArray, name: str) -> Any:
    """Return a column of true and false."""
    column = plain(column)
    if pa.types.is_null(column.type):
        return column.cast(pa.bool_())
    if not pa.types.is_boolean(column.type):
        raise SchemaError(
            f"column {name!r} must be boolean to be a condition in by, got {column.type}: compare it with a value"
        )
    return column


def _check_texts(parts: list[Any], values: list[Any]) -> None:
    """Raise unless each column that is compared with a text is one of text."""
    for part, value in zip(parts, values, strict=True):
        kind = value.type
        text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind)
        if part[0] == "raw" and not text:
            raise SchemaError(
                f"column {part[1]!r} must be text to be compared with one in by, got {kind}: compare it with a number"
            )


def _cast(value: Any, tree: Tree) -> Any:
    """Return a column of any type as doubles; a text that is not a number is NULL."""
    kind = value.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        good = pc.match_substring_regex(value, _NUMERAL)
        text = pc.if_else(good, pc.ascii_trim_whitespace(value), pa.scalar(None, kind))  # need not be UTF-8
        return _finite_or_null(pc.cast(text, _FLOAT))
    if isinstance(value, (pa.ChunkedArray, pa.Array)):
        return _double(value, tree[1][1] if tree[1][0] == "raw" else str(tree[1]))
    return value.cast(_FLOAT)


def _part(part: str, raw: Tree, rows: pa.Table) -> Any:
    column = _value(raw, rows)
    if not pa.types.is_timestamp(column.type) and not pa.types.is_date(column.type):
        raise SchemaError(f"column {raw[1]!r} in {part}(...) must be a time, got {column.type}: cast it in the source")
    if pa.types.is_timestamp(column.type) and column.type.tz is not None:
        column = column.cast(pa.timestamp(column.type.unit, "UTC"))
    if pa.types.is_date(column.type):
        column = column.cast(pa.timestamp("ms"))
    function = _PARTS[part] if part in _PARTS else getattr(pc, part)
    return function(column).cast(_FLOAT)


def _quotient(a: Any, b: Any) -> Any:
    """Return a / b; NULL where b is zero, whatever a is."""
    return pc.divide(a, pc.if_else(pc.equal(b, 0.0), _NULL, b))


def _remainder(a: Any, b: Any) -> Any:
    """Return the remainder of a / b with the sign of a, as in SQL; Arrow has no such function."""
    left, right = (_plain(v) if isinstance(v, pa.Scalar) else _numpy(v) for v in (a, b))
    with np.errstate(invalid="ignore"):
        exact = np.fmod(left, right)
    return (
        pa.array(exact, _FLOAT, from_pandas=True) if isinstance(exact, np.ndarray) else pa.scalar(float(exact), _FLOAT)
    )


def _plain(value: pa.Scalar) -> float:
    found = value.as_py()
    return np.nan if found is None else float(found)


def _case(*parts: Any) -> Any:
    """Return the first value whose condition holds."""
    result = parts[-1]
    for i in range(len(parts) - 3, -1, -2):
        if isinstance(parts[i], pa.Scalar):
            result = parts[i + 1] if parts[i].as_py() else result
        else:
            result = pc.if_else(pc.fill_null(parts[i], fill_value=False), parts[i + 1], result)
    return result


def _is_in(value: Any, *choices: Any) -> Any:
    """Return whether `value` is one of the choices; NULL if it is not, and it or a choice is NULL."""
    constant = all(isinstance(choice, pa.Scalar) for choice in choices)
    if isinstance(value, pa.Scalar) or not constant or len(choices) <= _FEW:
        return reduce(pc.or_kleene, (pc.equal(value, choice) for choice in choices))
    known = [choice.as_py() for choice in choices if choice.is_valid]
    if pa.types.is_floating(value.type) and 0.0 in known:
        known.append(-0.0)  # which is_in takes for another number
    found = pc.is_in(value, value_set=pa.array(known, value.type))
    if not all(choice.is_valid for choice in choices):
        return pc.if_else(found, pa.scalar(True), pa.scalar(None, pa.bool_()))
    return pc.if_else(pc.is_valid(value), found, pa.scalar(None, pa.bool_())) if value.null_count else found


def _extreme(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *values: function(*values, skip_nulls=True)


_STEPS: dict[str, Callable[..., Any]] = {
    "+": pc.add,
    "-": pc.subtract,
    "*": pc.multiply,
    "/": _quotient,
    "%": _remainder,
}
_OTHERS: dict[str, Callable[..., Any]] = {
    "and": lambda *values: reduce(pc.and_kleene, values),
    "or": lambda *values: reduce(pc.or_kleene, values),
    "least": _extreme(pc.min_element_wise),
    "greatest": _extreme(pc.max_element_wise),
    "coalesce": pc.coalesce,
    "neg": pc.negate,
    "abs": pc.abs,
    "case": _case,
    "not": pc.invert,
    "isnull": lambda value: pc.is_null(value, nan_is_null=pa.types.is_floating(value.type)),
}
