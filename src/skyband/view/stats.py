"""What a view has counted: in all, and since its last refill, which is what policies look at."""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from skyband.view.policy import Seen
from skyband.view.swings import WALK, Swings

if TYPE_CHECKING:
    from skyband.view.core import Core

_log = logging.getLogger("skyband")
_MANY = 50  # rows that must have left before a word is said about it
_USUAL = 1e-7  # seconds of an update, before one was measured
_OLD = 0.8  # how much of the mean cost of an update is from before the last batch, if all are of one size


@dataclass
class ViewStats:
    """What a view has seen and done."""

    updates: int = 0
    ignorable: int = 0
    neutral: int = 0
    good: int = 0
    bad: int = 0
    stale: int = 0
    refills: int = 0
    failed_refills: int = 0
    refilled_rows: int = 0
    refill_seconds: float = 0.0
    update_seconds: float = 0.0

    def as_dict(self) -> dict[str, float]:
        """The counts by name."""
        return asdict(self)


class Meter:
    """Counts what a view does, and measures what that costs."""

    def __init__(self, k: int) -> None:
        self.stats = ViewStats()
        self.k, self.rows = k, 1
        self.update_cost, self.refill_cost = _USUAL, 0.0
        self.relevant = 0.0  # the part of the changes that concern the view, the mean of late
        self._late = 0.0  # so many updates is "of late"
        self.least = self.updates = self.good = self.bad = 0
        """The smallest size since the last refill, and how many changes there were."""
        self._swings, self._laws = Swings(), (WALK, WALK)
        self._look = 1  # after so many batches, at what they tell of the size's swings
        self._begun = 0  # after so many batches: the last refill
        self._warned = False

    def begin(self, size: int) -> None:
        """From here on: a view of so many rows that has just been filled."""
        self.updates = self.good = self.bad = 0
        self.least = size
        self._begun = self._swings.count

    def account(self, core: Core, updates: int, seconds: float) -> None:
        """Count what the core did, and learn what an update costs."""
        if updates <= 0:
            return
        was, counts = self.stats, core.counts
        relevant = (sum(counts[1:4]) - was.neutral - was.good - was.bad) / updates
        # by updates, not by batches: one of a single row takes ten thousand times as long for it as one of many does
        part = updates / (_OLD * self._late + updates)
        self._late = _OLD * self._late + updates if self._late else updates / (1 - _OLD)
        self.update_cost += part * (seconds / updates - self.update_cost)
        self.relevant += part * (relevant - self.relevant)
        was.update_seconds += seconds
        self.updates += updates
        good, bad = counts.good - was.good, counts.bad - was.bad
        self.good += good
        self.bad += bad
        self.least = min(self.least, core.take_least())
        was.ignorable, was.neutral, was.good, was.bad, was.stale = counts
        self._swings.add(core.take_stretch(updates), good + bad)

    def resized(self) -> None:
        """The view may keep more or fewer rows than before."""
        self._swings.resized()
        self._look = min(self._look, self._swings.count + 1)

    def refilled(self, rows: int, seconds: float, *, first: bool = False) -> None:
        """Count a refill; the first is what the view begins with, and says nothing of its swings."""
        if not first:
            self._swings.belied()
        self.stats.refills += 1
        self.stats.refilled_rows += rows
        self.stats.refill_seconds += seconds
        self.refill_cost = seconds

    @property
    def due(self) -> bool:
        """Whether there is something new to see."""
        return self._swings.count >= self._look

    def seen(self, core: Core, kmax: int) -> Seen:
        """What a policy may know."""
        if self.due:
            self._laws, self._look = self._swings.laws(kmax), self._swings.next_look(self._begun)
        return Seen(
            self.k,
            kmax,
            self.rows,
            core.size,
            self.least,
            self.updates,
            self.good,
            self.bad,
            self.refill_cost,
            self.update_cost,
            self.relevant,
            *self._laws,
        )

    def warn(self) -> None:
        """Say once that rows leave faster than they enter: then no small view serves long (section 4.5)."""
        if not self._warned and self.bad > _MANY and self.bad > 2 * self.good:
            self._warned = True
            _log.warning(
                "more rows leave this view than enter it (%d against %d since it was filled), so it must be refilled "
                "often, whatever its size: rank by something that lasts longer, or ask the table itself",
                self.bad,
                self.good,
            )

    def save(self) -> np.ndarray:
        """What is known of costs and since the last refill."""
        counted = (self.least, self.updates, self.good, self.bad, self._warned)
        return np.array([self.rows, self.update_cost, self.refill_cost, *counted], np.float64)

    def save_swings(self) -> np.ndarray:
        """What is known of the size's swings, and when to look at them next."""
        swings = self._swings.save()
        swings[0, 3:7] = self._look, self._begun, self.relevant, self._late
        return swings

    def load(self, saved: np.ndarray, core: Core) -> None:
        """Go on counting where another view stopped."""
        rows, self.update_cost, self.refill_cost, *counted = saved.tolist()
        self.least, self.updates, self.good, self.bad, warned = (int(x) for x in counted)
        self.rows, self._warned = int(rows), bool(warned)
        was = self.stats
        was.ignorable, was.neutral, was.good, was.bad, was.stale = core.counts

    def load_swings(self, saved: np.ndarray, kmax: int) -> None:
        """Go on watching where another view of so many rows stopped."""
        self._swings = Swings.resume(saved)
        self._look, self._begun = int(saved[0, 3]), int(saved[0, 4])
        self.relevant, self._late = min(max(float(saved[0, 5]), 0.0), 1.0), max(float(saved[0, 6]), 0.0)
        if self._swings.count:
            self._laws = self._swings.laws(kmax)
