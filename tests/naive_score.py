"""Scores by the definition on docs/semantics.md, row by row in plain Python; and random expressions to try it on.

An expression is a tuple: ("column", name), ("number", x), or an operation and its operands. `text` writes it as SQL.
"""

import datetime as dt
import math

from hypothesis import strategies as st

# ------------------------------------------------------------ the definition


def value(tree, row):
    """A number, true, false, a text, or None for NULL."""
    kind, *parts = tree
    if kind == "column":
        found = row[parts[0]]
        return None if found is None or (isinstance(found, float) and math.isnan(found)) else found
    if kind in ("number", "text"):
        return parts[0]
    if kind == "null":
        return None
    if kind == "chain":
        return chain(parts[0], parts[1], row)
    if kind == "part":
        return part(parts[0], value(parts[1], row))
    if kind in ("and", "or", "not", "case", "in", "is null", "between"):
        return LOGIC[kind](row, *parts)
    values = [value(p, row) if isinstance(p, tuple) else p for p in parts]
    if kind in ("least", "greatest", "coalesce"):
        there = [double(v) for v in values if v is not None]
        pick = {"least": min, "greatest": max, "coalesce": lambda them: them[0]}[kind]
        return pick(there) if there else None
    if any(v is None for v in values):
        return None
    if kind in COMPARE:
        return COMPARE[kind](*(v if isinstance(v, str) else double(v) for v in values))
    result = FUNCTIONS[kind](*map(double, values))
    return result if kind in UNCHANGED else finite(result)


def double(number):
    return float(number)


def finite(result):
    return result if result is not None and math.isfinite(result) else None


def chain(signs, operands, row):
    """A + b - c, step by step: each has a finite result, or NULL."""
    values = [value(operand, row) for operand in operands]
    if None in values:
        return None
    result = double(values[0])
    for sign, other in zip(signs, map(double, values[1:]), strict=True):
        if result is None or (sign in "/%" and other == 0):
            return None
        result = finite(STEPS[sign](result, other))
    return result


def remainder(a, b):
    return math.nan if math.isinf(a) or math.isnan(a) or math.isnan(b) else math.fmod(a, b)


def quotient(a, b):
    try:
        return a / b
    except OverflowError:
        return math.inf


STEPS = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": quotient,
    "%": remainder,
}


def power(a, b):
    try:
        return math.pow(a, b)
    except OverflowError:
        return math.inf
    except ValueError:  # of a negative number, or zero to a negative power: both are NULL
        return math.nan


def exponential(a):
    try:
        return math.exp(a)
    except OverflowError:
        return math.inf


def rounded(x, digits):
    """Half away from zero. What is beyond 2^52 units of the last digit stays as it is."""
    digits = int(digits)
    scale = float(f"1e{abs(digits)}")
    if math.isinf(x) or (digits >= 0 and abs(x) >= 2.0**52 / scale):
        return x
    scaled = x * scale if digits >= 0 else x / scale
    whole = float(math.trunc(scaled))
    if abs(scaled - whole) >= 0.5:
        whole += math.copysign(1.0, scaled)
    return whole / scale if digits >= 0 else whole * scale


FUNCTIONS = {
    "neg": lambda a: -a,
    "abs": abs,
    "exp": exponential,
    "ln": lambda a: math.log(a) if a > 0 else None,
    "sqrt": lambda a: math.sqrt(a) if a >= 0 else None,
    "power": power,
    "round": rounded,
    "int": lambda a: a if math.isinf(a) else float(math.trunc(a)),
    "double": lambda a: a,
}
UNCHANGED = ("neg", "abs", "int", "double")
"""They compute nothing: an infinity in the data goes through."""
COMPARE = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def part(name, moment):
    if moment is None:
        return None
    if isinstance(moment, dt.datetime) and moment.tzinfo is not None:
        moment = moment.astimezone(dt.UTC)
    return float(getattr(moment, name, 0))


def both(row, *parts):
    found = [value(p, row) for p in parts]
    return False if False in found else None if None in found else True


def either(row, *parts):
    found = [value(p, row) for p in parts]
    return True if True in found else None if None in found else False


def negated(row, inner):
    found = value(inner, row)
    return None if found is None else not found


def case(row, *parts):
    for condition, result in zip(parts[:-1:2], parts[1::2], strict=True):
        if value(condition, row):
            return value(result, row)
    return value(parts[-1], row)


def among(row, left, *choices):
    found, others = value(left, row), [value(choice, row) for choice in choices]
    if found is None:
        return None
    same = str if isinstance(found, str) else double
    if same(found) in [same(other) for other in others if other is not None]:
        return True
    return None if None in others else False


LOGIC = {
    "and": both,
    "or": either,
    "not": negated,
    "case": case,
    "in": among,
    "is null": lambda row, inner: value(inner, row) is None,
    "between": lambda row, x, low, high: both(row, (">=", x, low), ("<=", x, high)),
}


def score(tree, row):
    """The score of a row, or None."""
    found = value(tree, row)
    return None if found is None else double(found)


# ------------------------------------------------------------ as text


