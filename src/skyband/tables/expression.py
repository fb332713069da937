"""A checked score expression as SQL: the only way in which one reaches a database.

The rules are those of `flow.score`, operation by operation: operands are doubles; a result that is NaN, or infinite
though all operands are finite, is NULL. Numbers and texts are bound, columns are looked up in the table and quoted.

A rule names its operands several times, so that written into each other expressions would double with every level. An
operand that is long is therefore computed first, under a name of its own, in a SELECT below (`Score.steps`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from string import Formatter
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.elements import quoted_name

from skyband.errors import SchemaError, nearest
from skyband.query.trees import shown
from skyband.tables import _floats

if TYPE_CHECKING:
    from skyband.query.expression import Expression, Tree

_SQLITE_PARTS = ("year", "month", "day", "hour", "minute", "second")
_LONG = 16  # parts from which an operand gets a name
_CHAIN = 100  # operands after which a chain goes on in the next step
_ARGUMENTS = 100  # of a function: SQLite takes 127


class Fragment(sa.ColumnElement[Any]):
    """Pieces of SQL, with columns and bound values between them."""

    inherit_cache = False

    def __init__(self, pieces: Iterable[Any], type_: Any) -> None:
        self.pieces, self.type = tuple(pieces), type_

    def __str__(self) -> str:
        return "".join(map(str, self.pieces))


@compiles(Fragment)
def _compiled(fragment: Fragment, compiler: Any, **options: Any) -> str:
    for whole in (
        "within_columns_clause",
        "within_label_clause",
        "add_to_result_map",
    ):  # of the fragment, not its pieces
        options.pop(whole, None)
    return "".join(p if isinstance(p, str) else compiler.process(p, **options) for p in fragment.pieces)


@dataclass(frozen=True)
class _Value:
    """SQL of one value: its pieces, how many there are, the step it can stand in, and whether it is never infinite."""

    pieces: tuple[Any, ...]
    weight: int = 1
    step: int = 0
    finite: bool = False
    truth: bool = False
    number: float | None = None

    def small(self, least: float, most: float) -> bool:
        """Whether it is a number of that size, or zero."""
        return self.number is not None and (self.number == 0 or least <= abs(self.number) < most)


@dataclass(frozen=True)
class Score:
    """A score in the SQL of a database, over the columns of its table and those of the `steps` before it."""

    sql: Fragment
    steps: tuple[dict[str, Fragment], ...]
    columns: frozenset[str] = field(default=frozenset())


def sql(by: Expression, columns: Any, dialect: str) -> Score:
    """Write the expression over `columns` (by name), in the words of `dialect`: postgresql, sqlite or duckdb.

    Examples
    --------
    >>> from skyband.query.expression import parse
    >>> stock = sa.table("stock", sa.column("price", sa.Double), sa.column("n", sa.Integer))
    >>> print(sql(parse("price"), stock.c, "sqlite").sql)
    CAST("price" AS DOUBLE)
    """
    writer = _Writer(by, columns, dialect)
    value = writer.root(by.tree)
    return Score(Fragment(value.pieces, sa.Double()), tuple(writer.steps[: value.step]), frozenset(writer.used))


class _Writer:
    def __init__(self, by: Expression, columns: Any, dialect: str) -> None:
        self.by, self.columns, self.dialect = by, columns, dialect
        self.steps: list[dict[str, Fragment]] = []
        self.used: set[str] = set()
        self.known: dict[Tree, _Value] = {}
        self.names: dict[int, tuple[_Value, _Value]] = {}
        self.infinity = {"sqlite": "9e999", "duckdb": "'Infinity'::DOUBLE"}.get(dialect, _floats.INFINITY)
        self.double = "double precision" if dialect == "postgresql" else "DOUBLE"

    # ------------------------------------------------------------ values

    def write(self, tree: Tree) -> _Value:
        """The SQL of a tree, short enough to be used more than once."""
        if tree not in self.known:
            self.known[tree] = self.named(self.root(tree))
        return self.known[tree]

    def root(self, tree: Tree) -> _Value:
        """The SQL of a tree that is used once."""
        operation, *parts = tree
        if operation in ("sum", "product"):
            return self.chain(parts)
        if operation in ("and", "or"):
            return self.joined(f" {operation.upper()} ", map(self.write, parts), truth=True)
        special: Callable[..., _Value] | None = getattr(self, f"_{operation}", None) if operation.isalpha() else None
        if special is not None:
            return special(*parts)
        a, b = map(self.write, parts)
        return self.made(f"({{a}} {operation} {{b}})", truth=True, a=a, b=b)

    def made(self, template: str, *, finite: bool = False, truth: bool = False, **values: Any) -> _Value:
        """A template with its {names} filled in."""
        pieces: list[Any] = []
        weight, step = 1, 0
        for literal, name, _, _ in Formatter().parse(template):
            pieces.append(literal)
            if name is not None:
                value = values[name]
                pieces += value.pieces
                weight, step = weight + value.weight, max(step, value.step)
        return _Value(tuple(pieces), weight, step, finite, truth)

    def joined(self, sign: str, values: Iterable[_Value], *, truth: bool = False) -> _Value:
        """Values with a sign between them, in brackets."""
        return self.made("({a})", truth=truth, a=self.listed(values, sign))

    def listed(self, values: Iterable[_Value], sign: str = ", ") -> _Value:
        found: dict[str, Any] = {f"v{at}": value for at, value in enumerate(values)}
        return self.made(sign.join(f"{{{name}}}" for name in found), **found)

    def bound(self, value: Any, kind: Any) -> _Value:
        return _Value((sa.literal(value, kind),), finite=True)

    def named(self, value: _Value, *, always: bool = False) -> _Value:
        """The value under a name of its own, if it is long."""
        if value.weight <= _LONG and not (always and len(value.pieces) > 1):
            return value
        if id(value) in self.names:
            return self.names[id(value)][1]
        while len(self.steps) <= value.step:
            self.steps.append({})
        name = self.free_name(f"skyband_{sum(map(len, self.steps))}")
        kind = sa.Boolean() if value.truth else sa.Double()
        self.steps[value.step][name] = Fragment(value.pieces, kind)
        found = _Value((f'"{name}"',), step=value.step + 1, finite=value.finite, truth=value.truth)
        self.names[id(value)] = value, found  # the value is kept, so that no other gets its id
        return found

    def free_name(self, name: str) -> str:
        while name in self.columns:
            name += "_"
        return name

    # ------------------------------------------------------------ rules

    def is_finite(self, value: _Value) -> _Value:
        # DuckDB knows the range of a column from statistics, which leave out NaN: it takes abs(x) < infinity for true
        return self.made("isfinite({a})" if self.dialect == "duckdb" else f"(abs({{a}}) < {self.infinity})", a=value)

    def is_infinite(self, value: _Value) -> _Value:
        return self.made("isinf({a})" if self.dialect == "duckdb" else f"(abs({{a}}) = {self.infinity})", a=value)

    def checked(self, raw: _Value, *operands: _Value) -> _Value:
        """`raw` with NULL where it is NaN, or infinite though all operands are finite."""
        raw = self.named(raw)
        fine = self.is_finite(raw)
        suspects = [self.is_infinite(operand) for operand in operands if not operand.finite]
        if not suspects and self.dialect == "sqlite":
            return self.made("nullif(nullif({raw}, 9e999), -9e999)", finite=True, raw=raw)
        if not suspects:
            return self.made("CASE WHEN {fine} THEN {raw} END", finite=True, fine=fine, raw=raw)
        return self.made(
            "CASE WHEN {fine} THEN {raw} WHEN {infinite} AND {operands} THEN {raw} END",
            fine=fine,
            raw=raw,
            infinite=self.is_infinite(raw),
            operands=self.joined(" OR ", suspects),
        )

    def chain(self, parts: list[Any]) -> _Value:
        """One operation of all its operands, from left to right."""
        operands, signs = [self.write(part) for part in parts[::2]], parts[1::2]
        careful = self.dialect == "postgresql"
        if careful and len(signs) > 3:
            operands = [self.named(operand, always=True) for operand in operands]
        raw, low = operands[0], 0
        while low < len(signs):
            high = low + 1
            if signs[low] != "%":
                while high < len(signs) and high - low < _CHAIN and signs[high] != "%":
                    high += 1
            some, others = signs[low:high], operands[low + 1 : high + 1]
            if careful:
                raw = self.careful(raw, some, others, operands if high == len(signs) else None)
            else:
                raw = self.plain(raw, some, others)
            if high < len(signs):
                raw = self.named(raw, always=high - low == _CHAIN)
            low = high
        return raw if careful else self.checked(raw, *operands)

    def plain(self, first: _Value, signs: list[str], others: list[_Value]) -> _Value:
        """A + b - c as it is."""
        if signs == ["%"]:
            return self.made("mod({a}, nullif({b}, 0.0))", a=first, b=others[0])
        values: dict[str, Any] = {"v": first, **{f"v{at}": value for at, value in enumerate(others)}}
        rest = [
            f" {sign} nullif({{v{at}}}, 0.0)" if sign == "/" else f" {sign} {{v{at}}}" for at, sign in enumerate(signs)
        ]
        return self.made(f"({{v}}{''.join(rest)})", **values)

    def careful(self, first: _Value, signs: list[str], others: list[_Value], whole: list[_Value] | None) -> _Value:
        """The same in PostgreSQL: as it is where nothing can be out of range, else step by step.

        `whole` are the operands of the chain, if it ends here and its result is to be checked.
        """
        finite = whole is not None and all(operand.finite for operand in whole)
        if signs == ["%"]:
            return self.made(_floats.REMAINDER, finite=True, a=first, b=others[0])
        adding = signs[0] in "+-"
        limit = 2.0**1000 if adding else 2.0 ** (1000 // (len(signs) + 1))
        within = f"abs({{a}}) < {limit!r}"
        within = within if adding else f"(abs({{a}}) BETWEEN {1 / limit!r} AND {limit!r} OR {{a}} = 0)"
        near = [
            self.made(within, a=value)
            for value in (first, *others)
            if not value.small(0 if adding else 1 / limit, limit)
        ]
        steps = self.folded(first, signs, others)
        if whole is not None:
            steps = self.let(steps, lambda raw: self.checked(raw, *whole))
        direct = self.plain(first, signs, others)
        if not near:
            return direct
        return self.made(
            "CASE WHEN {near} THEN {direct} ELSE {steps} END",
            finite=finite,
            near=self.joined(" AND ", near),
            direct=direct,
            steps=steps,
        )

    def let(self, value: _Value, use: Callable[[_Value], _Value]) -> _Value:
        """What `use` makes of a value that is computed once, and only if it is asked for."""
        name = self.free_name("skyband_step")
        step = self.made(f"SELECT {{a}} AS {name} OFFSET 0", a=value)
        return self.made("(SELECT {one} FROM ({step}) AS q)", one=use(_Value((f"q.{name}",))), step=step)

    def folded(self, first: _Value, signs: list[str], others: list[_Value]) -> _Value:
        """Compute a + b - c, one step after the other: a few are written into each other, many are walked through."""
        if len(signs) <= 3:
            result = first
            for sign, other in zip(signs, others, strict=True):
                result = self.let(result, lambda raw, sign=sign, other=other: self.guarded(sign, raw, other))  # type: ignore[misc]
            return result
        at, result_name, other_name = map(self.free_name, ("skyband_at", "skyband_step", "skyband_other"))
        adding = signs[0] in "+-"
        raw, other = _Value((f"q.{result_name}",)), _Value((f"q.{other_name}",))
        if adding:
            step = self.guarded("+", raw, other)
            others = [self.made("(-{a})", a=o) if s == "-" else o for s, o in zip(signs, others, strict=True)]
        else:
            flags = ", ".join(str(sign == "*").lower() for sign in signs)
            step = self.made(
                f"CASE WHEN (ARRAY[{flags}])[f.{at}] THEN {{times}} ELSE {{over}} END",
                times=self.guarded("*", raw, other),
                over=self.guarded("/", raw, other),
            )
        below = f"SELECT f.{result_name} AS {result_name}, (ARRAY[{{others}}])[f.{at}] AS {other_name} OFFSET 0"
        walk = f"SELECT f.{at} + 1, (SELECT {{step}} FROM ({below}) AS q) FROM f WHERE f.{at} <= {len(signs)}"  # noqa: S608
        last = f"SELECT f.{result_name} FROM f WHERE f.{at} = {len(signs) + 1}"  # noqa: S608
        walked = f"(WITH RECURSIVE f({at}, {result_name}) AS (SELECT 1, {{first}} UNION ALL {walk}) {last})"
        return self.made(walked, first=first, step=step, others=self.listed(others))

    def guarded(self, sign: str, a: _Value, b: _Value) -> _Value:
        templates = {"*": _floats.MULTIPLY, "/": _floats.DIVIDE}
        b = self.made("(-{b})", b=b) if sign == "-" else b
        return self.made(templates.get(sign, _floats.ADD), a=a, b=b)

    def called(self, name: str, part: Tree, where: str) -> _Value:
        """A function of one number, where it is defined."""
        value = self.write(part)
        return self.made(f"CASE WHEN {{a}} {where} THEN {name}({{a}}) END", finite=value.finite, a=value)

    # ------------------------------------------------------------ columns and constants

    def column(self, name: str) -> tuple[_Value, Any]:
        if name not in self.columns:
            there = nearest(name, self.columns.keys())
            msg = f"by={shown(self.by.text)} uses column {name!r}, which the table does not have: {there}"
            raise SchemaError(msg)
        self.used.add(name)
        kind = self.columns[name].type
        return _Value((sa.column(quoted_name(name, quote=True), kind),)), kind

    def _raw(self, name: str) -> _Value:
        """A column that is compared with a text."""
        value, kind = self.column(name)
        if isinstance(kind, sa.Uuid):
            return self.made("CAST({a} AS text)", a=value)
        if not isinstance(kind, (sa.String, sa.types.NullType)):
            why = f"compares column {name!r} with a text, but it is {kind}: compare it with a number"
            msg = f"by={shown(self.by.text)} {why}"
            raise SchemaError(msg)
        # texts are equal if all their letters are, whatever the column says
        return self.made("{a} COLLATE BINARY", a=value) if self.dialect == "sqlite" else value

    def _flag(self, name: str) -> _Value:
        value, kind = self.column(name)
        if not isinstance(kind, sa.Boolean):
            why = f"takes column {name!r} for true or false, but it is {kind}: compare it with something"
            msg = f"by={shown(self.by.text)} {why}"
            raise SchemaError(msg)
        return _Value(value.pieces, truth=True)

    def _column(self, name: str) -> _Value:
        value, kind = self.column(name)
        if isinstance(kind, (sa.String, sa.DateTime, sa.Date, sa.Time, sa.LargeBinary)):
            msg = f"by={shown(self.by.text)} uses column {name!r}, which is {kind} and no number"
            raise SchemaError(msg)
        if isinstance(kind, sa.Boolean):
            template = f"CAST(CASE WHEN {{a}} THEN 1 WHEN NOT {{a}} THEN 0 END AS {self.double})"
            return self.made(template, finite=True, a=value)
        return self.without_nan(value, kind)

    def without_nan(self, value: _Value, kind: Any) -> _Value:
        """A number as a double, NULL for NaN."""
        whole = isinstance(kind, sa.Integer)
        if self.dialect == "postgresql":  # as the index has it that docs/views.md shows
            return self.made("nullif(CAST({a} AS double precision), 'NaN'::float8)", finite=whole, a=value)
        double = self.made("CAST({a} AS DOUBLE)", finite=whole, a=value)
        if self.dialect == "sqlite" or whole:
            return double
        return self.made("CASE WHEN NOT isnan({a}) THEN {a} END", a=double)

    def _number(self, value: float) -> _Value:
        number = self.bound(value, sa.Double)
        # PostgreSQL computes with constants when it plans, also in branches that are never taken: not so with these
        pieces = ("(SELECT ", *number.pieces, ")") if self.dialect == "postgresql" else number.pieces
        return _Value(pieces, finite=True, number=value)

    def _text(self, value: str) -> _Value:
        return self.bound(value, sa.String)

    def _yes(self, value: bool) -> _Value:
        return _Value(("(1 = 1)" if value else "(1 = 0)",), truth=True)

    def _null(self) -> _Value:
        return _Value((f"CAST(NULL AS {self.double})",), finite=True)

    # ------------------------------------------------------------ functions

    def _neg(self, part: Tree) -> _Value:
        value = self.write(part)
        return self.made("(-{a})", finite=value.finite, a=value)

    def _abs(self, part: Tree) -> _Value:
        value = self.write(part)
        return self.made("abs({a})", finite=value.finite, a=value)

    def _exp(self, part: Tree) -> _Value:
        value = self.write(part)
        if self.dialect == "postgresql":
            return self.made(_floats.EXP, finite=value.finite, a=value)
        return self.checked(self.made("exp({a})", a=value), value)

    def _ln(self, part: Tree) -> _Value:
        return self.called("ln", part, "> 0")

    def _sqrt(self, part: Tree) -> _Value:
        return self.called("sqrt", part, ">= 0")

    def _power(self, base: Tree, exponent: Tree) -> _Value:
        a, b = self.write(base), self.write(exponent)
        if self.dialect == "postgresql":
            return self.made(_floats.POWER, finite=a.finite and b.finite, a=a, b=b)
        return self.checked(self.made("power({a}, {b})", a=a, b=b), a, b)

    def _round(self, part: Tree, digits: int) -> _Value:
        """Half away from zero; what has no such digits stays as it is."""
        value = self.write(part)
        factor = float(f"1e{abs(digits)}")
        sign, scale = "*" if digits >= 0 else "/", self.bound(factor, sa.Double)
        most = self.bound(2.0**52 / factor, sa.Double) if digits >= 0 else _Value((self.infinity,))
        least = self.bound(0.25 * factor if digits < 0 else 0.0, sa.Double)  # less is an error in PostgreSQL
        scaled = self.named(
            self.made(
                f"CASE WHEN abs({{a}}) < {{most}} AND abs({{a}}) >= {{least}} THEN {{a}} {sign} {{s}} END",
                a=value,
                s=scale,
                most=most,
                least=least,
            )
        )
        up = "CASE WHEN {y} - trunc({y}) >= 0.5 THEN 1.0 WHEN {y} - trunc({y}) <= -0.5 THEN -1.0 ELSE 0.0 END"
        near = self.named(self.made(f"(trunc({{y}}) + {up})", y=scaled))
        if digits >= 0:
            back = self.made("({a} / {s})", a=near, s=scale)
        elif self.dialect == "postgresql":
            back = self.checked(self.guarded("*", near, scale))
        else:
            back = self.checked(self.made("({a} * {s})", a=near, s=scale))
        return self.made(
            "CASE WHEN abs({a}) >= {most} THEN {a} WHEN abs({a}) < {least} THEN 0 WHEN {y} = trunc({y}) THEN {a} "
            "ELSE {back} END",
            finite=value.finite,
            a=value,
            y=scaled,
            back=back,
            most=most,
            least=least,
        )

    def _whole(self, part: Tree) -> _Value:
        value = self._real(part)
        return self.made("trunc({a})", finite=value.finite, a=value)

    def _real(self, part: Tree) -> _Value:
        return self._column(part[1]) if part[0] == "raw" else self.write(part)

    def _coalesce(self, *parts: Tree) -> _Value:
        return self.many("coalesce", [self.write(part) for part in parts])

    def many(self, name: str, values: list[_Value]) -> _Value:
        """A function of many arguments: the last of a call that is full is another call."""
        finite = all(value.finite for value in values)
        call, rest = values[-1], values[:-1]
        while rest:
            rest, some = rest[:-_ARGUMENTS], rest[-_ARGUMENTS:]
            call = self.made(f"{name}{{a}}", finite=finite, a=self.joined(", ", [*some, call]))
        return call

    def _least(self, *parts: Tree) -> _Value:
        return self.extreme("least", "min", self.infinity, parts)

    def _greatest(self, *parts: Tree) -> _Value:
        return self.extreme("greatest", "max", f"-{self.infinity}", parts)

    def extreme(self, name: str, sqlite: str, worst: str, parts: tuple[Tree, ...]) -> _Value:
        values = [self.write(part) for part in parts]
        if self.dialect != "sqlite" or len(values) == 1:
            return self.many(name, values)
        # there min and max are NULL if one of their arguments is: those that are NULL are replaced by the worst
        filled = [self.made(f"coalesce({{a}}, {worst})", a=value) for value in values]
        return self.made(
            "CASE WHEN {any} IS NOT NULL THEN {best} END",
            finite=all(value.finite for value in values),
            any=self.many("coalesce", values),
            best=self.many(sqlite, filled),
        )

    def _case(self, *parts: Tree) -> _Value:
        values: dict[str, Any] = {f"v{at}": self.write(part) for at, part in enumerate(parts)}
        whens = [f" WHEN {{v{at}}} THEN {{v{at + 1}}}" for at in range(0, len(parts) - 1, 2)]
        results = [values[f"v{at}"] for at in (*range(1, len(parts), 2), len(parts) - 1)]
        finite = all(result.finite for result in results)
        return self.made(f"CASE{''.join(whens)} ELSE {{v{len(parts) - 1}}} END", finite=finite, **values)

    def _in(self, value: Tree, *choices: Tree) -> _Value:
        return self.made(
            "({a} IN {b})",
            truth=True,
            a=self.write(value),
            b=self.joined(", ", [self.write(choice) for choice in choices]),
        )

    def _not(self, part: Tree) -> _Value:
        return self.made("(NOT {a})", truth=True, a=self.write(part))

    def _isnull(self, part: Tree) -> _Value:
        if part[0] == "raw":
            value, kind = self.column(part[1])
            if isinstance(kind, (sa.Float, sa.Numeric)):
                value = self.without_nan(value, kind)
        else:
            value = self.write(part)
        return self.made("({a} IS NULL)", truth=True, a=value)

    def _part(self, name: str, raw: Tree) -> _Value:
        value, kind = self.column(raw[1])
        if not isinstance(kind, (sa.DateTime, sa.Date)):
            msg = f"by={shown(self.by.text)} takes {name}({raw[1]}), but {raw[1]!r} is {kind} and no time"
            raise SchemaError(msg)
        if self.dialect == "sqlite":
            if name not in _SQLITE_PARTS:
                msg = f"by={shown(self.by.text)}: SQLite knows no {name}; it knows {', '.join(_SQLITE_PARTS)}"
                raise SchemaError(msg)
            letter = dict(zip(_SQLITE_PARTS, ("Y", "m", "d", "H", "M", "S"), strict=True))[name]
            return self.made(f"CAST(strftime('%{letter}', {{a}}) AS DOUBLE)", finite=True, a=value)
        zoned = isinstance(kind, sa.DateTime) and kind.timezone
        moment = "({a} AT TIME ZONE 'UTC')" if zoned else "CAST({a} AS timestamp)"
        return self.made(f"trunc(CAST(extract({name} FROM {moment}) AS {self.double}))", finite=True, a=value)
