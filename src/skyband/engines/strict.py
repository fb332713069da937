"""Strict candidate pruning (SA): the k-skyband, after every object."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skyband.engines.arrival_engine import ArrivalEngine, PruningRule

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from skyband.engines.family import QueryFamily


class Strict(ArrivalEngine):
    """Forget an object as soon as k later arrivals beat it.

    Its k dominators outlive it, so no answer can contain it again. Every object counts its dominators: an arrival
    adds one to all that rank below it.

    Exact. What it keeps is the k-skyband at all times: no smaller set can answer all windows to come.

    Cost: O(log c + objects below it) an arrival, of a band of c; that is O(log c + k) on average in random order.
    O(k) when one of the k best expires. Memory: the band, about k * (1 + ln(n / k)) of n rows in random order.

    Examples
    --------
    >>> import skyband as sb
    >>> query = sb.TopK(k=1, by="x", window=sb.Counting(3))
    >>> sb.run(query, {"x": [5, 1, 2, 3]}, engine="strict")["score"].to_pylist()
    [5.0, 5.0, 5.0, 3.0]

    References
    ----------
    Pripuzic et al., TODS 2015, section 3.2, theorem 3.7 and definition 3.8 (k-skyband). Erratum: definition 3.8
    prints the sign for "ranked higher" where "dominates" is meant.
    """

    def __init__(self, family: QueryFamily, resume: Mapping[str, np.ndarray] | None = None) -> None:
        super().__init__(family, PruningRule.strict(), resume=resume)
