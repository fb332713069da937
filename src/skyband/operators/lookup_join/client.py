"""Calls of the service that has the remote rows: in parallel, with retries, and never beyond the deadline."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import pyarrow as pa

from skyband.errors import TableError
from skyband.redaction import redact
from skyband.runtime.source import as_table

if TYPE_CHECKING:
    from skyband.query import Join

T = TypeVar("T")
_GRACE = 2.0  # seconds that a call may take beyond its deadline
_FIRST_PAUSE = 0.05  # seconds before a failed call is tried again; doubled each time

_CLIENTS: dict[str, LookupClient] = {}  # of this process: connections and late replies outlast a batch on Spark
_MAX_CLIENTS = 64


class Reply(NamedTuple):
    """What came back for one call."""

    ids: list[object]  # asked for; none if the call was never sent
    rows: pa.Table | None
    complete: bool  # whether ids without a row are known to be absent
    error: str = ""


class LateReply(NamedTuple):
    """What came back after its deadline."""

    asked: int  # the moment for which it was asked
    ids: list[object]
    rows: pa.Table


@dataclass
class LookupReplies:
    """What the look-ups of one evaluation brought."""

    replies: list[tuple[list[object], pa.Table]] = field(default_factory=list)  # ids with a reply, and its rows
    known: int = 0  # ids whose rows came, or that are known to be absent
    made: int = 0  # look-ups that were sent, each counted once
    failed: int = 0
    missed_deadline: int = 0
    error: str = ""  # the last one, also of a look-up that was never sent


class LookupClient:
    """Asks a table for ids, in batches, several at once, until a deadline.

    A service that hangs keeps its threads and nothing else: they count against `parallel`, and the process can end
    without them. A reply after the deadline serves the next evaluation (`late_replies`).
    """

    def __init__(self, join: Join) -> None:
        self.table, self.calls, self.columns = join.table, join.calls, list(join.columns)
        self.free_calls = threading.Semaphore(join.calls.parallel)
        self.blocked_until = 0.0  # of time.monotonic: the service asked for a pause
        self.late: queue.SimpleQueue[LateReply] = queue.SimpleQueue()
        self.failed_keys: set[object] = set()  # keys whose first look-up has failed

    @classmethod
    def of(cls, join: Join, token: str | None) -> LookupClient:
        """Return the client of a token in this process, or a new one."""
        if token is None:
            return cls(join)
        found = _CLIENTS.setdefault(token, cls(join))
        while len(_CLIENTS) > _MAX_CLIENTS:
            del _CLIENTS[next(iter(_CLIENTS))]
        return found

    def fetch(self, ids: Sequence[object], now: int, deadline: float) -> LookupReplies:
        """Look up `ids`; return by `deadline` (of time.monotonic) at the latest."""
        size = self.calls.batch
        batches = [list(ids[i : i + size]) for i in range(0, len(ids), size)]
        found = LookupReplies()
        if not batches:
            return found
        calls = _Calls(self, batches, now, deadline)
        if getattr(self.table, "local", False):  # nothing to wait for
            for batch in batches:
                calls.call(batch)
            waiting = len(batches)
        else:
            waiting = calls.start()
        while waiting:
            try:
                reply = calls.done.get(timeout=max(deadline - time.monotonic(), 0.0))
            except queue.Empty:
                break
            waiting -= 1
            self._add(found, reply)
        with calls.lock:
            calls.over = True
            found.made = calls.made
        for reply in _drain(calls.done):  # came between the deadline and now
            self._add(found, reply)
        found.missed_deadline = max(found.made - found.known - found.failed, 0)
        return found

    def _add(self, found: LookupReplies, reply: Reply) -> None:
        found.error, known, rows = reply.error or found.error, reply.ids, reply.rows
        if not reply.complete:  # only ids whose rows came are known
            key, came = self.table.key, set()
            if rows is not None and key in rows.column_names:
                came = {str(i) for i in rows[key].to_pylist()}  # numbers may come as text
            known = [i for i in reply.ids if str(i) in came]
        found.failed += len(reply.ids) - len(known)
        found.known += len(known)
        if rows is not None:
            found.replies.append((known, rows))

    def late_replies(self) -> list[LateReply]:
        """Take what came after its deadline."""
        return _drain(self.late)


class _Calls:
    """The calls of one evaluation."""

    def __init__(self, client: LookupClient, batches: list[list[object]], now: int, deadline: float) -> None:
        self._client, self._now, self._deadline = client, now, deadline
        self._todo: queue.SimpleQueue[list[object]] = queue.SimpleQueue()
        for batch in batches:
            self._todo.put(batch)
        self._batches = len(batches)
        self.done: queue.SimpleQueue[Reply] = queue.SimpleQueue()
        self.lock = threading.Lock()
        self.over = False
        self.made = 0

    def start(self) -> int:
        """Start as many workers as may run; return how many replies to wait for."""
        started = 0
        for _ in range(min(self._batches, self._client.calls.parallel)):
            if not self._client.free_calls.acquire(blocking=False):
                break
            threading.Thread(target=self._work, daemon=True, name="skyband-lookup").start()
            started += 1
        return self._batches if started else 0

    def _work(self) -> None:
        try:
            while not self.over:
                try:
                    batch = self._todo.get_nowait()
                except queue.Empty:
                    return
                self.call(batch)
        finally:
            self._client.free_calls.release()

    def call(self, batch: list[object]) -> None:
        """Ask for one batch, again if it fails."""
        client, pause, error, rows, complete, sent = self._client, _FIRST_PAUSE, "", None, False, False
        for attempt in range(client.calls.retries + 1):
            wait = max(client.blocked_until - time.monotonic(), pause if attempt else 0.0)
            if wait >= self._deadline - time.monotonic():
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
                # a little longer than anyone waits: a late reply serves the next evaluation
                timeout = max(self._deadline - time.monotonic(), 0.0) + _GRACE
                rows, complete = as_table(client.table.fetch(batch, client.columns, timeout)), True
                break
            except TableError as problem:
                error, rows = str(problem), problem.rows if isinstance(problem.rows, pa.Table) else rows
                if problem.retry_after is not None:
                    client.blocked_until = time.monotonic() + problem.retry_after
            except Exception as problem:  # noqa: BLE001 - nothing that a service does may stop the stream
                error = redact(f"{type(problem).__name__}: {problem}")
            pause *= 2
        with self.lock:
            if not self.over:
                self.done.put(Reply(batch if sent else [], rows, complete, error))
            elif complete and rows is not None:
                client.late.put(LateReply(self._now, batch, rows))


def _drain(items: queue.SimpleQueue[T]) -> list[T]:
    found = []
    while True:
        try:
            found.append(items.get_nowait())
        except queue.Empty:
            return found
