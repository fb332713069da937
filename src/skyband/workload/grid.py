"""Many queries about points behind one grid, as engines of a workload."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from skyband.engines.point_grid import Many
from skyband.engines.targets import Targets
from skyband.errors import QueryError
from skyband.query import Distance, Weighted
from skyband.workload.answers import Answers, ordered
from skyband.workload.registry import GRID_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skyband.engines.protocol import Objects, Snapshot
    from skyband.workload.family import Family


class SharedGrid:
    """One store of points, one grid and one index of queries for a family of points. Exact.

    Where other engines take scores it takes points. Queries may come and go: since it keeps every row of the window,
    one that comes is exact at once.

    Cost and memory: see `Many`, to which `how` goes.

    Examples
    --------
    >>> import skyband as sb
    >>> near = [sb.TopK(k=1, by=sb.distance(["x"], to=[at]), window=sb.Counting(2)) for at in range(6)]
    >>> sb.run(near, {"x": [4.5, 1.5]}, engine="cpm")["score"].to_pylist()[6:]
    [1.5, 0.5, 0.5, 1.5, 0.5, 0.5]
    """

    def __init__(self, family: Family, resume: Mapping[str, np.ndarray] | None = None, **how: Any) -> None:
        query = family.query
        self._numbers = family.records["number"]
        self._many: Any = Many(targets_of(family), query.window, emit=query.emit, resume=resume, **how)

    @property
    def peak(self) -> int:
        """The most rows ever in the window."""
        return int(self._many.peak)

    def advance(self, arrivals: Objects, upto: int | np.ndarray) -> Answers:
        """One step for every arrival, or for every position before `upto`."""
        points = arrivals.score.reshape(len(arrivals.id), self._many.targets.to.shape[1])
        told = self._many.advance(points, arrivals.time, arrivals.id, int(np.asarray(upto).item()))
        group = np.zeros(len(told.step), np.int32)
        answers = Answers(told.step, told.end, group, told.first, told.id, told.score, self._numbers[told.group])
        answers = answers._replace(rank=told.rank)
        # steps of one moment come one after the other, each with all of its queries
        return ordered(answers) if (np.diff(answers.end) == 0).any() else answers

    def change(self, family: Family, moved: np.ndarray, positions: np.ndarray | None = None) -> None:  # noqa: ARG002
        """Go on with other members: `moved[i]` is the new place of member i, or -1."""
        self._numbers = family.records["number"]
        self._many.change(targets_of(family), moved)

    def candidates(self) -> Objects:
        """Every row of the window: a search may bring back any of them."""
        return self._many.candidates()

    def busy(self) -> np.ndarray:
        """The one group, if there is a row."""
        return np.flatnonzero([len(self._many.candidates().id) > 0])

    def regroup(self, keep: np.ndarray) -> None:
        """There is but one group."""

    def snapshot(self) -> Snapshot:
        """All that is kept."""
        return self._many.snapshot()


class SharedWatched(SharedGrid):
    """The engines of top-k/w that define a threshold, behind one query grid and over one buffer.

    For `emit="arrivals"`, with the options of the engine. As exact as that; its queries stay.

    Cost and memory: see `Watched`.

    Examples
    --------
    >>> import skyband as sb
    >>> near = [
    ...     sb.TopK(k=1, by=sb.distance(["x"], to=[at]), window=sb.Counting(4), emit="arrivals") for at in (0, 9)
    ... ]
    >>> told = sb.run(near, {"x": [4.5, 1.5, 8.5]}, engine="rapf", options={"buffer": 2, "grid": "uniform"})
    >>> list(zip(told["query"].to_pylist(), told["score"].to_pylist()))
    [('q0', 4.5), ('q1', 4.5), ('q0', 1.5), ('q1', 0.5)]
    """

    def __init__(self, family: Family, resume: Mapping[str, np.ndarray] | None = None, **how: Any) -> None:
        from skyband.engines.watched import Watched

        engine = how.pop("engine")
        grid = {name: how.pop(name) for name in GRID_OPTIONS if name in how}
        self._engine, self._numbers = engine, family.records["number"]
        self._many: Any = Watched(engine, targets_of(family), family.query.window, options=how, resume=resume, **grid)

    def change(self, family: Family, moved: np.ndarray, positions: np.ndarray | None = None) -> None:  # noqa: ARG002
        """Not here."""
        msg = f"engine={self._engine!r} does not let queries come and go: write engine='sweep'"
        raise QueryError(msg)


def targets_of(family: Family) -> Targets:
    """What the members ask, in their order."""
    by = family.query.by
    assert isinstance(by, (Distance, Weighted))
    sign = -1.0 if family.query.ascending and isinstance(by, Weighted) else 1.0
    each = [member.by for member in family.members if member.by is not None]
    shape = (len(each), len(by.columns))
    to = np.array([one.to or (0.0,) * shape[1] for one in each], np.float64).reshape(shape)
    weight = sign * np.array([one.weights or (1.0,) * shape[1] for one in each], np.float64).reshape(shape)
    return Targets.of(by.kind, to=to, weight=weight, k=np.array([member.k for member in family.members], np.int64))
