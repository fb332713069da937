"""Scores of points: the distance to a target, and weighted sums of columns. Frozen values, checked when built."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from skyband.query.validation import check_choice, check_names, check_number, invalid

Metric = Literal["euclidean", "manhattan", "chebyshev"]
METRICS = get_args(Metric)


@dataclass(frozen=True)
class Distance:
    """How far a row is from a point; made by `sb.distance`. Nearest ranks first."""

    columns: tuple[str, ...]
    to: tuple[float, ...]
    metric: Metric = "euclidean"
    weights: tuple[float, ...] = ()  # one for each column; empty: all are 1
    ascending: ClassVar[bool] = True  # the order unless the query says otherwise

    def __post_init__(self) -> None:
        columns = check_names("columns", self.columns, required=True)
        weights = _numbers("weights", self.weights, columns) if self.weights else ()
        for weight in weights:
            check_number("weights", weight, above=0)
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "to", _numbers("to", self.to, columns))
        object.__setattr__(self, "metric", check_choice("metric", self.metric, METRICS))
        object.__setattr__(self, "weights", weights)

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

    def __post_init__(self) -> None:
        columns = check_names("columns", self.columns, required=True)
        weights = _numbers("weights", self.weights, columns)
        if 0.0 in weights:
            raise invalid("weights", "not be zero: leave out columns that do not count", weights)
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "weights", weights)

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
    metric: Metric = "euclidean",
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
    return Distance(columns, to, metric, () if weights is None else weights)  # type: ignore[arg-type]  # made tuples


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
        raise invalid("weights", "be a mapping", weights, '{"price": 2, "age": -1}')
    return Weighted(tuple(weights), tuple(weights.values()))


def _numbers(field: str, values: Iterable[float], columns: tuple[str, ...]) -> tuple[float, ...]:
    try:
        numbers = tuple(float(value) for value in values)
    except (TypeError, ValueError):
        numbers = (math.nan,)
    if not all(map(math.isfinite, numbers)) or len(numbers) != len(columns):
        raise invalid(field, f"have one finite number for each of {', '.join(columns)}", values)
    return numbers