def text(tree):  # noqa: C901, PLR0911, PLR0912 - a case each
    """The expression as SQL, every operand in brackets that needs them."""
    kind, *parts = tree
    if kind == "column":
        return "`" + parts[0].replace("`", "``") + "`"
    if kind == "number":
        return repr(parts[0])
    if kind == "text":
        quoted = parts[0].replace("'", "''")
        return f"'{quoted}'"
    if kind == "null":
        return "NULL"
    if kind == "chain":
        signs, operands = parts
        return " ".join([inner(operands[0]), *(f"{s} {inner(o)}" for s, o in zip(signs, operands[1:], strict=True))])
    if kind in ("and", "or"):
        return f" {kind.upper()} ".join(map(inner, parts))
    if kind == "not":
        return f"NOT {inner(parts[0])}"
    if kind == "neg":
        return f"- {inner(parts[0])}"
    if kind == "is null":
        return f"{inner(parts[0])} IS NULL"
    if kind == "between":
        return f"{inner(parts[0])} BETWEEN {inner(parts[1])} AND {inner(parts[2])}"
    if kind == "in":
        return f"{inner(parts[0])} IN ({', '.join(map(text, parts[1:]))})"
    if kind == "case":
        whens = " ".join(f"WHEN {text(c)} THEN {text(r)}" for c, r in zip(parts[:-1:2], parts[1::2], strict=True))
        other = "" if parts[-1] == ("null",) else f" ELSE {text(parts[-1])}"
        return f"CASE {whens}{other} END"
    if kind in ("int", "double"):
        return f"CAST({text(parts[0])} AS {kind})"
    if kind == "round":
        return f"round({text(parts[0])}, {parts[1]})"
    if kind == "part":
        return f"{parts[0]}({text(parts[1])})"
    if kind in COMPARE:
        return f"{inner(parts[0])} {kind} {inner(parts[1])}"
    return f"{kind}({', '.join(map(text, parts))})"


def inner(tree):
    simple = ("column", "number", "text", "null", "abs", "exp", "ln", "sqrt", "power", "least", "greatest", "coalesce")
    return text(tree) if tree[0] in simple else f"({text(tree)})"


# ------------------------------------------------------------ random expressions

NUMBERS = st.sampled_from(
    [0, 1, 2, 3, 7, 10, 100, 0.5, 0.1, 1.41, 2.5, 1e-3, 1e15, 9007199254740993, 1e150, 1e200, 1e308, 1e-160, 1e-300,
     5e-324, 1.7976931348623157e308, 709.78, 745.2]
)  # fmt: skip


PARTS = ["year", "month", "day", "hour", "minute", "second"]
WORDS = ["a", "", "it's", "A", "ä", "x y"]
DIGITS = [0, 1, 2, 15, 300, -1, -3, -300]


@st.composite
def trees(draw, columns, depth=4):
    """An expression over columns: {"numbers": names, "texts": names, "flags": names, "times": names}."""
    kind = draw(st.sampled_from(KINDS if depth else LEAVES))

    def below():
        return draw(trees(columns, depth - 1))

    def some(least, most):
        return [below() for _ in range(draw(st.integers(least, most)))]

    if kind == "column":
        return ("column", draw(st.sampled_from(columns["numbers"])))
    if kind == "flag":
        return ("column", draw(st.sampled_from(columns["flags"])))
    if kind == "number":
        return ("number", draw(NUMBERS))
    if kind == "part":
        return ("part", draw(st.sampled_from(PARTS)), ("column", draw(st.sampled_from(columns["times"]))))
    if kind in ("+-", "*/", "*/%"):
        operands = some(2, 4)
        return ("chain", tuple(draw(st.sampled_from(kind)) for _ in operands[1:]), tuple(operands))
    if kind == "power":
        return (kind, below(), below())
    if kind in ("least", "greatest", "coalesce"):
        return (kind, *some(1, 3))
    if kind == "round":
        return (kind, below(), draw(st.sampled_from(DIGITS)))
    if kind == "case":
        whens = [(draw(conditions(columns, depth - 1)), below()) for _ in range(draw(st.integers(1, 2)))]
        return (kind, *(part for when in whens for part in when), below() if draw(st.booleans()) else ("null",))
    return (kind, below())


@st.composite
def conditions(draw, columns, depth):
    """Something true or false."""
    kind = draw(st.sampled_from(TRUTHS if depth > 0 else SIMPLE_TRUTHS))
    depth = max(depth - 1, 0)

    def below():
        return draw(trees(columns, depth))

    def inside():
        return draw(conditions(columns, depth))

    word = st.sampled_from(WORDS).map(lambda w: ("text", w))
    named = ("column", draw(st.sampled_from(columns["texts"])))
    if kind == "compare":
        return (draw(st.sampled_from(list(COMPARE))), below(), below())
    if kind == "between":
        return (kind, below(), below(), below())
    if kind == "is null":
        return (kind, named if draw(st.booleans()) else below())
    if kind == "in":
        choices = [below() if draw(st.integers(0, 3)) else ("null",) for _ in range(draw(st.integers(1, 3)))]
        return (kind, below(), *choices)
    if kind == "words":
        return ("in", named, *draw(st.lists(word, min_size=1, max_size=3)))
    if kind == "text":
        return (draw(st.sampled_from(["=", "<>"])), named, draw(word))
    if kind == "flag":
        return ("column", draw(st.sampled_from(columns["flags"])))
    if kind == "not":
        return (kind, inside())
    return (kind, *(inside() for _ in range(draw(st.integers(2, 3)))))


LEAVES = ["column", "column", "column", "number", "number", "flag", "part"]
KINDS = [
    *LEAVES, "+-", "*/", "*/%", "+-", "*/", "power", "least", "greatest", "coalesce", "round", "case", "case",
    "neg", "abs", "ln", "exp", "sqrt", "int", "double",
]  # fmt: skip
SIMPLE_TRUTHS = ["compare", "between", "is null", "in", "words", "text", "flag"]
TRUTHS = [*SIMPLE_TRUTHS, "compare", "not", "and", "or"]
