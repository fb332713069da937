"""How far the size of a view falls in how many updates: over stretches of all lengths, and what that foretells."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from skyband.engines.validation import require

_SPREAD = 0.28  # of the logarithm of one stretch's fall: 0.4 for a walk at random, 0.15 for one that is pulled back
_LONG = 6  # lengths from the longest down, which tell most of what is to come
_ENOUGH = 32  # batches, before it can be told whether falls end
_AGAIN, _SELDOM = 1.2, 3.0  # times as many batches as at the last look
_TURNS = 48  # guesses of when a walk turns back
_AHEAD = 1e4  # times as long as all that was seen: what turns back later is as good as what never does
_LIKELY = 0.5  # more squared deviations than the likeliest law has: about as likely
_LEAST = 0.5  # rows: the logarithm of a fall of none would be no number
_FEW = 3.0  # rows, at least, are taken to have moved
_LENGTHS = 64  # that there can be
_FAR = 500.0  # exp of which is more updates than there will ever be
_WAIT = math.pi / 2  # times as long a walk at random takes to fall so far as it takes until that is its mean fall


class Stretch(NamedTuple):
    """How the size went over some updates, from where it stood at their beginning."""

    updates: float
    fall: float  # the farthest from where it stood before
    peak: float
    low: float
    end: float

    def then(self, other: Stretch) -> Stretch:
        """Both, one after the other.

        Examples
        --------
        >>> Stretch(10, 1, 3, 0, 2).then(Stretch(10, 3, 0, -3, -1))
        Stretch(updates=20, fall=4, peak=3, low=-1, end=1)
        """
        return Stretch(
            self.updates + other.updates,
            max(self.fall, other.fall, self.peak - self.end - other.low),
            max(self.peak, self.end + other.peak),
            min(self.low, self.end + other.low),
            self.end + other.end,
        )

    def times(self, part: float) -> Stretch:
        """The same, of a view that rows enter and leave more or less often."""
        return Stretch(self.updates, *(part * value for value in self[1:]))


class Swing(NamedTuple):
    """In T updates the size falls by scale * sqrt(log(1 + T / calm)), on the mean.

    Within `calm` updates that is a walk at random, scale * sqrt(T / calm). In a longer time it is a walk that is pulled
    back to a mean, which falls far as seldom as a normal law says.
    """

    scale: float
    calm: float

    def interval(self, fall: np.ndarray | float) -> np.ndarray:
        """After how many updates such a fall is to be expected.

        Examples
        --------
        >>> Swing(10.0, 1e6).interval(np.array([1.0, 10.0, 30.0])).round(-4)
        array([2.000000e+04, 2.700000e+06, 1.272672e+10])
        """
        return _WAIT * self.calm * np.expm1(np.minimum((np.asarray(fall) / self.scale) ** 2, _FAR))


_BLANK = (0.0,) * len(Stretch._fields)
WALK = Swing(1.0, 1.0)
"""Of which nothing is known."""


class Swings:
    """The mean fall over stretches of 1, 2, 4, 8, ... batches.

    A single walk's farthest fall says little of when it turns back; the mean over many short stretches, beside that
    over fewer long ones, says it with some certainty. In a smaller view fewer rows enter and leave, and it falls less
    far, by the root of that: falls are counted in roots of how many do, so that what was seen of another size still
    counts. O(1) a batch.

    Examples
    --------
    >>> swings = Swings()
    >>> for step in (1, -2, 1, 0) * 16:
    ...     swings.add(Stretch(100, max(-step, 0), max(step, 0), min(step, 0), step), 10)
    >>> swings.falls().round(2).tolist()
    [0.5, 1.0, 2.0, 2.0, 2.0, 2.0, 2.0]
    >>> swings.resized()
    >>> swings.add(Stretch(100, 0, 0, 0, 0), 40)  # four times as many rows come and go
    >>> float(swings.falls()[-1].round(2))
    4.0
    """

    def __init__(self) -> None:
        self._open: list[Stretch | None] = []  # at each length, one that waits for the next
        self._count: list[int] = []
        self._mean: list[tuple[float, float]] = []  # updates and fall
        self._updates = self._moves = 0.0  # of a view of this size
        self._enough = _ENOUGH

    @property
    def count(self) -> int:
        """How many batches there were."""
        return self._count[0] if self._count else 0

    @property
    def _unit(self) -> float:
        """The root of how many rows enter or leave, an update."""
        return math.sqrt(max(self._moves, _FEW) / max(self._updates, 1.0))

    def next_look(self, begun: int) -> int:
        """After how many batches a look is worth its while again: when a fifth more have come, in all or since `begun`.

        Seldom, while a walk is all that they can tell.
        """
        return min(_later(self.count, self._enough), begun + _later(self.count - begun, _ENOUGH))

    def add(self, one: Stretch, moves: int) -> None:
        """One more batch, in which so many rows have entered or left."""
        self._updates += one.updates
        self._moves += moves
        one = one.times(1 / self._unit)
        for level in range(len(self._open) + 1):
            if level == len(self._open):
                self._open.append(None)
                self._count.append(0)
                self._mean.append((0.0, 0.0))
            self._count[level] += 1
            updates, fall = self._mean[level]
            part = 1 / self._count[level]
            self._mean[level] = updates + part * (one.updates - updates), fall + part * (one.fall - fall)
            before = self._open[level]
            if before is None:
                self._open[level] = one
                return
            self._open[level] = None
            one = before.then(one)

    def resized(self) -> None:
        """The view may keep more or fewer rows from here on: how many enter and leave is counted anew."""
        self._updates = self._moves = 0.0

    def belied(self) -> None:
        """The view fell farther than it was foretold to: whether falls end must be seen for twice as long."""
        self._enough = max(self._enough, 2 * self.count)

    def save(self) -> np.ndarray:
        """All that is known: a line of its own, then one for each length."""
        lines = [(self._updates, self._moves, self._enough, *_BLANK, 0.0)]
        for one, count, mean in zip(self._open, self._count, self._mean, strict=True):
            lines.append((count, *mean, *(_BLANK if one is None else one), one is not None))
        return np.array(lines, np.float64)

    @classmethod
    def resume(cls, saved: np.ndarray) -> Swings:
        """Go on from what was saved.

        Examples
        --------
        >>> swings = Swings()
        >>> for fall in (3, 1, 2):
        ...     swings.add(Stretch(100, fall, 0, -fall, -fall), 10)
        >>> Swings.resume(swings.save()).falls() == swings.falls()
        array([ True,  True])
        """
        own, lines = saved[0], saved[1:]
        right = (lines[:, :2] >= 1).all(axis=1) & (lines[:, 2] >= 0) & ((lines[:, 3] >= 1) | (lines[:, -1] == 0))
        require(right.all() and len(lines) <= _LENGTHS, "swings has a value that it cannot have")
        require((own[:2] >= 0).all() and own[2] >= _ENOUGH, "swings has a value that it cannot have")
        self = cls()
        self._updates, self._moves, self._enough = float(own[0]), float(own[1]), int(own[2])
        for count, updates, fall, *one, waits in lines.tolist():
            self._count.append(int(count))
            self._mean.append((updates, fall))
            self._open.append(Stretch(*one) if waits else None)
        return self

    def falls(self) -> np.ndarray:
        """The mean fall over stretches of each length, at the size that the view has now."""
        return self._unit * np.array([fall for _, fall in self._mean])

    def laws(self, rows: int) -> tuple[Swing, Swing]:
        """What foretells the falls of a view of so many rows, and what would if its size walked at random.

        The first is, of all laws about as likely as the likeliest, the one that turns back last. And its falls are
        never taken to end sooner than those of rows that come and go each on its own: how many of them are in the view
        follows a Poisson law, whose swings in T updates are 2 * sqrt(2 * rows * log(T)). Whether falls end at all is
        not to be told from a few batches: then both are the walk.
        """
        count = np.array(self._count[-_LONG:])
        fall = self._unit * np.array([fall for _, fall in self._mean[-_LONG:]])
        shape, turns = _shapes(len(count))
        rest = np.log(np.maximum(fall, _LEAST)) - shape
        mean = rest @ count / count.sum()
        misfit = (rest - mean[:, None]) ** 2 @ count / _SPREAD**2
        last = -1
        if self.count >= self._enough:
            less = math.log(8 * rows) / 2
            last = int(np.flatnonzero((misfit <= misfit.min() + _LIKELY) | (mean < less))[-1])
        once = self._mean[-len(count)][0]  # updates of the shortest of these
        chosen = (Swing(math.exp(mean[n]), once * float(turns[n])) for n in (last, -1))
        return next(chosen), next(chosen)


def _later(count: int, enough: int) -> int:
    return 1 + int(_AGAIN * count) if count >= enough else min(1 + int(_SELDOM * count), enough)


@lru_cache(maxsize=_LONG)
def _shapes(lengths: int) -> tuple[np.ndarray, np.ndarray]:
    """For guesses of when a walk turns back: logarithms of its falls over 1, 2, 4, ... stretches; and the guesses."""
    stretches = 2.0 ** np.arange(lengths)
    turns = np.geomspace(1 / 4, _AHEAD * stretches[-1], _TURNS)
    return 0.5 * np.log(np.log1p(stretches / turns[:, None])), turns
