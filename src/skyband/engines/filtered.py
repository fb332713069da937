"""Filters (SF, RF, PF): a buffer of the last objects before a strict or relaxed band."""

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
    from skyband.query import TopK


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
