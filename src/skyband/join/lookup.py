"""Reading remote rows in time: calls side by side, again where they failed, never beyond the deadline."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skyband.errors import TableError
from skyband.redaction import redact
from skyband.runtime.source import as_table

if TYPE_CHECKING:
    from skyband.query.join import Join

_GRACE = 2.0  # seconds that a call may take beyond its deadline
_FIRST_PAUSE = 0.05  # seconds before a failed call is tried again; doubled each time


@dataclass
class Found:
    """What a round of look-ups brought."""

    replies: list[tuple[list[object], pa.Table]] = field(default_factory=list)  # ids with a reply, and its rows
    known: int = 0  # ids whose rows came, or are known not to be there
    made: int = 0  # look-ups that were sent, each once
    failed: int = 0
    late: int = 0
    error: str = ""  # the last one, also of a look-up that was never sent


class Lookup:
    """Asks a table for ids, in batches, several at once, until a deadline.

    A service that hangs keeps its threads and nothing else: they are counted against `parallel`, and the process can
    end without them. What comes back after the deadline is handed over in the next round (`overdue`).
    """

    def __init__(self, join: Join) -> None:
        self.join = join
        self.under_way = threading.Semaphore(join.calls.parallel)
        self.quiet = 0.0  # no call before: the service asked for it
        self.late: queue.SimpleQueue[tuple[Any, ...]] = queue.SimpleQueue()
        self.vain: set[object] = set()  # keys whose first look-up has failed

    def fetch(self, ids: Sequence[object], now: int, deadline: float) -> Found:
        """Look up `ids`; back by `deadline` (of time.monotonic) at the latest."""
        size = self.join.calls.batch
        batches = [list(ids[i : i + size]) for i in range(0, len(ids), size)]
        found = Found()
        if not batches:
            return found
        round_ = _Round(self, batches, now, deadline)
        if getattr(self.join.table, "local", False):  # nothing to wait for
            for batch in batches:
                round_.call(batch)
            waiting = len(batches)
        else:
            waiting = round_.begin()
        while waiting:
            left = deadline - time.monotonic()
            try:
                batch, rows, complete, error = round_.done.get(timeout=max(left, 0.0))
            except queue.Empty:
                break
            waiting -= 1
            self._add(found, batch, rows, complete, error)
        with round_.lock:
            round_.over = True
            found.made = round_.made
        while True:  # what came between the deadline and now is not late
            try:
                batch, rows, complete, error = round_.done.get_nowait()
            except queue.Empty:
                break
            waiting -= 1
            self._add(found, batch, rows, complete, error)
        found.late = max(found.made - found.known - found.failed, 0)
        return found

    def _add(self, found: Found, batch: list[object], rows: Any, complete: bool, error: str) -> None:
        found.error, known = error or found.error, batch
        if not complete:  # a part of it: only those whose rows came are known
            key = self.join.table.key
            there = rows is not None and key in rows.column_names
            came = {str(i) for i in rows[key].to_pylist()} if there else set()  # numbers may come as text
            known = [i for i in batch if str(i) in came]
        found.failed += len(batch) - len(known)
        found.known += len(known)
        if rows is not None:
            found.replies.append((known, rows))

    def overdue(self) -> list[tuple[int, list[object], Any]]:
        """What came after its deadline: when it was asked for, the ids and their rows."""
        late = []
        while True:
            try:
                late.append(self.late.get_nowait())
            except queue.Empty:
                return late


class _Round:
    """The calls of one evaluation."""

    def __init__(self, owner: Lookup, batches: list[list[object]], now: int, deadline: float) -> None:
        self.owner = owner
        self.now = now
        self.deadline = deadline
        self.todo: queue.SimpleQueue[list[object]] = queue.SimpleQueue()
        for batch in batches:
            self.todo.put(batch)
        self.batches = len(batches)
        self.done: queue.SimpleQueue[tuple[Any, ...]] = queue.SimpleQueue()
        self.lock = threading.Lock()
        self.over = False
        self.made = 0

    def begin(self) -> int:
        """Start as many workers as may run; how many batches to wait for."""
        started = 0
        for _ in range(min(self.batches, self.owner.join.calls.parallel)):
            if not self.owner.under_way.acquire(blocking=False):
                break
            threading.Thread(target=self._work, daemon=True, name="skyband-lookup").start()
            started += 1
        return self.batches if started else 0

    def _work(self) -> None:
        try:
            while not self.over:
                try:
                    batch = self.todo.get_nowait()
                except queue.Empty:
                    return
                self.call(batch)
        finally:
            self.owner.under_way.release()

    def call(self, batch: list[object]) -> None:
        """Ask for one batch, again where it fails."""
        join, pause, error, rows, complete, sent = self.owner.join, _FIRST_PAUSE, "", None, False, False
        for attempt in range(join.calls.retries + 1):
            wait = max(self.owner.quiet - time.monotonic(), pause if attempt else 0.0)
            if wait >= self.deadline - time.monotonic():
                error = error or "no time left before the deadline"
                break
            if wait > 0:
                time.sleep(wait)
            with self.lock:
                if self.over:
                    break
                self.made += 0 if sent else len(batch)
                sent = True
            try:
                # a little longer than anyone waits: what comes late serves the next evaluation
                timeout = max(self.deadline - time.monotonic(), 0.0) + _GRACE
                rows, complete = as_table(join.table.fetch(batch, list(join.columns), timeout)), True
                break
            except TableError as problem:
                error, rows = str(problem), problem.rows if isinstance(problem.rows, pa.Table) else rows
                if problem.retry_after is not None:
                    self.owner.quiet = time.monotonic() + problem.retry_after
            except Exception as problem:  # noqa: BLE001 - nothing that a service does may stop the stream
                error = redact(f"{type(problem).__name__}: {problem}")
            pause *= 2
        with self.lock:
            if not self.over:
                self.done.put((batch if sent else [], rows, complete, error))
            elif complete:
                self.owner.late.put((self.now, batch, rows))
