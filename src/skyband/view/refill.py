"""Refills: when a view queries its table, for how many rows, and what happens with the result."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from skyband.errors import TableError
from skyband.runtime.score import scores
from skyband.tables.protocol import SCORE, NotPushedDownError
from skyband.view.stats import ViewStats, WorkloadMeter

if TYPE_CHECKING:
    from skyband.tables.protocol import BaseTable, ScannableTable
    from skyband.view.changes import ChangeBatch
    from skyband.view.rows import ViewRows
    from skyband.view.spec import ViewSpec

_RETRY_AFTER = 1.0  # seconds after a failed refill, where the table names none
_CHUNK = 1 << 20  # changes after which the policy looks again, however long the batch

Rank = tuple[float, object]
"""Score and key of a row; a key of None stands for all rows of that score."""


class Fetched(NamedTuple):
    """The rows of a refill, and the seconds it took."""

    rows: pa.Table
    seconds: float


class RefillRequest(NamedTuple):
    """A query for more rows, and the view that it was made for."""

    n: int
    below: Rank | None
    kmax: int  # of the view with these rows
    bound: tuple[float, int] | None  # of the view when it asked: the rows continue from there


@dataclass
class RefillInFlight:
    """A refill in the background, and the changes since it was requested."""

    request: RefillRequest
    result: Future[Fetched]
    changes: list[ChangeBatch] = field(default_factory=list)


class RefillWorker:
    """Queries a table for its best rows below a rank, at once or in a background thread."""

    def __init__(self, table: BaseTable, spec: ViewSpec) -> None:
        self._ranked, self._spec = table.ranked(spec.by, spec.columns, ascending=spec.ascending), spec
        self._executor: ThreadPoolExecutor | None = None

    def count(self) -> int:
        """The number of rows of the table."""
        return self._ranked.count()

    def fetch(self, n: int, below: Rank | None) -> Fetched:
        """Fetch the n best rows below a rank. Raises TableError."""
        started = time.perf_counter()
        try:
            rows = self._ranked.top(n, below)
        except NotPushedDownError as error:
            rows = self._scan(error.table, n, below)
        return Fetched(rows, time.perf_counter() - started)

    def start(self, request: RefillRequest) -> RefillInFlight:
        """Fetch rows in the background."""
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, thread_name_prefix="skyband-view")
        return RefillInFlight(request, self._executor.submit(self.fetch, request.n, request.below))

    def close(self) -> None:
        """End the thread, without waiting for the table."""
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)

    def _scan(self, table: ScannableTable, n: int, below: Rank | None) -> pa.Table:
        """Read and score all rows, where the database cannot. Memory holds n rows and one batch."""
        best: pa.Table | None = None
        for rows, operands in table.read():
            score = scores(self._spec.by, operands)
            batch = rows.add_column(1, SCORE, pa.array(-score if self._spec.ascending else score, pa.float64()))
            batch = batch if best is None else pa.concat_tables([best, batch])
            best = batch.take(_best_places(batch, n, below, integer_keys=table.whole_keys))
        assert best is not None
        return best


def _best_places(rows: pa.Table, n: int, below: Rank | None, *, integer_keys: bool) -> np.ndarray:
    """Places of the n best rows, best first; with other keys than integers, runs of equal scores come whole."""
    score = rows.column(SCORE).to_numpy()
    key = rows.column(0).to_numpy() if integer_keys else np.zeros(len(score), np.int64)
    valid = ~np.isnan(score)
    if below is not None:
        limit, last = below
        valid &= (score < limit) if last is None else (score < limit) | ((score == limit) & (key < np.int64(last)))  # type: ignore[arg-type]
    places = np.flatnonzero(valid)
    order = places[np.lexsort((key[places], score[places]))[::-1]]
    if integer_keys or len(order) <= n:
        return order[:n]
    return order[score[order] >= score[order[n - 1]]]


class RefillController:
    """Applies changes to the rows of a view, and decides when to refill them and to how many rows.

    With `refill_at`, refills run in the background and changes that come meanwhile are applied again to what they
    bring. A failed refill leaves the view incomplete; it is tried again with later changes. Not thread-safe.

    Parameters
    ----------
    rows
        The rows; a view without any is filled at the first changes, or by `refill`.
    worker
        What queries the table of the view.
    """

    def __init__(self, rows: ViewRows, worker: RefillWorker) -> None:
        self.rows, self.spec = rows, rows.spec
        self.kmax = self.spec.k
        self.meter = WorkloadMeter(self.spec.min_rows)
        self.error = TableError("the table has not been queried yet")
        """Of the last refill that failed."""
        self.refill_in_flight: RefillInFlight | None = None
        self._worker = worker
        self._retry_at = 0.0

    @property
    def stats(self) -> ViewStats:
        """Counts and times so far."""
        return self.meter.stats(self.rows.index.counts)

    def apply(self, batch: ChangeBatch) -> None:
        """Apply changes prepared by `ViewRows.prepare`, with a refill wherever one is due.

        If that is interrupted, changes are missing: the view is then filled again from the table.
        """
        try:
            self.poll()
            self._apply(batch)
        except BaseException:
            self.rows.store_columns(batch.rows)
            self.rows.reset()
            raise
        self.meter.total_updates += batch.size
        self.rows.rank_ahead()

    def _apply(self, batch: ChangeBatch) -> None:
        rows, position = self.rows, 0
        recorded = None
        while position < batch.size:
            refill = self.refill_in_flight
            if refill is not None and refill is not recorded and self.spec.ordered:
                refill.changes.append(batch.slice(position) if position else batch)
                recorded = refill
            started = time.thread_time()  # of this thread: others must not make updates look expensive
            before = position
            position = rows.apply(batch, position, min(position + _CHUNK, batch.size), self._threshold())
            self.meter.record_updates(rows.index, position - before, time.thread_time() - started)
            if self._refill_due():
                rows.store_columns(batch.rows)
                self._refill()
            self._adjust_kmax()
        rows.store_columns(batch.rows)

    def refill(self) -> None:
        """Refill now if rows are missing, however recent the last failure."""
        self._retry_at = 0.0
        if self._refill_due():
            self._refill()

    def fill(self) -> None:
        """Fetch the first rows, which do not count as a refill. Raises TableError."""
        self._refill()
        if not self.rows.known:
            raise self.error
        self.meter.reset_totals()

    def poll(self) -> None:
        """If the refill in flight has finished: add its rows, then apply the changes since its request again."""
        refill = self.refill_in_flight
        if refill is None or not refill.result.done():
            return
        self.refill_in_flight = None
        try:
            fetched = refill.result.result()
        except TableError as error:
            self._record_failure(error)
            return
        if self.rows.index.bound == refill.request.bound:
            self._add_fetched(refill.request, fetched)
            self.rows.reapply(refill.changes)
            self._start_interval()
        # otherwise the view was full meanwhile, and has dropped rows that rank above all of these
        if self._refill_due():
            self._refill()

    def close(self) -> None:
        """End the background thread and drop the refill in flight."""
        self._worker.close()
        self.refill_in_flight = None

    def _threshold(self) -> int:
        """With fewer rows a refill is due; 0 while none can be started."""
        if self.refill_in_flight is not None or time.monotonic() < self._retry_at:
            return 0
        spec = self.spec
        return spec.k if spec.refill_at is None else min(spec.refill_at, max(self.kmax, spec.k))

    def _refill_due(self) -> bool:
        return self.rows.index.bound is not None and self.rows.index.size < self._threshold()

    def _refill(self) -> None:
        """Query the table for the rows that come next, now or in the background."""
        self.meter.warn_if_shrinking()
        try:
            request = self._request()
            if self.spec.refill_at is not None and self.rows.known:
                self.refill_in_flight = self._worker.start(request)
            else:
                self._add_fetched(request, self._worker.fetch(request.n, request.below))
                self._start_interval()
        except TableError as error:
            self._record_failure(error)

    def _request(self) -> RefillRequest:
        index = self.rows.index
        if self.rows.known:
            kmax = self.spec.kmax.kmax_on_refill(self.meter.workload(index.size, self.kmax))
        else:
            self.meter.table_rows = max(self._worker.count(), 1)
            kmax = self.spec.kmax.initial_kmax(self.spec.min_rows, self.meter.table_rows)
        kmax = max(kmax, self.spec.min_rows)
        below, known = self.rows.refill_start()
        return RefillRequest(max(kmax - index.size, 1) + known, below, kmax, index.bound)

    def _add_fetched(self, request: RefillRequest, fetched: Fetched) -> None:
        index = self.rows.index
        self.meter.record_refill(fetched.rows.num_rows, fetched.seconds, first=not self.rows.known)
        index.resize(max(request.kmax, index.size))
        self.meter.record_resize()
        self.kmax = request.kmax
        self.rows.add_fetched(fetched.rows, request.n)

    def _start_interval(self) -> None:
        """Drop rows beyond kmax, which came while a refill was in flight, and count anew."""
        if not self.rows.hashed_keys:  # runs of equal scores stay whole
            self.rows.index.resize(self.kmax)
        self.meter.start_interval(self.rows.index.size)

    def _record_failure(self, error: TableError) -> None:
        self.meter.failed_refills += 1
        self._retry_at = time.monotonic() + (_RETRY_AFTER if error.retry_after is None else error.retry_after)
        self.error = error

    def _adjust_kmax(self) -> None:
        """Let the policy change kmax after batches without a refill."""
        meter = self.meter
        if not meter.check_due or not self.rows.known or self.refill_in_flight is not None:
            return  # a refill in flight continues from the rows of now
        kmax, updates = self.spec.kmax.kmax_between_refills(meter.workload(self.rows.index.size, self.kmax))
        kmax = max(kmax, self.spec.min_rows)
        if kmax != self.kmax:
            self.rows.index.resize(kmax)
            meter.min_size = max(self.spec.min_rows, meter.min_size - (self.kmax - kmax))
            meter.record_resize()
            self.kmax = kmax
        meter.updates = int(updates)
