"""One query with its score as the only dimension: what the four engines of the papers share."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from skyband.engines.point_grid import Many
from skyband.engines.protocol import Answers, Objects, Snapshot
from skyband.engines.targets import Targets

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skyband.query import TopK


class Single:
    """A store of all objects of the window in a grid over their score, and one list."""

    rule: ClassVar[str]

    def __init__(
        self,
        query: TopK,
        resume: Mapping[str, np.ndarray] | None = None,
        *,
        grid: str = "quantile",
        slices: int | None = None,
    ) -> None:
        emit = "arrivals" if query.emit == "arrivals" else "answers"
        targets = Targets.of("sum", weight=[[1.0]], k=query.k)
        self._many = Many(targets, query.window, emit=emit, rule=self.rule, grid=grid, slices=slices, resume=resume)

    @property
    def peak(self) -> int:
        """The most objects ever kept: all of the window."""
        return self._many.peak

    @property
    def searches(self) -> int:
        """How often the list was made anew from the cells."""
        return self._many.counts["searches"]

    @property
    def threshold(self) -> float:
        """The k-th score when the list was last made: what the papers index the query by."""
        return self._many.threshold(0)

    def advance(self, arrivals: Objects, upto: int | np.ndarray) -> Answers:
        """One step for every arrival, or for every position before `upto`."""
        points = arrivals.score.reshape(-1, 1)
        return self._many.advance(points, arrivals.time, arrivals.id, int(np.asarray(upto).item()))

    def kept(self) -> tuple[np.ndarray, np.ndarray]:
        """The list, best first: scores and ids."""
        return self._many.best(0)

    def held(self) -> tuple[int, int]:
        """References to objects in the list, and objects in the cells."""
        return len(self.kept()[1]), len(self._many.candidates().id)

    def candidates(self) -> Objects:
        """Every object of the window, best first: a search may bring back any of them."""
        held = self._many.candidates()
        score = self._many.points()[:, 0]
        return Objects(score, held.time, held.id).take(np.lexsort((held.id, score))[::-1])

    def snapshot(self) -> Snapshot:
        """All that is kept."""
        return self._many.snapshot()
