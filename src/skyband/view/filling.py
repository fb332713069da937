"""When the table is asked, for how much, and what is done with its answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skyband.errors import TableError
from skyband.view.kept import NOTHING
from skyband.view.refill import Ask, Asker, Question
from skyband.view.stats import Meter

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from skyband.view.kept import Kept
    from skyband.view.policy import Policy


class Filling:
    """Keeps a view between k and kmax rows. Not safe for several threads: the view holds a lock."""

    def __init__(self, kept: Kept, k: int, policy: Policy, refill_at: int | None, ask: Ask) -> None:
        self.kept, self.core = kept, kept.core
        self.k, self.kmax, self.policy, self.refill_at = k, k, policy, refill_at
        self.fewest = max(k, refill_at or 0)  # which is what k means to a policy: fewer of them are a refill
        self.meter = Meter(self.fewest)
        self.asker = Asker(ask)
        self.trouble = TableError("the table has not answered yet")

    @property
    def complete(self) -> bool:
        """Whether the k best rows are known."""
        return self.core.size >= self.k or self.core.bound is None

    def stop(self) -> int:
        """Below how many rows the table is to be asked; 0 while it cannot be."""
        if not self.asker.ready:
            return 0
        return self.k if self.refill_at is None else min(self.refill_at, max(self.kmax, self.k))

    def due(self) -> bool:
        """Whether the table is to be asked now."""
        return self.core.bound is not None and self.core.size < self.stop()

    def relax(self) -> None:
        """Let the policy take rows away after a long time without a refill."""
        meter = self.meter
        if not meter.due or self.core.bound == NOTHING or self.asker.pending is not None:
            return  # what is asked for goes on from the rows that are here
        kmax, updates = self.policy.rested(meter.seen(self.core, self.kmax))
        kmax = max(kmax, self.fewest)
        if kmax != self.kmax:
            self.core.resize(kmax)
            meter.least = max(self.fewest, meter.least - (self.kmax - kmax))
            meter.resized()
            self.kmax = kmax
        meter.updates = int(updates)

    def ask(self, count: Callable[[], int]) -> bool:
        """Ask the table for the rows that come next, now or in the background; whether it did not fail.

        `count` gives the number of rows of the table, where nothing of it is known yet.
        """
        self.meter.warn()
        first = self.core.bound == NOTHING
        try:
            if first:
                self.meter.rows = max(count(), 1)
                kmax = self.policy.start(self.fewest, self.meter.rows)
            else:
                kmax = self.policy.refilled(self.meter.seen(self.core, self.kmax))
            kmax = max(kmax, self.fewest)
            below, again = self.kept.below()
            question = Question(max(kmax - self.core.size, 1) + again, below, kmax, self.core.bound)
            if self.refill_at is not None and not first:
                self.asker.later(question)
            else:
                self._settle(question, *self.asker.now(question))
                self._fit()
        except TableError as error:
            self._failed(error)
            return False
        return True

    def _failed(self, error: TableError) -> None:
        self.meter.stats.failed_refills += 1
        self.asker.rest(error)
        self.trouble = error

    def _settle(self, question: Question, rows: pa.Table, seconds: float) -> None:
        self.meter.refilled(rows.num_rows, seconds, first=question.bound == NOTHING)
        self.core.resize(max(question.kmax, self.core.size))
        self.meter.resized()
        self.kmax = question.kmax
        self.kept.settle(rows, question.wanted)

    def _fit(self) -> None:
        """Let go of rows beyond kmax that came while the table was asked; runs of equal scores stay whole."""
        if not self.kept.hashed:
            self.core.resize(self.kmax)
        self.core.take_least()  # what was added and applied again is no fall
        self.core.take_stretch(0)
        self.meter.begin(self.core.size)

    def absorb(self, count: Callable[[], int]) -> None:
        """If the table has answered: add its rows, then apply again what has changed since it was asked."""
        try:
            found = self.asker.answered()
        except TableError as error:
            self._failed(error)
            return
        if found is None:
            return
        pending, answer = found
        if self.core.bound == pending.question.bound:
            self._settle(pending.question, *answer)
            for batch in pending.since:  # idempotent: what the view has already is set to what it is
                self.kept.again(batch)
            self._fit()
        # else it was full meanwhile, and let go of rows that rank before all of the answer
        if self.due():
            self.ask(count)
