"""Validation of snapshots before a kernel sees them: kernels index without bounds checks.

Every part that can be restored declares its columns; `validate` compares, and a snapshot that was damaged or forged is
rejected with the reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from skyband.errors import SnapshotError

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_MAGNITUDE = 1 << 62
"""No time, position or id in a snapshot lies further from zero."""

MAX_WINDOWS_AHEAD = 1 << 24
"""No candidate lies so many windows after those that were closed last."""

_SPARSE = 100  # from so many places a row on, searching is cheaper than marking


class ColumnSpec(NamedTuple):
    """What a stored column must be: its type, its lengths, and its smallest and largest value."""

    dtype: str
    shape: tuple[int | str, ...]
    low: float | None = None
    high: float | None = None


def typed_column(dtype: str, *shape: int | str, low: float | None = None, high: float | None = None) -> ColumnSpec:
    """Declare a column. A length given by name is the same in all columns that name it.

    Integers lie between -MAX_MAGNITUDE and MAX_MAGNITUDE unless limits are given; limits of floats also forbid NaN.
    """
    if dtype == "i8":
        low, high = -MAX_MAGNITUDE if low is None else low, MAX_MAGNITUDE if high is None else high
    return ColumnSpec(dtype, shape, low, high)


def float_column(*shape: int | str) -> ColumnSpec:
    """Declare floats without NaN."""
    return ColumnSpec("f8", shape, -np.inf, np.inf)


def any_int_column(*shape: int | str) -> ColumnSpec:
    """Declare integers of any size."""
    return ColumnSpec("i8", shape)


def object_columns(rows: str = "rows") -> dict[str, ColumnSpec]:
    """Declare the columns of `Objects`."""
    return {"score": float_column(rows), "time": typed_column("i8", rows), "id": typed_column("i8", rows)}


def reject(reason: str) -> NoReturn:
    """Raise that a snapshot is not what was stored."""
    raise SnapshotError(f"the saved state is damaged, or of another query: {reason}. Start without it, from the source")


def require(condition: Any, reason: str) -> None:
    """Reject the snapshot unless the condition holds, everywhere if it is an array."""
    if not np.all(condition):
        reject(reason)


def validate(snapshot: Mapping[str, Any], columns: Mapping[str, ColumnSpec], /, **sizes: int) -> dict[str, Any]:
    """Return copies of the declared columns, or reject the snapshot; `sizes` are lengths known beforehand.

    Examples
    --------
    >>> columns = {"first": typed_column("i8", 2, "groups", low=0), "shown": typed_column("?", "groups")}
    >>> validate({"first": np.zeros((2, 1), np.int64), "shown": np.array([True])}, columns)["shown"]
    array([ True])
    >>> validate({"first": np.zeros((2, 3), np.int64), "shown": np.array([True])}, columns)
    Traceback (most recent call last):
        ...
    skyband.errors.SnapshotError: the saved state is damaged, or of another query: shown is of shape (1,) and should be
    (3,). Start without it, from the source
    """
    found = {}
    known: dict[int | str, int] = {}
    known.update(sizes)
    for name, spec in columns.items():
        if name not in snapshot:
            reject(f"it has no {name}")
        array = snapshot[name]
        if not isinstance(array, np.ndarray) or array.dtype != np.dtype(spec.dtype):
            kind = getattr(array, "dtype", type(array).__name__)
            reject(f"{name} is {kind} and should be {np.dtype(spec.dtype)}")
        if array.ndim == len(spec.shape):
            for length, side in zip(spec.shape, array.shape, strict=True):
                known.setdefault(length, length if isinstance(length, int) else side)
        shape = tuple(known.get(length, length) for length in spec.shape)
        if array.shape != shape:
            reject(f"{name} is of shape {array.shape} and should be {shape}")
        if spec.low is not None:
            require((array >= spec.low) & (array <= spec.high), f"{name} has a value that it cannot have")
        found[name] = np.array(array, order="C")
    return found


def check_progress(done: Any, *, counts: bool) -> None:
    """Reject a next position below zero; times may lie before 1970."""
    require(done >= (0 if counts else -MAX_MAGNITUDE), "state has a value that it cannot have")


def check_bounds(first: np.ndarray, rows: int, name: str = "first", *, apart: bool = True) -> np.ndarray:
    """Return how many of the `rows` each group has, of which group g has those from first[0, g] to first[1, g]."""
    require(first[0] <= first[1], f"{name} has a group that ends before it begins")
    require((first >= 0) & (first <= rows), f"{name} points outside of the {rows} rows")
    require(not apart or (first[1, :-1] <= first[0, 1:]).all(), f"{name} has groups that overlap")
    size: np.ndarray = first[1] - first[0]
    return size


def check_known(ids: np.ndarray, known: np.ndarray, name: str) -> None:
    """Reject ids that are not among the sorted `known` ones."""
    reason = f"{name} names a row that is not kept"
    if not len(known) or not len(ids):
        require(len(ids) == 0, reason)
        return
    low, high = int(known[0]), int(known[-1])
    require(low <= ids.min() and ids.max() <= high, reason)
    if high - low > _SPARSE * len(known):
        require(known[np.searchsorted(known, ids)] == ids, reason)
        return
    present = np.zeros(high - low + 1, np.bool_)
    present[known - low] = True
    require(present[ids - low], reason)


def check_ranked(score: np.ndarray, id: np.ndarray, inside: np.ndarray | None = None) -> None:
    """Reject rows that are not best first; `inside`: which of them must rank before the next."""
    before = (score[:-1] > score[1:]) | ((score[:-1] == score[1:]) & (id[:-1] > id[1:]))
    require(before if inside is None else before | ~inside, "its rows do not come best first")


def check_bands(bands: Mapping[str, np.ndarray], ranked: np.ndarray, id: str = "id") -> np.ndarray:
    """Return the group of each row of bands, -1: none; the first `ranked` rows of each group must be best first."""
    first, rows = bands["first"], len(bands["score"])
    size = check_bounds(first, rows)
    require((ranked >= 0) & (ranked <= size), "ranked counts more rows than a group has")
    group = np.full(rows, -1, np.int64)
    place = np.repeat(first[0] - np.cumsum(size) + size, size) + np.arange(size.sum())
    group[place] = np.repeat(np.arange(len(size)), size)
    until = np.append(first[0] + ranked, 0)  # where the ranked rows of each group end
    check_ranked(bands["score"], bands[id], (np.arange(1, rows) < until[group[:-1]])[: max(rows - 1, 0)])
    return group


def section(snapshot: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return the columns whose names begin with `prefix`, without it."""
    return {name.removeprefix(prefix): value for name, value in snapshot.items() if name.startswith(prefix)}


def sections_by_group(snapshot: Mapping[str, Any]) -> dict[int, dict[str, Any]]:
    """Return the columns of each group, whose names begin with the group's code and a slash."""
    parts: dict[int, dict[str, Any]] = {}
    for name, value in snapshot.items():
        group, slash, rest = name.partition("/")
        if slash:
            require(group.isdecimal() and len(group) < 10, f"{name} is of no group")
            parts.setdefault(int(group), {})[rest] = value
    return parts
