"""Validation of what users set: one check per kind of field, one form of message.

Messages say what must hold, what was given and, where that is not obvious, what to write:
`k must be an integer from 1 to 1,000,000, got 0`.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any, TypeVar

import numpy as np

from skyband.errors import QueryError, nearest

_Choice = TypeVar("_Choice", bound=str)
_SHOWN = 200  # characters of a value in a message
_DIGITS = 400  # more than any field can have


def shorten(value: object) -> str:
    """Quote a value for a message, cut where it is long.

    Examples
    --------
    >>> shorten("a + b"), len(shorten("a + " * 1000))
    ("'a + b'", 205)
    """
    if isinstance(value, str):
        return repr(value) if len(value) <= _SHOWN else f"{value[:_SHOWN]!r}..."
    shown = repr(value)
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."


def invalid(field: str, must: str, value: object, write: str = "") -> QueryError:
    """Make the error of a field: what it must do or be, what was given, and what to write.

    Examples
    --------
    >>> raise invalid("window", "be a window", 7, "sb.Counting(1000)")
    Traceback (most recent call last):
        ...
    skyband.errors.QueryError: window must be a window, got 7: write sb.Counting(1000)
    """
    return QueryError(f"{field} must {must}, got {shorten(value)}" + (f": write {write}" if write else ""))


def check_integer(field: str, value: object, low: int, high: int) -> int:
    """Return `value` as an int from `low` to `high`.

    Examples
    --------
    >>> check_integer("k", 0, 1, 1_000_000)
    Traceback (most recent call last):
        ...
    skyband.errors.QueryError: k must be an integer from 1 to 1,000,000, got 0
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or not low <= int(value) <= high:
        raise invalid(field, f"be an integer from {low:,} to {high:,}", value)
    return int(value)


def parse_integer(field: str, digits: str) -> int:
    """Read an integer that a user wrote; Python itself reads at most 4,300 digits.

    Examples
    --------
    >>> parse_integer("k", "1_000")
    1000
    >>> parse_integer("k", "1" * 5000)
    Traceback (most recent call last):
        ...
    skyband.errors.QueryError: k must have at most 400 digits, got 5,000: write a smaller number
    """
    if len(digits) > _DIGITS:
        raise QueryError(f"{field} must have at most {_DIGITS} digits, got {len(digits):,}: write a smaller number")
    return int(digits)


def check_number(
    field: str, value: object, *, least: float = -math.inf, above: float = -math.inf, below: float = math.inf
) -> float:
    """Return `value` as a finite float within limits: at least `least`, more than `above`, less than `below`.

    Examples
    --------
    >>> check_number("share", 2, above=0, below=1)
    Traceback (most recent call last):
        ...
    skyband.errors.QueryError: share must be a number above 0 and below 1, got 2
    """
    plain = isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    if not plain or not (least <= value and above < value < below):  # type: ignore[operator]  # a Real
        limits = [(least, "of at least"), (above, "above"), (below, "below")]
        words = " and ".join(f"{word} {limit:g}" for limit, word in limits if math.isfinite(limit))
        raise invalid(field, f"be a {'' if words else 'finite '}number {words}".rstrip(), value)
    return float(value)  # type: ignore[arg-type]


def check_flag(field: str, value: object) -> bool:
    """Return `value`, True or False, as a bool; NumPy's are taken too.

    Examples
    --------
    >>> check_flag("ranks", "yes")
    Traceback (most recent call last):
        ...
    skyband.errors.QueryError: ranks must be True or False, got 'yes'
    """
    if not isinstance(value, bool | np.bool_):
        raise invalid(field, "be True or False", value)
    return bool(value)


def check_choice(field: str, value: object, choices: Iterable[_Choice]) -> _Choice:
    """Return the one of `choices` that `value` is.

    Examples
    --------
    >>> check_choice("emit", "change", ["answers", "changes"])
    Traceback (most recent call last):
        ...
    skyband.errors.QueryError: emit must be one of 'answers', 'changes', got 'change': did you mean 'changes'?
    """
    known = list(choices)
    for choice in known:
        if isinstance(value, str) and choice == value:
            return choice
    close = difflib.get_close_matches(value, known, n=1, cutoff=0.5) if isinstance(value, str) else []
    hint = f": did you mean {close[0]!r}?" if close else ""
    error = invalid(field, f"be one of {', '.join(map(repr, known))}", value)
    raise QueryError(f"{error}{hint}")


def check_text(field: str, value: object, *, empty: bool = False) -> str:
    """Return `value`, a text that is not empty unless `empty` allows it.

    Examples
    --------
    >>> check_text("id", 3)
    Traceback (most recent call last):
        ...
    skyband.errors.QueryError: id must be a non-empty text, got 3
    """
    if not isinstance(value, str) or not (value or empty):
        raise invalid(field, "be a text" if empty else "be a non-empty text", value)
    return value


def check_known(owner: str, names: Iterable[str], known: Iterable[str]) -> None:
    """Raise if one of `names` is not a field or option that `owner` has.

    Examples
    --------
    >>> check_known("join.refresh", ["bugdet"], ["policy", "budget"])
    Traceback (most recent call last):
        ...
    skyband.errors.QueryError: join.refresh has no field 'bugdet': did you mean budget? There are: policy, budget
    """
    fields = list(known)
    for name in names:
        if name not in fields:
            raise QueryError(f"{owner} has no field {name!r}: {nearest(str(name), fields)}")


def check_names(field: str, value: Any, *, required: bool = False) -> tuple[str, ...]:
    """Return distinct column names as a tuple; one name is a list of one, and None is none.

    Examples
    --------
    >>> check_names("per", "symbol"), check_names("per", None)
    (('symbol',), ())
    >>> check_names("per", ["a", "a"])
    Traceback (most recent call last):
        ...
    skyband.errors.QueryError: per must name each column once, got ['a', 'a']
    """
    names = (
        () if value is None else (value,) if isinstance(value, str) or not isinstance(value, Iterable) else (*value,)
    )
    if not all(isinstance(name, str) and name for name in names):
        raise invalid(field, "be the name of a column or a list of names", value)
    if len(set(names)) < len(names):
        raise invalid(field, "name each column once", list(names))
    if required and not names:
        raise invalid(field, "name at least one column", value)
    return names
