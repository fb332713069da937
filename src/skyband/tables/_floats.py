"""Arithmetic on doubles in PostgreSQL, which raises an error on overflow and underflow where IEEE 754 has a result.

Each template computes what IEEE 754 says, with NULL for NaN: every case that PostgreSQL would refuse is recognised
first, from exactly scaled operands. CASE evaluates its conditions in order, so that a guarded operation never runs.
"""

from __future__ import annotations

INFINITY = "'Infinity'::float8"


def _two(exponent: int) -> str:
    """Write a power of two, exact to the last bit."""
    return f"{2.0**exponent!r}::float8"


_BITS = "('x' || encode(float8send({0}), 'hex'))::bit(64)::bigint"
_SPLIT = f"SELECT (bits >> 52) & 2047 AS e, bits & 4503599627370495 AS f FROM (SELECT {_BITS} AS bits OFFSET 0) AS s"  # noqa: S608
_PARTS = (
    "SELECT CASE e WHEN 0 THEN f ELSE f + 4503599627370496 END AS m, greatest(e, 1)::int - 1075 AS e FROM ({0}) AS s"
)
"""Mantissa and exponent of a double, as whole numbers. The operand stands where no FROM is, so that no name in it is
taken for one of these."""


def _fill(template: str) -> str:
    """Put the constants in; {a} and {b}, the operands, stay."""
    constants = {
        "inf": INFINITY,
        "nan": "'NaN'::float8",
        **{f"p{n}": _two(n) for n in (500, 512, 537, 970, 1023)},
        **{f"m{n}": _two(-n) for n in (50, 64, 500, 512, 537)},
        "p64": _two(64),
        "x": _PARTS.format(_SPLIT.format("abs({a})")),
        "y": _PARTS.format(_SPLIT.format("abs({b})")),
    }
    for name, value in constants.items():
        template = template.replace(f"<{name}>", value)
    return " ".join(template.split())


ADD = _fill("""CASE
    WHEN least(abs({a}), abs({b})) < <p970> THEN {a} + {b}
    WHEN abs({a}) = <inf> OR abs({b}) = <inf> OR ({a} < 0) <> ({b} < 0) THEN nullif({a} + {b}, <nan>)
    WHEN abs({a}) * 0.5::float8 + abs({b}) * 0.5::float8 < <p1023> THEN {a} + {b}
    WHEN {a} > 0 AND {b} > 0 THEN <inf>
    WHEN {a} < 0 AND {b} < 0 THEN -<inf>
    END""")
"""2^970 is half of the last digit of the largest double: less cannot make it overflow."""

MULTIPLY = _fill("""CASE
    WHEN abs({a}) BETWEEN <m500> AND <p500> AND abs({b}) BETWEEN <m500> AND <p500> THEN {a} * {b}
    WHEN {a} = 0 OR {b} = 0 OR abs({a}) = <inf> OR abs({b}) = <inf> THEN nullif({a} * {b}, <nan>)
    WHEN abs({a}) >= 1 AND abs({b}) >= 1 THEN CASE
        WHEN (abs({a}) * <m512>) * (abs({b}) * <m512>) < 1 THEN {a} * {b}
        ELSE sign({a}) * sign({b}) * <inf>
        END
    WHEN abs({a}) >= 1 OR abs({b}) >= 1 THEN {a} * {b}
    WHEN (abs({a}) * <p537>) * (abs({b}) * <p537>) > 0.5 THEN {a} * {b}
    WHEN (abs({a}) * <p537>) * (abs({b}) * <p537>) < 0.5 THEN 0
    WHEN (SELECT x.m * y.m::numeric > power(2::numeric, -1075 - x.e - y.e) FROM (<x>) AS x, (<y>) AS y)
        THEN {a} * {b}
    WHEN {a} IS NOT NULL AND {b} IS NOT NULL THEN 0
    END""")
