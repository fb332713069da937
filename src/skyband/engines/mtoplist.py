"""MTopList: one ranked list for all predicted views."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from skyband.engines.mtops import MTopSEngine, ViewStore
from skyband.kernels import mtoplist as kernels

if TYPE_CHECKING:
    from skyband.engines.protocol import Objects


class SharedListStore(ViewStore):
    """The list, and a pointer (FP_min) for each view."""

    def __init__(self) -> None:
        super().__init__()
        self.pointer = np.empty(0, np.int32)
        self.order = np.empty(0, np.int32)

    def insert_while_free(self, rows: Objects) -> None:
        """Insert where a view takes them; pointers move."""
        kernels.insert(
            *rows[:3],
            len(rows.id),
            self.base + self.open_views - 1,
            self.nodes,
            self.views,
            self.pointer,
            self.order,
            self.base,
            self.state,
        )

    def grow_nodes(self) -> None:
        """Double the nodes, and the list."""
        super().grow_nodes()
        self.order = np.concatenate([self.order, np.empty(len(self.nodes.next) - len(self.order), np.int32)])

    def view_opened(self, at: int, k: int) -> None:  # noqa: ARG002 - the list has no space of its own for k
        """Give a new view no pointer until it is full."""
        self.pointer[at] = -1

    def views_moved(self, gone: int, kept: int, capacity: int) -> None:
        """Move the pointers to the front."""
        pointer = np.full(capacity, -1, np.int32)
        pointer[:kept] = self.pointer[gone : gone + kept]
        self.pointer = pointer

    def shrink(self, number: int, k: int) -> None:
        """Reduce a view to k rows; 0 closes it."""
        kernels.shrink(
            number - self.base, k, self.base, self.nodes, self.views, self.pointer, self.order, self.state
        )  # fmt: skip

    def best(self, number: int, k: int, ids: np.ndarray, scores: np.ndarray) -> int:
        """Walk down the list, past what came before the view began."""
        return int(kernels.walk(number, k, self.nodes, ids, scores, self.state))


class MTopList(MTopSEngine):
    """Predict the k best of every view on one list.

    A row is in a view if the view sees it and it ranks no lower than the view's pointer, FP_min. An object's
    career may have gaps (lemma 6.2): a view of a smaller k between two of a larger one need not hold it. So its
    first and last view do not tell when it can go; here it counts the views that hold it.
    Exact; one group; the list is the minimal set.

    Cost: O(v / 64 + log c) for an arrival on a list of c objects, O(1) usually for each view it enters, a shift of O(c)
    4-byte words; O(objects above the k-th) an answer. Memory: the minimal set, 1 pointer and 1 bound a view.

    Examples
    --------
    >>> import skyband as sb
    >>> queries = [sb.TopK(k=1, by="x", window=sb.Counting(n, 2)) for n in (2, 4)]
    >>> sb.run(queries, {"x": [5, 1, 2, 3]}, engine="mtoplist")["score"].to_pylist()
    [5.0, 5.0, 3.0, 5.0]

    References
    ----------
    Shastri et al., CIKM 2011, section 6. Errata: 6.2 takes the view that closes to be the oldest and its answer to
    be the first k of the list; raising the start mark by one is wrong for careers with gaps; how FP_min moves is not
    described (here: to the next better object that its view sees).
    """

    store_class = SharedListStore

    def marks(self) -> list[tuple[int, int, int]]:
        """Return the window marks of every object, best first: id, starts of the first and last view that hold it."""
        store = self._store
        starts = {number: start for start, (number, _) in self._views.items()}
        found = []
        for node in store.used_nodes():
            inside = [starts[number] for number in sorted(starts) if self._holds(number, int(node))]
            found.append((int(store.nodes.id[node]), inside[0], inside[-1]))
        return found

    def careers(self) -> dict[int, list[int]]:
        """Return the starts of the views that hold each object, by id."""
        starts = sorted((number, start) for start, (number, _) in self._views.items())
        nodes = self._store.nodes
        return {
            int(nodes.id[node]): [start for number, start in starts if self._holds(number, int(node))]
            for node in self._store.used_nodes()
        }

    def _holds(self, number: int, node: int) -> bool:
        store = self._store
        assert isinstance(store, SharedListStore)
        nodes, view = store.nodes, number - store.base
        if nodes.pane[node] < number:
            return False
        if store.views.held[view] < store.views.k[view]:
            return True
        worst = store.pointer[view]
        return bool((nodes.score[node], nodes.id[node]) >= (nodes.score[worst], nodes.id[worst]))
