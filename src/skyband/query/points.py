"""Scores of points: the distance to a target, and weighted sums of columns. Frozen values, checked when built."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from skyband.errors import QueryError

METRICS = ("euclidean", "manhattan", "chebyshev")


@dataclass(frozen=True)
class Distance:
    """How far a row is from a point; made by `sb.distance`. Nearest ranks first."""

    columns: tuple[str, ...]
    to: tuple[float, ...]
    metric: str = "euclidean"
    weights: tuple[float, ...] = ()  # one for each column; empty: all are 1
    ascending: ClassVar[bool] = True  # which way it ranks unless the query says otherwise

    @property
    def kind(self) -> str:
        """How the columns are put together."""
        return self.metric

    @property
    def text(self) -> str:
        """All of it in one line, for fingerprints and explanations."""
        weights = f", weights={self.weights}" if self.weights else ""
        return f"distance({list(self.columns)}, to={self.to}, metric={self.metric!r}{weights})"

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Weighted:
    """A weighted sum of columns; made by `sb.weighted`. Largest ranks first."""

    columns: tuple[str, ...]
    weights: tuple[float, ...]
    ascending: ClassVar[bool] = False
    kind: ClassVar[str] = "sum"
    to: ClassVar[tuple[float, ...]] = ()

    @property
    def text(self) -> str:
        """All of it in one line, for fingerprints and explanations."""
        return f"weighted({dict(zip(self.columns, self.weights, strict=True))})"

    def __str__(self) -> str:
        return self.text


def distance(
    columns: Iterable[str],
    to: Iterable[float],
    *,
    metric: str = "euclidean",
    weights: Iterable[float] | None = None,
) -> Distance:
    """Rank rows by how near they are to a point: `by=sb.distance(["x", "y"], to=(3, 4))`.

    The score of a row is its distance, as the answers show it, and the nearest row ranks first; with
    `TopK(..., ascending=False)` the farthest does. A row that lacks a coordinate has no score.

    Parameters
    ----------
    columns
        The coordinates of a row.
    to
        The same of the point.
    metric
        "euclidean"; "manhattan", the sum of the differences; "chebyshev", the largest of them.
    weights
        What a difference counts in each column (weighted attribute distance). Default: 1 in each.

    Examples
    --------
    >>> import skyband as sb
    >>> near = sb.TopK(k=2, by=sb.distance(["x", "y"], to=(0, 0)), window=sb.Counting(3, 3))
    >>> sb.run(near, {"x": [3, 0, 6], "y": [4, 1, 8]}).select(["rank", "score", "x", "y"]).to_pylist()
    [{'rank': 1, 'score': 1.0, 'x': 0, 'y': 1}, {'rank': 2, 'score': 5.0, 'x': 3, 'y': 4}]

    References
    ----------
    Pripuzic et al., TODS 2015, section 6.1 and figure 7. Erratum: the weighted attribute distance is printed with a
    comma where its two terms are put together; "manhattan" adds them, "chebyshev" takes the larger.
    """
    names = _names(columns)
    point = _numbers("to", to, names)
    given = () if weights is None else _numbers("weights", weights, names)
    if any(weight <= 0 for weight in given):
        _refuse("weights", given, "is not above zero everywhere: leave out a column that does not count")
    if metric not in METRICS:
        _refuse("metric", metric, f"is unknown: write one of {', '.join(map(repr, METRICS))}")
    return Distance(names, point, metric, given)


def weighted(weights: Mapping[str, float]) -> Weighted:
    """Rank rows by a weighted sum of columns: `by=sb.weighted({"a": 2, "b": -1})` is `by="2 * a - b"`.

    What it adds is that many such queries over one stream can share a grid. A row that lacks a column has no score.

    Examples
    --------
    >>> import skyband as sb
    >>> best = sb.TopK(k=1, by=sb.weighted({"a": 2, "b": -1}), window=sb.Counting(2, 2))
    >>> sb.run(best, {"a": [1, 4], "b": [0, 7]})["score"].to_pylist()
    [2.0]
    """
    if not isinstance(weights, Mapping):
        _refuse("weights", weights, 'is no mapping: write one such as {"price": 2, "age": -1}')
    names = _names(weights)
    numbers = _numbers("weights", weights.values(), names)
    if 0.0 in numbers:
        _refuse("weights", dict(weights), "has a weight of zero: leave out a column that does not count")
    return Weighted(names, numbers)


def _names(columns: Iterable[str]) -> tuple[str, ...]:
    names = () if isinstance(columns, str) else tuple(columns)
    if not names or len(set(names)) < len(names) or not all(isinstance(name, str) and name for name in names):
        _refuse("columns", columns, 'is no list of distinct column names: write one such as ["x", "y"]')
    return names


def _numbers(field: str, values: Iterable[float], names: tuple[str, ...]) -> tuple[float, ...]:
    try:
        numbers = tuple(float(value) for value in values)
    except (TypeError, ValueError):
        numbers = (math.nan,)
    if not all(map(math.isfinite, numbers)) or len(numbers) != len(names):
        _refuse(field, values, f"is not one finite number for each of {', '.join(names)}")
    return numbers


def _refuse(field: str, value: Any, why: str) -> None:
    msg = f"{field}={value!r} {why}"
    raise QueryError(msg)
