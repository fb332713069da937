"""What a view has counted: in all, and since its last refill, which is what policies look at."""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from skyband.view.policy import Seen

if TYPE_CHECKING:
    from skyband.view.core import Core

_log = logging.getLogger("skyband")
_MANY = 50  # rows that must have left before a word is said about it
_USUAL = 1e-7  # seconds of an update, before one was measured
_OLD = 0.8  # how much of the mean cost of an update is from before the last batch


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
        self.since = Seen(k, 0, 0, 0, 0, 0, 0, 0, 0, 0.0, 0.0)
        self._warned = False

    def begin(self, size: int) -> None:
        """From here on: a view of so many rows that has just been filled."""
        self.since = self.since._replace(updates=0, good=0, bad=0, least=size)

    def account(self, core: Core, updates: int, seconds: float) -> None:
        """Count what the core did, and learn what an update costs."""
        if updates <= 0:
            return
        cost = seconds / updates
        self.update_cost = cost if self.update_cost == _USUAL else _OLD * self.update_cost + (1 - _OLD) * cost
        was, counts = self.stats, core.counts
        was.update_seconds += seconds
        good, bad = counts.good - was.good, counts.bad - was.bad
        was.ignorable, was.neutral, was.good, was.bad, was.stale = counts
        since = self.since
        self.since = since._replace(
            updates=since.updates + updates,
            good=since.good + good,
            bad=since.bad + bad,
            least=min(since.least, core.take_least()),
        )

    def refilled(self, rows: int, seconds: float) -> None:
        """Count a refill."""
        self.stats.refills += 1
        self.stats.refilled_rows += rows
        self.stats.refill_seconds += seconds
        self.refill_cost = seconds

    def seen(self, core: Core, kmax: int) -> Seen:
        """What a policy may know."""
        return self.since._replace(
            k=self.k,
            kmax=kmax,
            rows=self.rows,
            size=core.size,
            drawdown=core.drawdown(),
            refill_cost=self.refill_cost,
            update_cost=self.update_cost,
        )

    def warn(self) -> None:
        """Say once that rows leave faster than they enter: then no small view serves long (section 4.5)."""
        since = self.since
        if not self._warned and since.bad > _MANY and since.bad > 2 * since.good:
            self._warned = True
            _log.warning(
                "more rows leave this view than enter it (%d against %d since it was filled), so it must be refilled "
                "often, whatever its size: rank by something that lasts longer, or ask the table itself",
                since.bad,
                since.good,
            )

    def save(self) -> np.ndarray:
        """What is known of costs and since the last refill."""
        since = self.since
        counted = (since.least, since.updates, since.good, since.bad, self._warned)
        return np.array([self.rows, self.update_cost, self.refill_cost, *counted], np.float64)

    def load(self, saved: np.ndarray, core: Core) -> None:
        """Go on counting where another view stopped."""
        rows, self.update_cost, self.refill_cost, *counted = saved.tolist()
        least, updates, good, bad, warned = (int(x) for x in counted)
        self.rows, self._warned = int(rows), bool(warned)
        self.since = self.since._replace(least=least, updates=updates, good=good, bad=bad)
        was = self.stats
        was.ignorable, was.neutral, was.good, was.bad, was.stale = core.counts
