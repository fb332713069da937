"""Skyband nearest neighbours (SNN): SMA for distances."""

from __future__ import annotations

from typing import ClassVar

from skyband.engines.point_grid import BAND, ListRule, PointGrid


class SNN(PointGrid):
    """Keep, of the objects nearer than a threshold, those that fewer than k later ones beat.

    As `sma`, for distances: a search visits cells outwards from the target. For one query the score is the only
    dimension; `sb.run` of a list of `sb.distance` queries serves many targets.

    Exact. A list beyond 4 k + 8 is cut to its best 2 k, as in `sma`.

    Cost: O(k) for an object nearer than the threshold, O(1) for all others; a search when fewer than k are left.
    Memory: every object of the window, and the list.

    Examples
    --------
    >>> import skyband as sb
    >>> query = sb.TopK(k=1, by="x", window=sb.Counting(3))
    >>> sb.run(query, {"x": [5, 1, 2, 3]}, engine="snn")["score"].to_pylist()
    [5.0, 5.0, 5.0, 3.0]

    References
    ----------
    Mouratidis and Papadias, TKDE 2007, as described by Pripuzic et al., TODS 2015, section 2 and table II. Erratum: the
    text lets the threshold become s2 at step 2; table II keeps s1 up to step 8, as does a threshold that only searches
    set.
    """

    rule: ClassVar[ListRule] = BAND
