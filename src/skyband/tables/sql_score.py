"""Score expressions as SQLAlchemy objects: the only way in which a score reaches a database.

The rules are those of `runtime.score`: operands are doubles, NaN is NULL, and so is a result of an arithmetic operation
or function that is not finite. Since infinity and NaN propagate through sums, products, roots and logarithms, one test
around them is enough (`_may_overflow`). Numbers and strings are bound, columns are looked up in the table.

An expression that would be too long raises `UnsuitableError`, and PostgreSQL raises an error on overflow and underflow:
the caller then reads the columns and computes the score itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.sql.elements import Grouping

from skyband.errors import SchemaError, nearest
from skyband.query.validation import shorten

if TYPE_CHECKING:
    from skyband.query.expression import Expression, Tree

_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
}
_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / _call("nullif", b, _number(0.0)),
}
_SQLITE_PARTS = {"year": "%Y", "month": "%m", "day": "%d", "hour": "%H", "minute": "%M", "second": "%S"}
_CHECKED = {"sum", "product", "exp", "ln", "sqrt", "power", "round"}
_UNCHANGED = {"neg", "abs", "whole", "real"}
_MAX_OPERATIONS = 1_000
"""Operations of one statement. Databases copy operands that are used twice, so that depth multiplies them."""
_MAX_OPERANDS = 100
"""Operands of one operation: SQLite allows 127 arguments, and nests the operands of a sum."""
_EXP = -745.1332191019412, 709.782712893384
"""The largest doubles whose exponential is zero, and is finite."""
_HALF = 0.49999999999999994  # the largest double below 0.5: adding it never rounds up to the next integer
_WHOLE = 2.0**52  # from here on every double is an integer


class UnsuitableError(Exception):
    """Raised for an expression that is too long for a database, or uses what it does not have."""


def write_score(by: Expression, columns: Any, dialect: str) -> Any:
    """Write the expression over `columns` (by name) in the SQL of `dialect`: postgresql, sqlite or duckdb.

    Examples
    --------
    >>> from skyband.query.expression import parse
    >>> stock = sa.table("stock", sa.column("price", sa.Double), sa.column("n", sa.Integer))
    >>> print(write_score(parse("abs(price)"), stock.c, "sqlite"))
    abs(CAST(stock.price AS DOUBLE))
    """
    return _Writer(by, columns, dialect).write(by.tree)


def _may_overflow(tree: Tree) -> bool:
    """Whether the raw value may be infinite or NaN where the definition has NULL."""
    return tree[0] in _CHECKED or (tree[0] in _UNCHANGED and tree[1][0] != "raw" and _may_overflow(tree[1]))


def _number(value: float) -> Any:
    return sa.literal(value, sa.Double)


def _call(name: str, *arguments: Any) -> Any:
    """A function of numbers."""
    return getattr(sa.func, name)(*arguments, type_=sa.Double)


def _parenthesize(value: Any) -> Any:
    """Keep the parentheses of a + (b + c), which SQLAlchemy drops, even explicit ones: the sum rounds otherwise."""
    return sa.type_coerce(Grouping(value), sa.Double)


class _Writer:
    def __init__(self, by: Expression, columns: Any, dialect: str) -> None:
        self.by, self.columns, self.dialect = by, columns, dialect
        self.sizes: dict[Tree, int] = {}

    def write(self, tree: Tree) -> Any:
        """Write a tree: a number, NULL where the result is not finite; or a truth value."""
        raw = self.raw(tree)
        if not _may_overflow(tree):
            return raw
        if self.dialect == "duckdb":  # its nullif is a CASE, and its comparisons rely on statistics without NaN
            return sa.case((sa.func.isfinite(raw), raw))
        if self.dialect == "postgresql":
            raw = _call("nullif", raw, sa.literal_column("'NaN'::float8"))
        return _call("nullif", _call("nullif", raw, _number(math.inf)), _number(-math.inf))

    def raw(self, tree: Tree) -> Any:
        """Write a tree without replacing results that are not finite by NULL."""
        if self.size(tree) > _MAX_OPERATIONS:
            raise self.unsuitable("is too long")
        operation, *parts = tree
        if operation in ("sum", "product"):
            return self.chain(parts)
        if operation in ("and", "or"):
            return (sa.and_ if operation == "and" else sa.or_)(*map(self.write, parts))
        if operation in _COMPARE:
            return _COMPARE[operation](*map(self.write, parts))
        special: Callable[..., Any] = getattr(self, f"_{operation}")
        return special(*parts)

    def size(self, tree: Tree) -> int:
        """Return an upper bound of the operations that a database makes of a tree, with all copies of operands."""
        if tree not in self.sizes:
            operation, *parts = tree
            sizes = [self.size(part) if isinstance(part, tuple) else 0 for part in parts]
            copies = 2 if operation in {*_CHECKED, "least", "greatest"} else 1
            copies *= 4 if operation in ("round", "power", "exp") else 1
            remainders = sum(part == "%" for part in parts) if operation == "product" else 0
            self.sizes[tree] = min(1 + copies * sum(sizes) * 6**remainders, _MAX_OPERATIONS + 1)
        return self.sizes[tree]

    def unsuitable(self, why: str) -> UnsuitableError:
        return UnsuitableError(f"by={shorten(self.by.text)} {why} for {self.dialect}")

    def chain(self, parts: list[Any]) -> Any:
        """Write a + b - c from left to right. Only a divisor is checked: a finite number by infinity is zero."""
        if len(parts) > 2 * _MAX_OPERANDS:
            raise self.unsuitable("has too many operands")
        result = self.raw(parts[0])
        for sign, part in zip(parts[1::2], parts[2::2], strict=True):
            other = self.write(part) if sign in "/%" else self.raw(part)
            result = self.remainder(result, other) if sign == "%" else _ARITHMETIC[sign](result, other)
        return _parenthesize(result)

    def remainder(self, a: Any, b: Any) -> Any:
        b = _call("nullif", b, _number(0.0))
        if self.dialect != "postgresql":
            return _call("mod", a, b)
        # it computes the remainder of integers only; for others the division fails, and the caller computes the score
        integers = sa.and_(a == _call("trunc", a), b == _call("trunc", b), _call("abs", a) <= _number(2.0**53))
        exact = _call("mod", sa.cast(a, sa.BigInteger), sa.cast(b, sa.BigInteger))
        return sa.case((_call("abs", a) < _call("abs", b), a), (integers, sa.cast(exact, sa.Double)), else_=a / (b - b))

    # ------------------------------------------------------------ columns and constants

    def find(self, name: str) -> Any:
        if name not in self.columns:
            there = nearest(name, self.columns.keys())
            raise SchemaError(
                f"by={shorten(self.by.text)} uses column {name!r}, which the table does not have: {there}"
            )
        return self.columns[name]

    def _raw(self, name: str) -> Any:
        """Write a column that is compared with a string."""
        column = self.find(name)
        if isinstance(column.type, sa.Uuid):
            return sa.cast(column, sa.Text)
        if not isinstance(column.type, (sa.String, sa.types.NullType)):
            raise SchemaError(
                f"by={shorten(self.by.text)}: column {name!r} must be text to be compared with text, got {column.type}"
            )
        return sa.collate(column, "BINARY") if self.dialect == "sqlite" else column  # the column may be declared NOCASE

    def _flag(self, name: str) -> Any:
        column = self.find(name)
        if not isinstance(column.type, sa.Boolean):
            raise SchemaError(
                f"by={shorten(self.by.text)}: column {name!r} must be BOOLEAN to be a condition, got {column.type}"
            )
        return column

    def _column(self, name: str) -> Any:
        column = self.find(name)
        if isinstance(column.type, (sa.String, sa.DateTime, sa.Date, sa.Time, sa.LargeBinary)):
            raise SchemaError(
                f"by={shorten(self.by.text)} uses column {name!r}, which must be a number, got {column.type}"
            )
        if isinstance(column.type, sa.Boolean):
            return sa.case((column, _number(1.0)), (sa.not_(column), _number(0.0)))
        return self.double(column)

    def double(self, column: Any) -> Any:
        """Write a column as doubles, NULL for NaN."""
        value = sa.cast(column, sa.Double)
        if self.dialect == "postgresql":  # as in the index that docs/views.md shows
            return _call("nullif", value, sa.literal_column("'NaN'::float8"))
        if self.dialect == "sqlite" or isinstance(column.type, sa.Integer):
            return value
        return sa.case((sa.not_(sa.func.isnan(value)), value))  # not a comparison: see `write`

    def _number(self, value: float) -> Any:
        return _number(value)

    def _text(self, value: str) -> Any:
        return sa.literal(value, sa.String)

    def _yes(self, value: bool) -> Any:
        return sa.true() if value else sa.false()

    def _null(self) -> Any:
        return sa.cast(sa.null(), sa.Double)

    # ------------------------------------------------------------ functions

    def _neg(self, part: Tree) -> Any:
        return -self.raw(part)

    def _abs(self, part: Tree) -> Any:
        return _call("abs", self.raw(part))

    def _exp(self, part: Tree) -> Any:
        value = self.write(part)
        if self.dialect != "postgresql":
            return _call("exp", value)
        # a decay often underflows, which is an error in PostgreSQL
        return sa.case((value <= _number(_EXP[0]), _number(0.0)), (value <= _number(_EXP[1]), _call("exp", value)))

    def _ln(self, part: Tree) -> Any:
        value = self.raw(part)
        if self.dialect != "sqlite":  # which returns NULL; others raise
            value = _call("nullif", _call("greatest", value, _number(0.0)), _number(0.0))
        return _call("ln", value)

    def _sqrt(self, part: Tree) -> Any:
        value, negative = self.raw(part), _number(-5e-324)
        if self.dialect != "sqlite":
            value = _call("nullif", _call("greatest", value, negative), negative)
        return _call("sqrt", value)

    def _power(self, base: Tree, exponent: Tree) -> Any:
        a, b = self.write(base), self.write(exponent)
        if self.dialect != "postgresql":
            return _call("power", a, b)
        undefined = sa.and_(a < _number(0.0), a > _number(-math.inf), b != _call("trunc", b))
        return sa.case(
            (sa.or_(undefined, sa.and_(a == _number(0.0), b < _number(0.0))), sa.null()), else_=_call("power", a, b)
        )

    def _round(self, part: Tree, digits: int) -> Any:
        value, scale = self.write(part), _number(float(f"1e{abs(digits)}"))
        scaled = value * scale if digits >= 0 else value / scale
        near = _call("trunc", scaled + _call("sign", value) * _number(_HALF))
        if digits < 0:
            return _parenthesize(near * scale)
        return sa.case((_call("abs", value) < _number(_WHOLE / 10.0**digits), near / scale), else_=value)

    def _whole(self, part: Tree) -> Any:
        return _call("trunc", self._real(part))

    def _real(self, part: Tree) -> Any:
        return self._column(part[1]) if part[0] == "raw" else self.raw(part)

    def write_all(self, parts: tuple[Tree, ...]) -> list[Any]:
        if len(parts) > _MAX_OPERANDS:
            raise self.unsuitable("has too many operands")
        return [self.write(part) for part in parts]

    def _coalesce(self, *parts: Tree) -> Any:
        values = self.write_all(parts)
        return _call("coalesce", *values) if len(values) > 1 else values[0]

    def _least(self, *parts: Tree) -> Any:
        return self.extreme("least", "min", math.inf, parts)

    def _greatest(self, *parts: Tree) -> Any:
        return self.extreme("greatest", "max", -math.inf, parts)

    def extreme(self, name: str, sqlite: str, worst: float, parts: tuple[Tree, ...]) -> Any:
        values = self.write_all(parts)
        if len(values) == 1:
            return values[0]
        if self.dialect != "sqlite":
            return _call(name, *values)
        # SQLite's result is NULL if one of the arguments is
        filled = [_call("coalesce", value, _number(worst)) for value in values]
        return sa.case((_call("coalesce", *values).is_not(None), _call(sqlite, *filled)))

    def _case(self, *parts: Tree) -> Any:
        whens = [(self.write(parts[i]), self.write(parts[i + 1])) for i in range(0, len(parts) - 1, 2)]
        return sa.case(*whens, else_=self.write(parts[-1]))

    def _in(self, value: Tree, *choices: Tree) -> Any:
        return self.write(value).in_([self.write(choice) for choice in choices])

    def _not(self, part: Tree) -> Any:
        return sa.not_(self.write(part))

    def _isnull(self, part: Tree) -> Any:
        if part[0] != "raw":
            return self.write(part).is_(None)
        column = self.find(part[1])
        return (self.double(column) if isinstance(column.type, (sa.Float, sa.Numeric)) else column).is_(None)

    def _part(self, name: str, raw: Tree) -> Any:
        column = self.find(raw[1])
        if not isinstance(column.type, (sa.DateTime, sa.Date)):
            raise SchemaError(
                f"by={shorten(self.by.text)}: {raw[1]!r} must be a time in {name}({raw[1]}), got {column.type}"
            )
        if self.dialect == "sqlite":
            if name not in _SQLITE_PARTS:
                raise self.unsuitable(f"takes {name}, which has no function")
            return sa.cast(sa.func.strftime(_SQLITE_PARTS[name], column, type_=sa.String), sa.Double)
        zoned = isinstance(column.type, sa.DateTime) and column.type.timezone
        moment = sa.func.timezone("UTC", column) if zoned else sa.cast(column, sa.DateTime)
        return _call("trunc", sa.cast(sa.extract(name, moment), sa.Double))
