"""Skyband monitoring (SMA): the k-skyband above a threshold, searched again when fewer than k are left."""

from __future__ import annotations

from typing import ClassVar

from skyband.engines.point_grid import BAND, ListRule, PointGrid


class SMA(PointGrid):
    """Keep, of the objects above a threshold, those that fewer than k later ones beat.

    The threshold is the k-th score at the last search, so that most objects that expire leave a successor behind. Only
    when fewer than k are left is there a search, as in TMA.

    Exact. A list beyond 4 k + 8 is cut to its best 2 k, and the threshold raised to the last of them: otherwise the
    threshold of a window that was still filling up would stay for good.

    Cost: O(k) for an object above the threshold, O(1) for all others; a search when fewer than k are left.
    Memory: every object of the window, and the list.

    Examples
    --------
    >>> import skyband as sb
    >>> query = sb.TopK(k=1, by="x", window=sb.Counting(3))
    >>> sb.run(query, {"x": [5, 1, 2, 3]}, engine="sma")["score"].to_pylist()
    [5.0, 5.0, 5.0, 3.0]

    References
    ----------
    Mouratidis et al., SIGMOD 2006, as described by Pripuzic et al., TODS 2015, section 2, and Yang et al., EDBT 2011,
    sections 6 and 8. Both have prose only: the order of the cells and the counters of dominators are ours.
    """

    rule: ClassVar[ListRule] = BAND
