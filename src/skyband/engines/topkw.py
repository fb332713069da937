"""The candidate prunings and filters of the top-k/w paper (SA, RA, PA; SF, RF, PF): one query, after every object."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from skyband.engines.arrival_engine import ArrivalEngine, PruningRule, buffer_span
from skyband.kernels.ranked import CELL, END, HEAD, THRESHOLD
from skyband.query.validation import check_number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skyband.engines.family import QueryFamily
    from skyband.engines.protocol import Objects
    from skyband.query import TopK


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


class Probabilistic(ArrivalEngine):
    """Ignore an arrival whose rank makes it unlikely ever to be among the k best.

    In random order that probability falls steeply with the rank an object has when it comes. So keep the
    k + limit best-ranked of the window and a bar at the last of them: nearly every arrival costs one comparison.

    Approximate, for streams in random order only: of N objects over windows of n, fewer than sigma * N / n are
    missed and fewer than 1.5 * sigma * N / n reported wrongly, in the mean. On a stream with order in it there is no
    bound: of falling scores it misses nearly all. For windows by time n is unknown; the limit is that of 10^6 rows.

    `limit` candidates are kept, by default as many as definition 4.5 needs (`candidate_limit.py`), and up to
    `additional` more, so that the bar need not be given up whenever one expires.

    Cost: one comparison for nearly every arrival; O(k + limit) for a candidate.
    Memory: k + limit + additional objects.

    Examples
    --------
    >>> import skyband as sb
    >>> query = sb.TopK(k=1, by="x", window=sb.Counting(3), emit="arrivals")
    >>> sb.run(query, {"x": [5, 1, 2, 3]}, engine="probabilistic", options={"sigma": 0.01})["score"].to_pylist()
    [5.0, 3.0]

    References
    ----------
    Pripuzic et al., TODS 2015, section 4.1, algorithms 1 and 2, lemma 4.6. Errata: algorithm 1 prints `size >= k` where
    the text means `> k`; the printed limits of table V miss definition 4.5 by up to 8 objects, so they are not the
    default here.
    """

    def __init__(
        self,
        family: QueryFamily,
        resume: Mapping[str, np.ndarray] | None = None,
        *,
        limit: int | None = None,
        additional: int = 10,
        sigma: float = 0.001,
    ) -> None:
        super().__init__(family, PruningRule.probabilistic(family.query, limit, additional, sigma), resume=resume)

    def candidates(self) -> Objects:
        """Return the probabilistic k-skyband: the best-ranked, dominated or not."""
        objects = self.band_rows()[0]
        return objects.take(objects.time > self.now - self._size)


class Filtered(ArrivalEngine):
    """Let an object into the band at once if it is among the k best of the buffer, else when it leaves the buffer.

    Those k stay in the window while the object is in the buffer, since that spans at most half of the window: it
    need not be in the band before. When it leaves, k better ones in the buffer are later ones: it is dominated for
    good, and nearly all are. The k best of the buffer come from the filter, itself a k-skyband of the
    buffer: strict (SF), relaxed (RF) or probabilistic (PF). Any subset of the buffer will do, so PF is exact too.

    Exact, with any filter. `candidates()` is the k-skyband; the band alone lacks what waits in the buffer.

    Cost: two comparisons for nearly every arrival with PF; with SF and RF that of SA and RA over the buffer. A row
    that enters the band costs what it does in `Strict` or `Relaxed`. Memory: the buffer, the filter, the band.

    `buffer` is a number of rows, at most (n + 1) / 2, or a length of time for windows by time, at most half the
    window. `cell` gives SF and RF an index: cells of that width in score, and only rows in cells that reach above
    the k-th score of the filter are shown to it.

    Examples
    --------
    >>> import skyband as sb
    >>> query = sb.TopK(k=1, by="x", window=sb.Counting(3))
    >>> sb.run(query, {"x": [5, 1, 2, 3]}, engine="rapf", options={"buffer": 2})["score"].to_pylist()
    [5.0, 5.0, 5.0, 3.0]
    >>> sb.run(query, {"x": [5, 1, 2, 3]}, engine="sasf", options={"buffer": 3})
    Traceback (most recent call last):
        ...
    skyband.errors.QueryError: buffer must be at most half of the 3 rows of the window, got 3: write at most 2

    References
    ----------
    Pripuzic et al., TODS 2015, section 5, theorem 5.1 and lemma 5.2; the index threshold: section 6.1. The bound
    b <= (n + 1) / 2 is given for counting windows; in whole microseconds it is the same for windows by time.
    PF has no additional candidates, and its bar gives way by the whole of the last gap.
    """

    def __init__(
        self,
        family: QueryFamily,
        resume: Mapping[str, np.ndarray] | None = None,
        *,
        band_kind: str,
        filter_kind: str,
        buffer: object = None,
        cell: object = None,
        **options: object,
    ) -> None:
        span = buffer_span(family.query, buffer)
        super().__init__(
            family,
            _rule(band_kind, family.query, span, options),
            _rule(filter_kind, family.query, span, options),
            span=span,
            cell=0.0 if cell is None else check_number("cell", cell, above=0),
            resume=resume,
        )

    def filter_rows(self) -> tuple[list[int], float, list[int]]:
        """Return the filter's ids, best first, the threshold for its index, and the buffer's ids, newest first."""
        num, real = self.filter.num, self.filter.real
        enough = num[END] - num[HEAD] >= self._k
        kth = self.filter.score[num[HEAD] + self._k - 1] if enough else -np.inf
        held = self.filter.id[num[HEAD] : num[END]].tolist()
        return held, float(real[THRESHOLD] if real[CELL] else kth), self.buffer.id[::-1].tolist()


def _rule(name: str, query: TopK, span: int, options: Mapping[str, object]) -> PruningRule:
    """Return when a list forgets, by name; a filter's is over a buffer of this span."""
    if name == "strict":
        return PruningRule.strict()
    if name == "relaxed":
        return PruningRule.relaxed(query.k, options.get("gamma", 0.2))
    return PruningRule.probabilistic_filter(query, span, options.get("limit"), options.get("sigma", 0.001))


sasf = partial(Filtered, band_kind="strict", filter_kind="strict")
sarf = partial(Filtered, band_kind="strict", filter_kind="relaxed")
sapf = partial(Filtered, band_kind="strict", filter_kind="probabilistic")
rasf = partial(Filtered, band_kind="relaxed", filter_kind="strict")
rarf = partial(Filtered, band_kind="relaxed", filter_kind="relaxed")
rapf = partial(Filtered, band_kind="relaxed", filter_kind="probabilistic")
