"""A checked score expression as SQLAlchemy columns: the only way in which one reaches a database.

The rules are those of `flow.score`: operands are doubles, NaN is NULL, a division by zero is NULL. Numbers and texts
are bound, columns are looked up in the table.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from skyband.errors import SchemaError, nearest

if TYPE_CHECKING:
    from skyband.query.expression import Expression, Tree

_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    "and": sa.and_,
    "or": sa.or_,
}
_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / _call("nullif", b, _number(0.0)),
}
_SQLITE_PARTS = ("year", "month", "day", "hour", "minute", "second")


def sql(by: Expression, columns: Any, dialect: str) -> Any:
    """The expression over `columns` (by name), in the words of `dialect`: postgresql, sqlite or duckdb.

    Examples
    --------
    >>> from skyband.query.expression import parse
    >>> stock = sa.table("stock", sa.column("price", sa.Double), sa.column("n", sa.Integer))
    >>> print(sql(parse("price / n"), stock.c, "sqlite"))
    CAST(stock.price AS DOUBLE) / CAST(nullif(CAST(stock.n AS DOUBLE), :param_1) AS DOUBLE)
    """
    return _Writer(by, columns, dialect).write(by.tree)


def _number(value: float) -> Any:
    return sa.literal(value, sa.Double)


def _call(name: str, *arguments: Any) -> Any:
    """A function of numbers."""
    return getattr(sa.func, name)(*arguments, type_=sa.Double)


class _Writer:
    def __init__(self, by: Expression, columns: Any, dialect: str) -> None:
        self.by, self.columns, self.dialect = by, columns, dialect

    def write(self, tree: Tree) -> Any:
        operation, *parts = tree
        special: Callable[..., Any] | None = getattr(self, f"_{operation}", None) if operation.isalpha() else None
        if special is not None:
            return special(*parts)
        if operation in _COMPARE:
            return _COMPARE[operation](*(self.write(part) for part in parts))
        if operation in _ARITHMETIC:
            return _ARITHMETIC[operation](*(self.write(part) for part in parts))
        if operation == "%":
            return self._remainder(*(self.write(part) for part in parts))
        msg = f"by={self.by.text!r}: {operation} cannot be asked of {self.dialect}"
        raise SchemaError(msg)

    def _raw(self, name: str) -> Any:
        if name not in self.columns:
            there = nearest(name, self.columns.keys())
            msg = f"by={self.by.text!r} uses column {name!r}, which the table does not have: {there}"
            raise SchemaError(msg)
        return self.columns[name]

    def _column(self, name: str) -> Any:
        column = self._raw(name)
        if isinstance(column.type, (sa.String, sa.DateTime, sa.Date, sa.LargeBinary)):
            msg = f"by={self.by.text!r} uses column {name!r}, which is {column.type} and no number"
            raise SchemaError(msg)
        if isinstance(column.type, sa.Boolean):
            return sa.case((column.is_(None), sa.null()), (column, _number(1.0)), else_=_number(0.0))
        return self.no_nan(sa.cast(column, sa.Double))

    def no_nan(self, value: Any) -> Any:
        """NULL for NaN, where the database has one."""
        return value if self.dialect == "sqlite" else _call("nullif", value, sa.cast(sa.literal("NaN"), sa.Double))

    def _flag(self, name: str) -> Any:
        return self._raw(name)

    @staticmethod
    def _number(value: float) -> Any:
        return _number(value)

    @staticmethod
    def _text(value: str) -> Any:
        return sa.literal(value, sa.String)

    @staticmethod
    def _yes(value: bool) -> Any:
        return sa.true() if value else sa.false()

    @staticmethod
    def _null() -> Any:
        return sa.cast(sa.null(), sa.Double)

    def _neg(self, part: Tree) -> Any:
        return -self.write(part)

    def _abs(self, part: Tree) -> Any:
        return _call("abs", self.write(part))

    def _exp(self, part: Tree) -> Any:
        value = self.write(part)
        return sa.case((value < _number(math.log(1.7e308)), _call("exp", value)))

    def _ln(self, part: Tree) -> Any:
        value = self.write(part)
        return sa.case((value > _number(0.0), _call("ln", value)))

    def _sqrt(self, part: Tree) -> Any:
        value = self.write(part)
        return sa.case((value >= _number(0.0), _call("sqrt", value)))

    def _power(self, base: Tree, exponent: Tree) -> Any:
        a, b = self.write(base), self.write(exponent)
        fine = sa.or_(a > _number(0.0), sa.and_(a == _number(0.0), b >= _number(0.0)), b == _call("trunc", b))
        return sa.case((sa.and_(fine, sa.or_(a != _number(0.0), b >= _number(0.0))), _call("power", a, b)))

    def _remainder(self, a: Any, b: Any) -> Any:
        if self.dialect == "duckdb":
            return a.op("%", return_type=sa.Double())(_call("nullif", b, _number(0.0)))
        whole = a / _call("nullif", b, _number(0.0))
        return a - b * _call("trunc", whole)

    def _round(self, part: Tree, digits: int) -> Any:
        value, scale = self.write(part), _number(10.0**digits)
        return _call("sign", value) * _call("trunc", _call("abs", value) * scale + _number(0.5)) / scale

    def _whole(self, part: Tree) -> Any:
        return _call("trunc", self._real(part))

    def _real(self, part: Tree) -> Any:
        return self._column(part[1]) if part[0] == "raw" else self.write(part)

    def _coalesce(self, *parts: Tree) -> Any:
        return _call("coalesce", *(self.write(part) for part in parts))

    def _least(self, *parts: Tree) -> Any:
        return self._extreme("least", "min", parts)

    def _greatest(self, *parts: Tree) -> Any:
        return self._extreme("greatest", "max", parts)

    def _extreme(self, name: str, sqlite: str, parts: tuple[Tree, ...]) -> Any:
        values = [self.write(part) for part in parts]
        if self.dialect != "sqlite":
            return _call(name, *values)
        # NULL there if either is: the other then
        return reduce(lambda a, b: _call("coalesce", _call(sqlite, a, b), a, b), values)

    def _case(self, *parts: Tree) -> Any:
        whens = [(self.write(parts[i]), self.write(parts[i + 1])) for i in range(0, len(parts) - 1, 2)]
        return sa.case(*whens, else_=self.write(parts[-1]))

    def _not(self, part: Tree) -> Any:
        return sa.not_(self.write(part))

    def _isnull(self, part: Tree) -> Any:
        value = self.write(part)
        if part[0] == "raw" and isinstance(value.type, (sa.Float, sa.Numeric)):
            value = self.no_nan(sa.cast(value, sa.Double))
        return value.is_(None)

    def _part(self, name: str, raw: Tree) -> Any:
        if self.dialect == "sqlite" and name not in _SQLITE_PARTS:
            msg = f"by={self.by.text!r}: SQLite knows no {name}; it knows {', '.join(_SQLITE_PARTS)}"
            raise SchemaError(msg)
        value = sa.extract(name, self._raw(raw[1]))
        return _call("trunc", sa.cast(value, sa.Double)) if name == "second" else sa.cast(value, sa.Double)
