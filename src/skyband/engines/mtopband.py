"""MTopBand: a list of the k best for every predicted view."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from skyband.engines.mtops import MTopSEngine, ViewStore, check_lists
from skyband.kernels import mtopband as kernels

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skyband.engines.family import QueryFamily
    from skyband.engines.protocol import Objects


class ListStore(ViewStore):
    """The lists of all views in one column; a list has space for its k."""

    def __init__(self) -> None:
        super().__init__()
        self.lists = np.empty(0, np.int32)
        self.first = np.empty(0, np.int64)
        self.used = 0

    def insert_while_free(self, rows: Objects) -> None:
        """Insert into every list whose worst row is beaten."""
        kernels.insert(
            *rows[:3],
            len(rows.id),
            self.base + self.open_views - 1,
            self.nodes,
            self.views,
            self.lists,
            self.first,
            self.state,
        )

    def view_opened(self, at: int, k: int) -> None:
        """Reserve space for the list of a new view."""
        if self.used + k > len(self.lists):
            self._compact(at, k)
        self.first[at] = self.used
        self.used += k

    def _compact(self, views: int, more: int) -> None:
        """Move the lists of open views together, into twice the space that they need."""
        k = self.views.k[:views]
        need = int(k.sum()) + more
        lists = np.empty(max(2 * need, 1024), np.int32)
        to = 0
        for at in np.flatnonzero(k):
            low = self.first[at]
            lists[to : to + k[at]] = self.lists[low : low + k[at]]
            self.first[at] = to
            to += int(k[at])
        self.lists, self.used = lists, to

    def views_moved(self, gone: int, kept: int, capacity: int) -> None:
        """Move where the lists begin to the front."""
        first = np.zeros(capacity, np.int64)
        first[:kept] = self.first[gone : gone + kept]
        self.first = first

    def extra_bytes(self) -> int:
        """Return the size of the lists and of where they begin."""
        return 4 * int(self.views.k[: self.open_views].sum()) + 8 * self.open_views

    def shrink(self, number: int, k: int) -> None:
        """Reduce a view to k rows; 0 closes it."""
        kernels.shrink(number - self.base, k, self.nodes, self.views, self.lists, self.first, self.state)

    def best(self, number: int, k: int, ids: np.ndarray, scores: np.ndarray) -> int:
        """Write the first k of a view's list."""
        view = number - self.base
        return int(kernels.answer(view, k, self.nodes, self.lists, self.first, self.views.held, ids, scores))


class MTopBand(MTopSEngine):
    """Predict the k best of every view, each in a list of its own; objects are kept once.

    Windows that begin together share a view, whatever their ends; its k is the largest of theirs, and
    falls as they close (adaptive k). Exact; one group; what is kept is the minimal set.

    Cost: O(v + w log k) for an arrival that enters w of v views, and a shift of 4-byte words in each list; O(k) an
    answer. Memory: the minimal set, and k references for every view.

    Examples
    --------
    >>> import skyband as sb
    >>> queries = [sb.TopK(k=1, by="x", window=sb.Counting(n, 2)) for n in (2, 4)]
    >>> sb.run(queries, {"x": [5, 1, 2, 3]}, engine="mtopband")["score"].to_pylist()
    [5.0, 5.0, 3.0, 5.0]

    References
    ----------
    Shastri et al., CIKM 2011, section 5. Errata: 5.2 takes the view that closes to be the oldest, which it need not be;
    a view's k falls when one of its windows closes, which the paper does not treat. Lemma 5.1's size is that of the
    references; the objects are the minimal set of theorem 5.1.
    """

    store_class = ListStore

    def __init__(self, family: QueryFamily, resume: Mapping[str, np.ndarray] | None = None) -> None:
        check_lists(family)
        super().__init__(family, resume)
