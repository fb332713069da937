"""What a view has counted and measured: in all, and since its last refill."""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from skyband.view.drawdown import UNKNOWN, DrawdownTracker
from skyband.view.index import Counts
from skyband.view.policy import WorkloadStats

if TYPE_CHECKING:
    from skyband.view.index import ViewIndex

_log = logging.getLogger("skyband")
_MIN_BAD = 50  # rows that must have left before a warning
_FIRST_UPDATE_COST = 1e-7  # seconds, before one was measured
_DECAY = 0.8  # weight of earlier batches in moving means, for batches of equal size


@dataclass(frozen=True)
class ViewStats:
    """Counts and times of a view: changes by kind (section 3 of the paper), and refills."""

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


class WorkloadMeter:
    """Counts what a view does and measures what it costs: in all, since the last refill, and as moving means."""

    def __init__(self, min_rows: int) -> None:
        self.min_rows, self.table_rows = min_rows, 1
        self.update_cost, self.refill_cost = _FIRST_UPDATE_COST, 0.0
        self.relevant = 0.0  # share of the changes that concern the view, a moving mean
        self.min_size = self.updates = self.good = self.bad = 0  # since the last refill
        self.reset_totals()
        self._counts = Counts(0, 0, 0, 0, 0)
        self._weight = 0.0  # of the moving means, in updates
        self._drawdowns, self._laws = DrawdownTracker(), (UNKNOWN, UNKNOWN)
        self._next_check = 1  # in batches: when to fit the drawdowns again
        self._refilled_at = 0  # in batches: when the last refill was
        self._warned = False

    def reset_totals(self) -> None:
        """Count refills and times from zero."""
        self.total_updates = self.refills = self.failed_refills = self.refilled_rows = 0
        self.refill_seconds = self.update_seconds = 0.0

    def stats(self, counts: Counts) -> ViewStats:
        """Totals, with the changes by kind that the index has counted."""
        refills = self.refills, self.failed_refills, self.refilled_rows
        return ViewStats(self.total_updates, *counts, *refills, self.refill_seconds, self.update_seconds)

    def start_interval(self, size: int) -> None:
        """Start counting anew: a view of `size` rows that was just filled."""
        self.updates = self.good = self.bad = 0
        self.min_size = size
        self._refilled_at = self._drawdowns.batches

    def record_updates(self, index: ViewIndex, updates: int, seconds: float) -> None:
        """Count what the index did with some changes, and what that cost."""
        if updates <= 0:
            return
        before, counts = self._counts, index.counts
        self._counts = counts
        good, bad = counts.good - before.good, counts.bad - before.bad
        relevant = (good + bad + counts.neutral - before.neutral) / updates
        # weighted by updates, not by batches: a batch of one row costs ten thousand times as much per row as a long one
        weight = updates / (_DECAY * self._weight + updates)
        self._weight = _DECAY * self._weight + updates if self._weight else updates / (1 - _DECAY)
        self.update_cost += weight * (seconds / updates - self.update_cost)
        self.relevant += weight * (relevant - self.relevant)
        self.update_seconds += seconds
        self.updates += updates
        self.good += good
        self.bad += bad
        self.min_size = min(self.min_size, index.take_min_size())
        self._drawdowns.add(index.take_path(updates), good + bad)

    def record_resize(self) -> None:
        """Measure anew how many rows enter and leave: the view has another kmax."""
        self._drawdowns.reset_rate()
        self._next_check = min(self._next_check, self._drawdowns.batches + 1)

    def record_refill(self, rows: int, seconds: float, *, first: bool = False) -> None:
        """Count a refill. Any but the first one contradicts the forecast of drawdowns."""
        if not first:
            self._drawdowns.distrust()
        self.refills += 1
        self.refilled_rows += rows
        self.refill_seconds += seconds
        self.refill_cost = seconds

    @property
    def check_due(self) -> bool:
        """Whether enough batches have come to look at the drawdowns again."""
        return self._drawdowns.batches >= self._next_check

    def workload(self, size: int, kmax: int) -> WorkloadStats:
        """What a policy decides on."""
        if self.check_due:
            self._laws = self._drawdowns.fit(kmax)
            self._next_check = self._drawdowns.next_check(self._refilled_at)
        counted = self.min_size, self.updates, self.good, self.bad
        costs = self.refill_cost, self.update_cost, self.relevant
        return WorkloadStats(self.min_rows, kmax, self.table_rows, size, *counted, *costs, *self._laws)

    def warn_if_shrinking(self) -> None:
        """Log once that more rows leave than enter: then no small view lasts long (section 4.5)."""
        if not self._warned and self.bad > _MIN_BAD and self.bad > 2 * self.good:
            self._warned = True
            _log.warning(
                "more rows leave this view than enter it (%d against %d since its last refill), so it is refilled "
                "often at any size: rank by a score that changes less, or query the table itself",
                self.bad,
                self.good,
            )

    def snapshot(self) -> dict[str, np.ndarray]:
        """Costs and counts since the last refill, and drawdowns with the times of checks in unused columns."""
        counted = (self.min_size, self.updates, self.good, self.bad, self._warned)
        drawdowns = self._drawdowns.snapshot()
        drawdowns[0, 3:7] = self._next_check, self._refilled_at, self.relevant, self._weight
        return {
            "meter": np.array([self.table_rows, self.update_cost, self.refill_cost, *counted], np.float64),
            "swings": drawdowns,
        }

    def restore(self, meter: np.ndarray, drawdowns: np.ndarray | None, index: ViewIndex, kmax: int) -> None:
        """Continue from a snapshot; without `drawdowns` (version 0.1 before they were measured) count them anew."""
        table_rows, self.update_cost, self.refill_cost, *counted = meter.tolist()
        self.min_size, self.updates, self.good, self.bad, warned = (int(x) for x in counted)
        self.table_rows, self._warned = int(table_rows), bool(warned)
        self._counts = index.counts
        if drawdowns is None:
            self.start_interval(index.size)
            return
        self._drawdowns = DrawdownTracker.restore(drawdowns)
        self._next_check, self._refilled_at = int(drawdowns[0, 3]), int(drawdowns[0, 4])
        self.relevant, self._weight = min(max(float(drawdowns[0, 5]), 0.0), 1.0), max(float(drawdowns[0, 6]), 0.0)
        if self._drawdowns.batches:
            self._laws = self._drawdowns.fit(kmax)