"""The scales bring the product to 1 where it overflows, and to half of the smallest double, 0.5, where it is zero:
there mantissas and exponents tell what the scaled product has rounded off."""

DIVIDE = _fill("""CASE
    WHEN {b} = 0 THEN NULL
    WHEN abs({a}) BETWEEN <m500> AND <p500> AND abs({b}) BETWEEN <m500> AND <p500> THEN {a} / {b}
    WHEN {a} = 0 OR abs({a}) = <inf> OR abs({b}) = <inf> THEN nullif({a} / {b}, <nan>)
    WHEN abs({b}) >= 1 THEN CASE
        WHEN abs({a}) >= <m50> THEN {a} / {b}
        WHEN (abs({a}) * <p537>) / (abs({b}) * <m537>) > 0.5 THEN {a} / {b}
        WHEN (abs({a}) * <p537>) / (abs({b}) * <m537>) <= 0.5 THEN 0
        END
    WHEN abs({a}) < <m50> THEN {a} / {b}
    WHEN abs({a}) >= <p512> AND abs({b}) < <m512> THEN sign({a}) * sign({b}) * <inf>
    WHEN (abs({a}) * <m512>) / (abs({b}) * <p512>) < 1 THEN {a} / {b}
    WHEN (abs({a}) * <m512>) / (abs({b}) * <p512>) >= 1 THEN sign({a}) * sign({b}) * <inf>
    END""")

EXP = _fill("""CASE
    WHEN {a} > 709.782712893384 AND {a} < <inf> THEN NULL
    WHEN {a} <= -745.1332191019412 THEN 0
    ELSE exp({a})
    END""")
"""The largest double whose exponential is finite, and the largest whose exponential is zero. Overflow is NULL."""

POWER = _fill("""CASE
    WHEN {a} BETWEEN 1e-9 AND 1e9 AND abs({b}) <= 32 THEN power({a}, {b})
    WHEN {a} IS NULL OR {b} IS NULL THEN NULL
    WHEN {b} = 0 OR {a} = 1 THEN 1
    WHEN {b} = 1 THEN {a}
    WHEN {a} = 0 THEN CASE WHEN {b} > 0 THEN 0 WHEN {b} = -<inf> THEN <inf> END
    WHEN {a} = -<inf> AND {b} <> trunc({b}) THEN CASE WHEN {b} > 0 THEN <inf> ELSE 0 END
    WHEN {a} < 0 AND {b} <> trunc({b}) THEN NULL
    WHEN abs({a}) = <inf> OR abs({b}) = <inf> OR {a} = -1 OR abs({b}) < <m64> THEN power({a}, {b})
    WHEN abs({b}) > <p64> THEN CASE WHEN (abs({a}) > 1) <> ({b} > 0) THEN 0 END
    WHEN {b} * ln(abs({a})) > 709.782712893383 THEN NULL
    WHEN {b} * ln(abs({a})) < -745.1332191019402 THEN 0
    ELSE power({a}, {b})
    END""")
"""As C has it, with NULL for overflow. The logarithm of the result tells of overflow and underflow, but for results
within 10^-12 of the edge."""

REMAINDER = _fill("""CASE
    WHEN {b} = 0 OR abs({a}) = <inf> THEN NULL
    WHEN abs({a}) < abs({b}) THEN {a}
    WHEN abs({a}) <= 9007199254740992 AND {a} = trunc({a}) AND {b} = trunc({b})
        THEN mod({a}::bigint, {b}::bigint)::float8
    ELSE sign({a}) * (SELECT power(2::float8, least(x.e, y.e)) *
        mod(x.m * power(2::numeric, x.e - least(x.e, y.e)), y.m * power(2::numeric, y.e - least(x.e, y.e)))::float8
        FROM (<x>) AS x, (<y>) AS y)
    END""")
"""Exact, as fmod is: whole mantissas are divided as numerics. What is left has at most the digits of a double."""
