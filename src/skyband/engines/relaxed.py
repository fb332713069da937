"""Relaxed candidate pruning (RA): the k-skyband and some more, pruned now and then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skyband.engines.arrival_engine import ArrivalEngine, PruningRule

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from skyband.engines.family import QueryFamily


class Relaxed(ArrivalEngine):
    """Let every arrival in; drop what is dominated when the candidates have grown by `gamma` since the last time.

    One walk from the best object down, with a heap of the k latest times so far, finds all that k better ones
    outlive. The first walk is due at 4 k candidates, and none while there are fewer than k.

    Exact. `candidates()` is the k-skyband; what is held between two walks is up to 1 + gamma times as much.

    Cost: O(log c + objects below it) an arrival and O(log k / gamma) for its share of the walks; O(k) when one of
    the k best expires. Memory: (1 + gamma / 2) n' - gamma k / 2 objects on average in random order, with
    n' = k (1 + H(n) - H(k)) those of the k-skyband and H the harmonic numbers.

    Examples
    --------
    >>> import skyband as sb
    >>> query = sb.TopK(k=1, by="x", window=sb.Counting(3))
    >>> sb.run(query, {"x": [5, 1, 2, 3]}, engine="relaxed", options={"gamma": 0.5})["score"].to_pylist()
    [5.0, 5.0, 5.0, 3.0]

    References
    ----------
    Pripuzic et al., TODS 2015, section 4.2, algorithms 3 to 5, definition 4.7, lemmas 4.8 and 4.9. Errata: algorithm 3
    prints `size >= k` where the text means `> k`; lemma 4.9 has n' = k ln(n / k), which is low by about k. At step 11
    of table VII the candidates have reached their limit of 3 and o10 is dominated: it should be struck out.
    """

    def __init__(
        self, family: QueryFamily, resume: Mapping[str, np.ndarray] | None = None, *, gamma: float = 0.2
    ) -> None:
        super().__init__(family, PruningRule.relaxed(family.query.k, gamma), resume=resume)
