"""Conceptual partitioning over sliding windows (CPM/w): TMA for distances."""

from __future__ import annotations

from typing import ClassVar

from skyband.engines.point_grid import BEST, ListRule, PointGrid


class CPM(PointGrid):
    """Keep the k nearest; when one of them leaves and no nearer one comes, search outwards from the target.

    As `tma`, for distances: the search visits cells by their distance from the target. A query watches the cells that
    the k-th distance reaches; its index entry is rebuilt when that grows, and lazily when it shrinks. For one query the
    score is the only dimension; `sb.run` of a list of `sb.distance` queries serves many targets.

    Exact.

    Cost: O(k) for one of the k nearest, O(1) for all others; a search for every one of them that leaves.
    Memory: every object of the window.

    Examples
    --------
    >>> import skyband as sb
    >>> query = sb.TopK(k=1, by="x", window=sb.Counting(3))
    >>> sb.run(query, {"x": [5, 1, 2, 3]}, engine="cpm")["score"].to_pylist()
    [5.0, 5.0, 5.0, 3.0]

    References
    ----------
    Mouratidis and Papadias, TKDE 2007, as described by Pripuzic et al., TODS 2015, section 2 and table II. At step 8 it
    has the threshold s3 for CPM/w and s1 for SNN, and the text says that neither is indexed again. All of it holds if
    the threshold is the k-th score at the last search (at step 8 only CPM/w has one), and cells are given up
    later than it moves.
    """

    rule: ClassVar[ListRule] = BEST
