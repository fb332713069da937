"""PreTopk: one predicted list for every open window."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from skyband.engines.protocol import Objects
from skyband.engines.slide_engine import SlideEngine
from skyband.kernels import pretopk as kernels
from skyband.kernels.pretopk import PreTopkNodes
from skyband.kernels.slide import S

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skyband.engines.family import QueryFamily
    from skyband.kernels.answers import AnswerBuffer
    from skyband.kernels.columns import Columns


class PreTopk(SlideEngine):
    """Predict the k best of every open window, each in a heap of its own.

    A row's windows are known when it comes, so each open window can keep the k best of the rows it has
    so far. A window that closes returns its heap; nothing is ever searched.

    Exact. The objects of all heaps together are the minimal set; one may be in many heaps.

    Cost: one comparison for an arrival that enters no window, O(w log k) for one that enters w windows;
    O(k log k) for a window that closes. Memory: the minimal set, and k references for every open window.

    Examples
    --------
    >>> import skyband as sb
    >>> query = sb.TopK(k=1, by="x", window=sb.Counting(3, 1))
    >>> sb.run(query, {"x": [5, 1, 2, 3]}, engine="pretopk")["score"].to_pylist()
    [5.0, 5.0, 5.0, 3.0]

    References
    ----------
    Yang et al., "An Optimal Strategy for Monitoring Top-k Queries in Streaming Windows", EDBT 2011,
    section 3.2; minimal by theorem 3.1. Errata: theorem 3.2 (2k objects on average) is wrong, it is
    k * H(size / slide) on random order. Figure 1 keeps 6 objects, not the 7 of the text.
    """

    def __init__(self, family: QueryFamily, resume: Mapping[str, np.ndarray] | None = None) -> None:
        super().__init__(family, len(S))
        length = 1 << (self._assigner.ratio - 1).bit_length()  # of a ring over all windows that can be open at once
        self._check_memory("pretopk", "k rows of every open window", length * self._k)
        self._heaps = np.empty(length * self._k, np.int32)
        self._sizes = np.zeros(length, np.int64)
        self._nodes = PreTopkNodes(*(np.empty(0, t) for t in (float, "i8", "i8", "i8")))
        self._grow()
        self._restore(resume)

    def _call_kernel(self, arrivals: Columns, end: int, buffer: AnswerBuffer) -> int:
        kept = self._nodes, self._heaps, self._sizes
        return int(kernels.advance(arrivals, end, self._k, self._shape, *kept, buffer, self._state))

    def candidates(self) -> Objects:
        """Return the distinct objects of all lists, best first."""
        nodes = self._nodes
        kept = np.flatnonzero(nodes.refs > 0)
        return Objects(nodes.score[kept], nodes.time[kept], nodes.id[kept]).by_rank()

    def _grow(self) -> None:
        """Double the nodes, the new ones chained as free."""
        old = len(self._nodes.refs)
        new = max(2 * old, 64)
        self._nodes = PreTopkNodes(*(np.concatenate([c, np.empty(new - old, c.dtype)]) for c in self._nodes))
        self._nodes.refs[old:] = -1 - np.arange(old + 1, new + 1)
        self._nodes.refs[-1] = -1 - self._state[S.free]
        self._state[S.free] = old
