"""MinTopk: one ranked list for all open windows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from skyband.engines.protocol import Objects
from skyband.engines.slide_engine import SlideEngine
from skyband.kernels import mintopk as kernels
from skyband.kernels.mintopk import M, MinTopkNodes, Runs
from skyband.kernels.slide import S

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skyband.engines.family import QueryFamily
    from skyband.kernels.answers import AnswerBuffer
    from skyband.kernels.columns import Columns


class MinTopk(SlideEngine):
    """Predict the k best of every open window on one list, the super-top-k list.

    An object's predicted career is one run of windows: it keeps the first and the last. Every window
    keeps a pointer to its k-th best: a new object that beats it enters, the one pointed at leaves.

    Exact. The list is the minimal set at all times: no smaller one can answer all windows to come.

    Cost: one comparison for an arrival that enters no window; O(log c + w) for one that enters w windows
    of a list of c objects, and a shift of O(c) 4-byte words, usually short; O(k) for a window that closes.
    Memory: the minimal set and 2 marks an object; 1 pointer or counter a window, where windows that follow
    each other and have the same one are kept, and moved, as one.

    Examples
    --------
    >>> import skyband as sb
    >>> query = sb.TopK(k=1, by="x", window=sb.Counting(3, 1))
    >>> sb.run(query, {"x": [5, 1, 2, 3]}, engine="mintopk")["score"].to_pylist()
    [5.0, 5.0, 5.0, 3.0]

    References
    ----------
    Yang et al., "An Optimal Strategy for Monitoring Top-k Queries in Streaming Windows", EDBT 2011,
    section 4. Errata: figure 6 gives a new window a pointer to an object that is not in it, never counts
    an object below it and never sets the marks; here a window counts its rows, has a pointer once there
    are k, and marks are set on insertion. Lemma 4.5 is false as stated (an object that the window has lost
    can lie between its two worst); moving the pointer by one is right when windows are visited oldest
    first and the dropped object is taken off the list. Theorem 3.2 (2k objects on average): it is
    k * H(size / slide). Figure 1 keeps 6 objects, as figure 5 lists, not the 7 of the text.
    """

    def __init__(self, family: QueryFamily, resume: Mapping[str, np.ndarray] | None = None) -> None:
        super().__init__(family, M.size)
        self._nodes = MinTopkNodes(*(np.empty(0, t) for t in (float, *["i8"] * 4, *["i4"] * 2)))
        self._runs = Runs(*(np.empty(0, t) for t in ("i4", "i8", "i8", "i8")))
        self._order = np.empty(0, np.int32)
        self._grow()
        self._restore(resume)

    def _call_kernel(self, arrivals: Columns, end: int, buffer: AnswerBuffer) -> int:
        kept = self._nodes, self._order, self._runs
        return int(kernels.advance(arrivals, end, self._k, self._shape, *kept, buffer, self._state))

    def candidates(self) -> Objects:
        """Return the super-top-k list, best first."""
        ranked = self._ranked()
        return Objects(self._nodes.score[ranked], self._nodes.time[ranked], self._nodes.id[ranked])

    def marks(self) -> list[tuple[int, int, int]]:
        """Return id, first and last window of the predicted career of every object on the list, best first."""
        ranked = self._ranked()
        columns = (self._nodes.id, self._nodes.start, self._nodes.end)
        return list(zip(*(column[ranked].tolist() for column in columns), strict=True))

    def bounds(self) -> dict[int, int]:
        """Return the id at the lower bound pointer of every open window that has k rows."""
        runs = slice(self._state[M.full], self._state[M.full_end])
        lengths = np.diff(self._runs.reach[runs], prepend=self._state[S.oldest] - 1)
        pointed = np.repeat(self._nodes.id[self._runs.bound[runs]], lengths)
        return dict(enumerate(pointed.tolist(), int(self._state[S.oldest])))

    def _ranked(self) -> np.ndarray:
        head, count = self._state[M.head], self._state[S.candidates]
        return self._order[head : head + count]

    def _grow(self) -> None:
        """Double the nodes, chained as free, and put the list in the middle of twice the space.

        A run of windows has a row that the next one has not, so there are no more runs than nodes.
        """
        old = len(self._nodes.next)
        new = max(2 * old, 64)
        ranked = self._ranked()
        self._nodes = MinTopkNodes(*(np.concatenate([c, np.empty(new - old, c.dtype)]) for c in self._nodes))
        self._runs = Runs(*(np.concatenate([c, np.empty(2 * (new - old), c.dtype)]) for c in self._runs))
        self._nodes.next[old:] = np.arange(old + 1, new + 1)
        self._nodes.next[-1] = self._state[S.free]
        self._state[S.free] = old
        self._state[M.head] = head = new - len(ranked) // 2
        self._order = np.empty(2 * new, np.int32)
        self._order[head : head + len(ranked)] = ranked
