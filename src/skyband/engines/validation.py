"""What a saved state must hold, looked at before a kernel sees it: kernels index without looking.

Every part that can be saved says what its columns are; `checked` compares, and a state that was damaged or forged is
refused with what is wrong with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from skyband.errors import SnapshotError

if TYPE_CHECKING:
    from collections.abc import Mapping

FAR = 1 << 62
"""No time, position or number of a saved state lies further from zero."""

_SPREAD = 100  # from so many places a row on, searching is cheaper than marking

WINDOWS = 1 << 24
"""No row that is kept lies so many windows after those that were closed last."""


class Column(NamedTuple):
    """What a saved column must be: its type, its lengths, and the least and the largest of its values."""

    dtype: str
    shape: tuple[int | str, ...]
    low: float | None = None
    high: float | None = None


def held(dtype: str, *shape: int | str, low: float | None = None, high: float | None = None) -> Column:
    """Describe a column. A length given by name is the same in all columns that name it.

    Whole numbers lie between -FAR and FAR where nothing else is said; limits for other numbers also forbid NaN.
    """
    if dtype == "i8":
        low, high = -FAR if low is None else low, FAR if high is None else high
    return Column(dtype, shape, low, high)


def real(*shape: int | str) -> Column:
    """Numbers, none of them NaN."""
    return Column("f8", shape, -np.inf, np.inf)


def whole(*shape: int | str) -> Column:
    """Whole numbers of any size."""
    return Column("i8", shape)


def objects(rows: str = "rows") -> dict[str, Column]:
    """The columns of rows as engines see them."""
    return {"score": real(rows), "time": held("i8", rows), "id": held("i8", rows)}


def refuse(why: str) -> NoReturn:
    """Say that a saved state is not what was saved."""
    msg = f"the saved state is damaged, or of another query: {why}. Start without it, from the source"
    raise SnapshotError(msg)


def require(right: Any, why: str) -> None:
    """Refuse the state unless all of this is right."""
    if not np.all(right):
        refuse(why)


def checked(saved: Mapping[str, Any], holds: Mapping[str, Column], **sizes: int) -> dict[str, Any]:
    """Copies of the columns that `holds` names, each as it says; `sizes` are lengths known beforehand.

    Examples
    --------
    >>> holds = {"first": held("i8", 2, "groups", low=0), "shown": held("?", "groups")}
    >>> checked({"first": np.zeros((2, 1), np.int64), "shown": np.array([True])}, holds)["shown"]
    array([ True])
    >>> checked({"first": np.zeros((2, 3), np.int64), "shown": np.array([True])}, holds)
    Traceback (most recent call last):
        ...
    skyband.errors.SnapshotError: the saved state is damaged, or of another query: shown is of shape (1,) and should be
    (3,). Start without it, from the source
    """
    found = {}
    known: dict[int | str, int] = {}
    known.update(sizes)
    for name, wanted in holds.items():
        if name not in saved:
            refuse(f"it has no {name}")
        array = saved[name]
        if not isinstance(array, np.ndarray) or array.dtype != np.dtype(wanted.dtype):
            kind = getattr(array, "dtype", type(array).__name__)
            refuse(f"{name} is {kind} and should be {np.dtype(wanted.dtype)}")
        if array.ndim == len(wanted.shape):
            for length, side in zip(wanted.shape, array.shape, strict=True):
                known.setdefault(length, length if isinstance(length, int) else side)
        shape = tuple(known.get(length, length) for length in wanted.shape)
        if array.shape != shape:
            refuse(f"{name} is of shape {array.shape} and should be {shape}")
        if wanted.low is not None:
            require((array >= wanted.low) & (array <= wanted.high), f"{name} has a value that it cannot have")
        found[name] = np.array(array, order="C")
    return found


def progressed(done: Any, *, counts: bool) -> None:
    """Refuse a position below zero that comes next; times may lie before 1970."""
    require(done >= (0 if counts else -FAR), "state has a value that it cannot have")


def parted(first: np.ndarray, rows: int, name: str = "first", *, apart: bool = True) -> np.ndarray:
    """How many of the `rows` each group has, of which group g has those from first[0, g] to first[1, g]."""
    require(first[0] <= first[1], f"{name} has a group that ends before it begins")
    require((first >= 0) & (first <= rows), f"{name} points outside of the {rows} rows")
    require(not apart or (first[1, :-1] <= first[0, 1:]).all(), f"{name} has groups that overlap")
    size: np.ndarray = first[1] - first[0]
    return size


def among(part: np.ndarray, rising: np.ndarray, name: str) -> None:
    """Refuse numbers of rows that are not kept."""
    why = f"{name} names a row that is not kept"
    if not len(rising) or not len(part):
        require(len(part) == 0, why)
        return
    low, high = int(rising[0]), int(rising[-1])
    require(low <= part.min() and part.max() <= high, why)
    if high - low > _SPREAD * len(rising):
        require(rising[np.searchsorted(rising, part)] == part, why)
        return
    there = np.zeros(high - low + 1, np.bool_)
    there[rising - low] = True
    require(there[part - low], why)


def ranked(score: np.ndarray, id: np.ndarray, inside: np.ndarray | None = None) -> None:
    """Refuse rows that do not come best first; `inside`: which of them must rank before the one behind them."""
    before = (score[:-1] > score[1:]) | ((score[:-1] == score[1:]) & (id[:-1] > id[1:]))
    require(before if inside is None else before | ~inside, "its rows do not come best first")


def banded(bands: Mapping[str, np.ndarray], marks: Mapping[str, np.ndarray], id: str = "id") -> np.ndarray:
    """The group of each row of bands, of which the first `ranked` rows of each group come best first."""
    first, rows = bands["first"], len(bands["score"])
    size = parted(first, rows)
    require((marks["ranked"] >= 0) & (marks["ranked"] <= size), "ranked counts more rows than a group has")
    group = np.full(rows, -1, np.int64)
    place = np.repeat(first[0] - np.cumsum(size) + size, size) + np.arange(size.sum())
    group[place] = np.repeat(np.arange(len(size)), size)
    until = np.append(first[0] + marks["ranked"], 0)  # where the ranked rows of each group end
    ranked(bands["score"], bands[id], (np.arange(1, rows) < until[group[:-1]])[: max(rows - 1, 0)])
    return group


def under(saved: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """What is saved under names that begin so, without that."""
    return {name.removeprefix(prefix): value for name, value in saved.items() if name.startswith(prefix)}


def numbered(saved: Mapping[str, Any]) -> dict[int, dict[str, Any]]:
    """What is saved of each group, by its number: names are its number, a slash and what it is."""
    parts: dict[int, dict[str, Any]] = {}
    for name, value in saved.items():
        group, behind, rest = name.partition("/")
        if behind:
            require(group.isdecimal() and len(group) < 10, f"{name} is of no group")
            parts.setdefault(int(group), {})[rest] = value
    return parts
