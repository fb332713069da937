"""Drawdown: how far the size of a view falls below an earlier size within a number of updates.

A view is refilled when its size falls from kmax to below k. How often that happens for other values of kmax is forecast
from the drawdowns measured over 1, 2, 4, 8, ... batches of changes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from skyband.engines.validation import require

_SIGMA = 0.28  # of the log of one drawdown: 0.4 for a random walk, 0.15 for a mean-reverting one
_LEVELS_FITTED = 6  # the longest stretches say most about longer ones
_MIN_BATCHES = 32  # before a mean-reverting walk can be told from a random one
_CHECK_FACTOR, _EARLY_CHECK_FACTOR = 1.2, 3.0  # check again when so many times the batches have come
_CANDIDATES = 48  # relaxation times that are tried
_HORIZON = 1e4  # times the measured length: a longer relaxation time is as good as none
_TOLERANCE = 0.5  # of squared deviations: laws that fit about as well as the best one
_MIN_DRAWDOWN = 0.5  # rows: keeps logarithms finite
_MIN_MOVES = 3.0  # rows that are assumed to have entered or left
_MAX_LEVELS = 64
_MAX_EXPONENT = 500.0  # exp() of it is more updates than there will ever be
_WAIT = math.pi / 2  # expected time until a random walk falls by d, over the time in which its mean drawdown is d


class SizePath(NamedTuple):
    """How the size of a view moved during some updates, relative to its value before them."""

    updates: float
    drawdown: float
    peak: float
    low: float
    end: float

    def then(self, later: SizePath) -> SizePath:
        """Join two paths, one after the other.

        Examples
        --------
        >>> SizePath(10, 1, 3, 0, 2).then(SizePath(10, 3, 0, -3, -1))
        SizePath(updates=20, drawdown=4, peak=3, low=-1, end=1)
        """
        return SizePath(
            self.updates + later.updates,
            max(self.drawdown, later.drawdown, self.peak - self.end - later.low),
            max(self.peak, self.end + later.peak),
            min(self.low, self.end + later.low),
            self.end + later.end,
        )

    def scale(self, factor: float) -> SizePath:
        """Multiply all sizes."""
        return SizePath(self.updates, *(factor * value for value in self[1:]))


class DrawdownLaw(NamedTuple):
    """In T updates the mean drawdown is scale * sqrt(log(1 + T / relaxation)).

    For T far below `relaxation` that is a random walk, scale * sqrt(T / relaxation). For longer times it is a walk that
    reverts to a mean, whose deviations are normal: large drawdowns are rare.
    """

    scale: float
    relaxation: float

    def interval(self, drawdown: np.ndarray | float) -> np.ndarray:
        """Expected number of updates until such a drawdown.

        Examples
        --------
        >>> DrawdownLaw(10.0, 1e6).interval(np.array([1.0, 10.0, 30.0])).round(-4)
        array([2.000000e+04, 2.700000e+06, 1.272672e+10])
        """
        exponent = np.minimum((np.asarray(drawdown) / self.scale) ** 2, _MAX_EXPONENT)
        return _WAIT * self.relaxation * np.expm1(exponent)


_NO_PATH = (0.0,) * len(SizePath._fields)
UNKNOWN = DrawdownLaw(1.0, 1.0)
"""The law of a view without measurements."""


@dataclass
class _Level:
    """Paths of 2^n batches: how many there were, their means, and one that waits for its successor."""

    count: int = 0
    updates: float = 0.0
    drawdown: float = 0.0
    unpaired: SizePath | None = None

    def add(self, path: SizePath) -> SizePath | None:
        """Count a path; of every second one, the path of both together."""
        self.count += 1
        weight = 1 / self.count
        self.updates += weight * (path.updates - self.updates)
        self.drawdown += weight * (path.drawdown - self.drawdown)
        before, self.unpaired = self.unpaired, None
        if before is None:
            self.unpaired = path
            return None
        return before.then(path)


class DrawdownTracker:
    """Mean drawdowns over 1, 2, 4, 8, ... batches, and the law that fits them.

    The largest drawdown so far says little about when a walk reverts; means over many short stretches and fewer long
    ones say more. In a smaller view fewer rows enter and leave, and drawdowns shrink with the square root of that. So
    they are stored in units of that root, and measurements at another size stay valid. O(1) a batch.

    Examples
    --------
    >>> tracker = DrawdownTracker()
    >>> for step in (1, -2, 1, 0) * 16:
    ...     tracker.add(SizePath(100, max(-step, 0), max(step, 0), min(step, 0), step), 10)
    >>> tracker.mean_drawdowns().round(2).tolist()
    [0.5, 1.0, 2.0, 2.0, 2.0, 2.0, 2.0]
    >>> tracker.reset_rate()
    >>> tracker.add(SizePath(100, 0, 0, 0, 0), 40)  # four times as many rows enter and leave
    >>> float(tracker.mean_drawdowns()[-1].round(2))
    4.0
    """

    def __init__(self) -> None:
        self._levels: list[_Level] = []
        self._updates = self._moves = 0.0  # since the view was resized
        self._min_batches = _MIN_BATCHES

    @property
    def batches(self) -> int:
        """Number of batches added so far."""
        return self._levels[0].count if self._levels else 0

    @property
    def _unit(self) -> float:
        """Square root of the number of rows that enter or leave per update."""
        return math.sqrt(max(self._moves, _MIN_MOVES) / max(self._updates, 1.0))

    def next_check(self, refilled: int) -> int:
        """The number of batches at which a new fit is worthwhile: a fifth more, in all or since batch `refilled`.

        Checks are rarer while the batches are too few for anything but a random walk.
        """
        return min(
            _next_check(self.batches, self._min_batches), refilled + _next_check(self.batches - refilled, _MIN_BATCHES)
        )

    def add(self, path: SizePath, moves: int) -> None:
        """Add a batch in which `moves` rows entered or left."""
        self._updates += path.updates
        self._moves += moves
        joined: SizePath | None = path.scale(1 / self._unit)
        level = 0
        while joined is not None:
            if level == len(self._levels):
                self._levels.append(_Level())
            joined = self._levels[level].add(joined)
            level += 1

    def reset_rate(self) -> None:
        """Measure anew how many rows enter and leave: the view has another kmax."""
        self._updates = self._moves = 0.0

    def distrust(self) -> None:
        """Require twice the batches before assuming mean reversion again: a refill came in spite of the forecast."""
        self._min_batches = max(self._min_batches, 2 * self.batches)

    def snapshot(self) -> np.ndarray:
        """One row of totals (unused columns are zero), then one row for each level."""
        rows = [(self._updates, self._moves, self._min_batches, *_NO_PATH, 0.0)]
        for level in self._levels:
            path = level.unpaired
            rows.append(
                (level.count, level.updates, level.drawdown, *(_NO_PATH if path is None else path), path is not None)
            )
        return np.array(rows, np.float64)

    @classmethod
    def restore(cls, snapshot: np.ndarray) -> DrawdownTracker:
        """Continue from a snapshot.

        Examples
        --------
        >>> tracker = DrawdownTracker()
        >>> for fall in (3, 1, 2):
        ...     tracker.add(SizePath(100, fall, 0, -fall, -fall), 10)
        >>> DrawdownTracker.restore(tracker.snapshot()).mean_drawdowns() == tracker.mean_drawdowns()
        array([ True,  True])
        """
        totals, rows = snapshot[0], snapshot[1:]
        valid = (rows[:, :2] >= 1).all(axis=1) & (rows[:, 2] >= 0) & ((rows[:, 3] >= 1) | (rows[:, -1] == 0))
        valid_totals = (totals[:2] >= 0).all() and totals[2] >= _MIN_BATCHES
        require(valid.all() and valid_totals and len(rows) <= _MAX_LEVELS, "swings has a value out of range")
        tracker = cls()
        tracker._updates, tracker._moves, tracker._min_batches = float(totals[0]), float(totals[1]), int(totals[2])
        for count, updates, drawdown, *path, has_path in rows.tolist():
            tracker._levels.append(_Level(int(count), updates, drawdown, SizePath(*path) if has_path else None))
        return tracker

    def mean_drawdowns(self) -> np.ndarray:
        """The mean drawdown over 1, 2, 4, ... batches, for a view of the present kmax."""
        return self._unit * np.array([level.drawdown for level in self._levels])

    def fit(self, kmax: int) -> tuple[DrawdownLaw, DrawdownLaw]:
        """Fit the law of a view of `kmax` rows, and the law of a random walk.

        The first is, of all laws that fit about as well as the best one, that with the longest relaxation time. Nor is
        its scale ever below that of independent rows: how many of those are in the view is Poisson distributed, with
        drawdowns of 2 * sqrt(2 * kmax * log(T)) in T updates. With few batches both are the random walk.
        """
        levels = self._levels[-_LEVELS_FITTED:]
        count = np.array([level.count for level in levels])
        drawdown = self._unit * np.array([level.drawdown for level in levels])
        shape, relaxation = _candidate_laws(len(levels))
        residual = np.log(np.maximum(drawdown, _MIN_DRAWDOWN)) - shape
        log_scale = residual @ count / count.sum()
        misfit = (residual - log_scale[:, None]) ** 2 @ count / _SIGMA**2
        best = -1
        if self.batches >= self._min_batches:
            independent = math.log(8 * kmax) / 2
            best = int(np.flatnonzero((misfit <= misfit.min() + _TOLERANCE) | (log_scale < independent))[-1])
        unit = levels[0].updates  # relaxation times are in stretches of the shortest fitted length
        law, random_walk = (DrawdownLaw(math.exp(log_scale[n]), unit * float(relaxation[n])) for n in (best, -1))
        return law, random_walk


def _next_check(batches: int, enough: int) -> int:
    if batches >= enough:
        return 1 + int(_CHECK_FACTOR * batches)
    return min(1 + int(_EARLY_CHECK_FACTOR * batches), enough)


@lru_cache(maxsize=_LEVELS_FITTED)
def _candidate_laws(levels: int) -> tuple[np.ndarray, np.ndarray]:
    """For candidate relaxation times, the log of the drawdowns over 1, 2, 4, ... stretches; and the times."""
    stretches = 2.0 ** np.arange(levels)
    relaxation = np.geomspace(1 / 4, _HORIZON * stretches[-1], _CANDIDATES)
    return 0.5 * np.log(np.log1p(stretches / relaxation[:, None])), relaxation
