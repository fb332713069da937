"""Top-k monitoring (TMA): the k best, searched again whenever one of them expires."""

from __future__ import annotations

from typing import ClassVar

from skyband.engines.point_grid import BEST, ListRule, PointGrid


class TMA(PointGrid):
    """Keep the k best; when one of them leaves and no better one comes, search all objects of the window.

    The objects lie in the cells of a grid. A search visits cells from the best corner on, and stops at the first that
    cannot beat the k-th found. Written for scores that rise or fall with every column; for one query the score itself
    is the only column.

    Exact.

    Cost: O(k) for one of the k best, O(1) for all others; a search, O(k log k + objects of the cells visited), for
    every one of the k best that leaves: about k * (1 + ln(n / k)) searches a window of n in random order.
    Memory: every object of the window.

    Examples
    --------
    >>> import skyband as sb
    >>> query = sb.TopK(k=1, by="x", window=sb.Counting(3))
    >>> sb.run(query, {"x": [5, 1, 2, 3]}, engine="tma")["score"].to_pylist()
    [5.0, 5.0, 5.0, 3.0]

    References
    ----------
    Mouratidis et al., SIGMOD 2006, as described by Pripuzic et al., TODS 2015, section 2, and Yang et al., EDBT 2011,
    section 8. Both have prose only: the order of the cells and the queues in them are ours.
    """

    rule: ClassVar[ListRule] = BEST
