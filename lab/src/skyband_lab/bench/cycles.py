"""Engines that work after every row, asked for answers at slides only: the baselines of the MinTopk paper."""

from __future__ import annotations

import numpy as np

from skyband.engines import Objects, QueryFamily, build
from skyband.engines.protocol import Answers, OneGroupEngine, Snapshot
from skyband.query import Counting, Sliding, TopK

BASELINES = ("sma", "tma")
"""What keeps the whole window and searches it when too few of the best are left."""

_OFTEN = 1_000  # rows: asking from Python more often would cost more than the engine


class Cycles(OneGroupEngine):
    """Gives the k best at the end of every slide; between two of them the engine keeps its list row by row.

    Mouratidis et al. handle all arrivals of a slide, then all expiries. Row by row the list is the same at
    its end, but a search may come sooner: `searched` counts the slides with one. Of slides shorter than a thousand
    rows only some are asked for, so that what is measured is the engine.

    Examples
    --------
    >>> running = Cycles("sma", 1, 4_000, 2_000)
    >>> rows = Objects(np.arange(4_000.0), np.arange(4_000), np.arange(4_000))
    >>> running.advance(rows, np.array([4_000])).id.tolist()
    [1999, 3999]
    """

    def __init__(self, engine: str, k: int, win: int, slide: int, *, by_time: bool = False) -> None:
        window = Sliding(f"{win} us", "row") if by_time else Counting(win)
        self.engine = build(
            engine, QueryFamily.of(TopK(k=k, by="x", window=window, time="t" if by_time else None, emit="arrivals"))
        )
        self._k, self._slide = k, slide if by_time else slide * max(1, _OFTEN // slide)
        self.slides = self.searched = self._seen = self.peak = 0

    def advance(self, arrivals: Objects, upto: int | np.ndarray, moved: np.ndarray | None = None) -> Answers:  # noqa: ARG002
        """Slide after slide: the rows in, then the k best out."""
        end = int(np.asarray(upto).item())
        edges = np.arange((self._seen // self._slide + 1) * self._slide, end + 1, self._slide)
        cuts = [0, *np.searchsorted(arrivals.time, edges).tolist(), len(arrivals.id)]
        lists = []
        for place, (low, high) in enumerate(zip(cuts, cuts[1:], strict=False)):
            to = int(edges[place]) if place < len(edges) else end
            before = self.engine.counters["searches"]  # type: ignore[attr-defined]
            self.engine.advance(arrivals.take(slice(low, high)), np.array([to]))
            if place < len(edges):
                self.slides += 1
                self.searched += self.engine.counters["searches"] > before  # type: ignore[attr-defined]
                lists.append(self.engine.best(0))  # type: ignore[attr-defined]
        self._seen, self.peak = end, self.engine.peak
        best = [(score[: self._k], ids[: self._k]) for score, ids in lists]
        first = np.concatenate([[0], np.cumsum([len(ids) for _, ids in best], dtype=np.int64)])
        score, ids = (np.concatenate([part[side] for part in best]) if best else np.empty(0) for side in (0, 1))
        return Answers(edges // self._slide, edges, np.zeros(len(edges), np.int32), first, ids, score)

    def candidates(self) -> Objects:
        """Every row of the window."""
        return self.engine.candidates()

    def snapshot(self) -> Snapshot:
        """What the engine keeps."""
        return self.engine.snapshot()
