"""nDCG@k and precision@k of ranked lists against the true ones."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import log2
from typing import TYPE_CHECKING

import numpy as np

from skyband.errors import SchemaError, nearest
from skyband.query.limits import MAX_K
from skyband.query.validation import check_integer

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
    """Share of the first k items that are among the true first k.

    Where the truth has fewer than k items, the share of those that were found.

    Examples
    --------
    >>> precision("ADF", "ABC", 3), precision("FCB", "ABC", 3)
    (0.3333333333333333, 0.6666666666666666)
    """
    there = min(k, len(truth))
    return len(set(answer[:k]) & set(truth[:k])) / there if there else 1.0


@dataclass(frozen=True)
class Evaluation:
    """nDCG and precision of answers, window by window."""

    window: tuple[object, ...]
    ndcg: np.ndarray
    precision: np.ndarray

    @property
    def ndcg_error(self) -> np.ndarray:
        """The cumulative 1 - nDCG after each window."""
        return np.cumsum(1 - self.ndcg)

    @property
    def precision_error(self) -> np.ndarray:
        """The cumulative 1 - precision after each window."""
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
    """Compare answers with the true ones.

    Parameters
    ----------
    answers, oracle
        Results of `run`: of the query, and of one whose answers are exact.
    by
        The column that identifies a row, such as the key of a join.
    k
        Number of ranks to compare. Default: the largest rank.
    prefix
        The query's `prefix`.
    per
        The group columns: the query's `per`; for many queries "query".

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
    if k is not None:
        check_integer("k", k, 1, MAX_K)
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
    """Return the items of each window, best first."""
    end, rank = prefix + "window_end", prefix + "rank"
    for name in (end, rank, by, *per):
        if name not in table.column_names:
            raise SchemaError(f"the answers have no column {name!r}: {nearest(name, table.column_names)}")
    lists: dict[object, list[Hashable]] = {}
    before: tuple[object, ...] | None = None
    ordered = table.select([end, *per, rank, by]).sort_by([(name, "ascending") for name in (end, *per, rank)])
    for *window, place, item in zip(*(column.to_pylist() for column in ordered.columns), strict=True):
        if (*window, place) == before:
            raise SchemaError(
                f'a rank must occur once in a window, got {place} twice: name the group columns, such as per=["city"]'
            )
        before = (*window, place)
        lists.setdefault(window[0] if not per else tuple(window), []).append(item)
    return lists
