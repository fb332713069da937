"""nDCG@k and precision@k of ranked lists against the true ones."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import log2
from numbers import Integral
from typing import TYPE_CHECKING

import numpy as np

from skyband.errors import QueryError, SchemaError

if TYPE_CHECKING:
    import pyarrow as pa


def ndcg(answer: Sequence[Hashable], truth: Sequence[Hashable] | Mapping[Hashable, int], k: int) -> float:
    """Normalised discounted cumulative gain of the first k: how much of the best possible gain an answer has.

    `truth` is the true list, whose first has relevance k and whose k-th has 1; or the relevance of each item.

    Examples
    --------
    The paper's two cases (section 2.1.2), with relevance 6 to 1 for A to F:

    >>> relevance = dict(zip("ABCDEF", [6, 5, 4, 3, 2, 1]))
    >>> round(ndcg("ADF", relevance, 3), 3), round(ndcg("FCB", relevance, 3), 3)
    (0.754, 0.288)

    References
    ----------
    AcquaTop, section 2.1.2: DCG = sum of (2^rel - 1) / log2(rank + 1).
    """
    grade = truth if isinstance(truth, Mapping) else {item: k - i for i, item in enumerate(truth[:k])}
    gains = sorted((2.0**g - 1 for g in grade.values()), reverse=True)[:k]
    ideal = sum(gain / log2(i + 2) for i, gain in enumerate(gains))
    if not ideal:
        return 1.0
    return sum((2.0 ** grade.get(item, 0) - 1) / log2(i + 2) for i, item in enumerate(answer[:k])) / ideal


def precision(answer: Sequence[Hashable], truth: Sequence[Hashable], k: int) -> float:
    """Which part of the first k belongs there.

    Where the truth has fewer than k items, the part of those that were found.

    Examples
    --------
    >>> precision("ADF", "ABC", 3), precision("FCB", "ABC", 3)
    (0.3333333333333333, 0.6666666666666666)
    """
    there = min(k, len(truth))
    return len(set(answer[:k]) & set(truth[:k])) / there if there else 1.0


@dataclass(frozen=True)
class Evaluation:
    """How near answers came to the truth, window by window."""

    window: tuple[object, ...]
    ndcg: np.ndarray
    precision: np.ndarray

    @property
    def ndcg_error(self) -> np.ndarray:
        """The cumulated 1 - nDCG after each window."""
        return np.cumsum(1 - self.ndcg)

    @property
    def precision_error(self) -> np.ndarray:
        """The cumulated 1 - precision after each window."""
        return np.cumsum(1 - self.precision)

    def __str__(self) -> str:
        n = len(self.window)
        return f"{n} windows: nDCG {self.ndcg.sum():.2f}, precision {self.precision.sum():.2f} of {n}"


def evaluate(
    answers: pa.Table,
    oracle: pa.Table,
    by: str,
    k: int | None = None,
    prefix: str = "",
    per: str | Sequence[str] = (),
) -> Evaluation:
    """Hold answers against the true ones.

    Parameters
    ----------
    answers, oracle
        What `run` gave: of the query in question, and of one that knows the truth.
    by
        The column that says what a row is about, such as the key of a join.
    k
        How many ranks count. Default: the largest rank there is.
    prefix
        The query's `prefix`.
    per
        The columns that make groups, each with a list of its own: the query's `per`; of many queries "query".

    Returns
    -------
    Evaluation
        nDCG@k and precision@k of every window (and group) of the oracle; prints their sums.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import skyband as sb
    >>> true = pa.table({"window_end": [1, 1], "rank": [1, 2], "user": ["a", "b"]})
    >>> ours = pa.table({"window_end": [1, 1], "rank": [1, 2], "user": ["a", "c"]})
    >>> print(sb.evaluate(ours, true, by="user"))
    1 windows: nDCG 0.83, precision 0.50 of 1
    """
    if k is not None and (isinstance(k, bool) or not isinstance(k, Integral) or k < 1):
        msg = f"k={k!r} counts no rank: write a whole number of at least 1, or leave it out"
        raise QueryError(msg)
    groups = [per] if isinstance(per, str) else list(per)
    from skyband.runtime.source import as_table

    found, true = (_lists(as_table(table), by, prefix, groups) for table in (answers, oracle))
    most = k or max((len(items) for lists in (found, true) for items in lists.values()), default=1)
    pairs = [(found.get(window, []), items) for window, items in true.items()]
    return Evaluation(
        tuple(true),
        np.array([ndcg(a, t, most) for a, t in pairs]),
        np.array([precision(a, t, most) for a, t in pairs]),
    )


def _lists(table: pa.Table, by: str, prefix: str, per: list[str]) -> dict[object, list[Hashable]]:
    """The items of each window, best first."""
    end, rank = prefix + "window_end", prefix + "rank"
    for name in (end, rank, by, *per):
        if name not in table.column_names:
            msg = f"the answers have no column {name!r}: there are {', '.join(table.column_names)}"
            raise SchemaError(msg)
    lists: dict[object, list[Hashable]] = {}
    before: tuple[object, ...] | None = None
    ordered = table.select([end, *per, rank, by]).sort_by([(name, "ascending") for name in (end, *per, rank)])
    for *window, place, item in zip(*(column.to_pylist() for column in ordered.columns), strict=True):
        if (*window, place) == before:
            msg = f'rank {place} comes twice in one window: name the columns that make groups, such as per=["city"]'
            raise SchemaError(msg)
        before = (*window, place)
        lists.setdefault(window[0] if not per else tuple(window), []).append(item)
    return lists
