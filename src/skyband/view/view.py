"""sb.View: the k best rows of a table, kept current from a stream of changes."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from skyband.errors import QueryError, TableError
from skyband.flow.ids import id_numbers
from skyband.flow.payload import Payload
from skyband.flow.score import scores
from skyband.query.expression import Expression, parse
from skyband.tables.protocol import SCORE, VERSION
from skyband.view.changes import Batch, batch_of
from skyband.view.core import Core
from skyband.view.policy import Policy, Seen, policy

if TYPE_CHECKING:
    from skyband.tables.protocol import Base, Ranked

_log = logging.getLogger("skyband")
_MANY = 50  # rows that must have left before a word is said about it
_USUAL = 1e-7  # seconds of an update, before one was measured
_RETRY = 1.0  # seconds after a failed refill, where the table names none
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


@dataclass
class _Refill:
    """A question to the table that has not been answered yet, and the changes since it was asked."""

    answer: Future[tuple[pa.Table, float]]
    wanted: int
    kmax: int
    whole: bool  # the table was asked for its best rows, not for those below the view's
    since: list[Batch] = field(default_factory=list)


class View:
    """The `k` best rows of a table in a database, read at any time without asking it.

    The view keeps k' rows, k <= k' <= kmax, and is told every insert, update and delete by `apply`. Nearly all of them
    can be ignored. Only when k' would fall below k is the table asked, by one query, for the rows that come next.

    Parameters
    ----------
    table
        What the rows are in: `sb.tables.open_table(url, name, key=...)`, or anything with `ranked` and `since`.
    k
        How many rows a read gives.
    by
        What makes a row good: an SQL expression over the table's columns.
    kmax
        How many rows the view may keep: a number, "sqrt", "adaptive" (default), "model", or a policy.
    columns
        Further columns of the rows to keep.
    ascending
        Smaller scores are better.
    refill_at
        Ask the table in the background as soon as fewer than so many rows are left, so that nobody waits. Default:
        ask when fewer than k are left, and wait.
    ordered
        Changes of one row come in the order in which they were made. If they do not, give them `_version` and write
        `ordered=False`: the view then remembers the newest version of every row it hears of.

    Cost: O(1) a change that can be ignored, O(log kmax) others; O(k) a read; one query a refill. Memory: kmax rows.

    Examples
    --------
    >>> import numpy as np
    >>> import skyband as sb
    >>> stock = sb.tables.Columns(np.array([5.0, 9.0, 7.0, 1.0]))
    >>> view = sb.View(stock, k=2, by="value", kmax=2)
    >>> view.read().to_pydict()
    {'rank': [1, 2], 'score': [9.0, 7.0], 'id': [1, 2]}
    >>> stock.value[1] = 2.0
    >>> view.apply({"id": [1], "value": [2.0]})
    >>> view.read()["id"].to_pylist(), view.stats.bad, view.stats.refills
    ([2, 0], 1, 1)

    References
    ----------
    Yi et al., ICDE 2003: the algorithm in section 3, eager refills as proposed there, kmax as in sections 4 and 7.
    """

    def __init__(  # noqa: PLR0913 - the one wide door
        self,
        table: Base,
        k: int,
        by: str | Expression,
        *,
        kmax: int | str | Policy = "adaptive",
        columns: Sequence[str] = (),
        ascending: bool = False,
        refill_at: int | None = None,
        ordered: bool = True,
    ) -> None:
        self._open(table, k, by, kmax, tuple(columns), ascending=ascending, refill_at=refill_at, ordered=ordered)
        self.version = table.position()
        self._rows = max(self._ranked.count(), 1)
        self.kmax = self.policy.start(k, self._rows)
        self._core = Core(self.kmax, versions=not ordered)
        self._fill()

    def _open(  # noqa: PLR0913 - as above
        self,
        table: Base,
        k: int,
        by: str | Expression,
        kmax: int | str | Policy,
        columns: tuple[str, ...],
        *,
        ascending: bool,
        refill_at: int | None,
        ordered: bool,
    ) -> None:
        """All but the rows."""
        if isinstance(k, bool) or not isinstance(k, int) or k < 1:
            msg = f"k={k!r} is no number of rows: write a whole number of at least 1"
            raise QueryError(msg)
        if refill_at is not None and refill_at < k:
            msg = f"refill_at={refill_at} is less than k={k}: write at least k, so that the rows come before they lack"
            raise QueryError(msg)
        self.table, self.k = table, k
        self.by = parse(by) if isinstance(by, str) else by
        self.policy = policy(kmax, k)
        self.columns, self.ascending, self.refill_at, self.ordered = columns, ascending, refill_at, ordered
        self._ranked: Ranked = table.ranked(self.by, columns, ascending=ascending)
        self.version = -1
        """All changes up to this one have been applied, where they have versions."""
        self.stats = ViewStats()
        self._payload = Payload()
        self._key_type: pa.DataType | None = None
        self._lock = threading.RLock()
        self._asked: _Refill | None = None
        self._executor: ThreadPoolExecutor | None = None
        self._warned = False
        self._again = 0.0  # when the table may be asked again
        self._update_cost, self._refill_cost = _USUAL, 0.0
        self._since = Seen(k, 0, 0, 0, 0, 0, 0, 0, 0, 0.0, 0.0)
        self._shown: tuple[pa.Table, np.ndarray, np.ndarray, np.ndarray] | None = None

    # ------------------------------------------------------------ reading

    @property
    def size(self) -> int:
        """k', how many rows are kept now."""
        return self._core.size

    @property
    def complete(self) -> bool:
        """Whether a read gives all of the k best rows; not so after a failed refill, and while one is under way."""
        return self._core.size >= self.k or self._core.bound is None

    def top(self, k: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """The keys (as numbers: integers as they are, others by their hash) and scores of the k best. O(k)."""
        with self._lock:
            if self._asked is not None:
                self._absorb()
            ids, score, _ = self._core.top(self.k if k is None else min(k, self.k))
        return ids, -score if self.ascending else score

    def read(self) -> pa.Table:
        """The k best rows: rank, score, key and the other columns. O(k); no query."""
        with self._lock:
            if self._asked is not None:
                self._absorb()
            ids, score, row = self._core.top(self.k)
            shown = self._shown
            if shown is not None and all(map(np.array_equal, shown[1:], (ids, score, row))):
                return shown[0]
            table = self._table(ids, score, row)
            self._shown = (table, ids, score, row)
            return table

    def _table(self, ids: np.ndarray, score: np.ndarray, row: np.ndarray) -> pa.Table:
        columns: dict[str, Any] = {
            "rank": pa.array(np.arange(1, len(ids) + 1, dtype=np.int32)),
            SCORE: pa.array(-score if self.ascending else score),
        }
        kept = self._payload.take(row) if self._kept and len(row) else None
        if not self._hashed:
            columns[self.table.key] = pa.array(ids) if self._key_type is None else pa.array(ids).cast(self._key_type)
        for name in self._kept:
            columns[name] = kept.column(name) if kept is not None else pa.array([])
        return pa.table(columns)

    @property
    def _hashed(self) -> bool:
        return self._key_type is not None and not pa.types.is_integer(self._key_type)

    @property
    def _kept(self) -> list[str]:
        return [*([self.table.key] if self._hashed else []), *self.columns]

    # ------------------------------------------------------------ changing

    def apply(self, changes: Any) -> None:
        """Take changes: the key and the columns of `by` as they are now; "delete" as `_change_type` for what is gone.

        With a column `_version` only changes newer than what is known of their row count.
        """
        batch = batch_of(changes, self.table.key)
        if not batch.size:
            return
        with self._lock:
            self._learn_key(batch.rows)
            score = scores(self.by, batch.rows)
            score = -score if self.ascending else score
            if batch.gone is not None:
                score = np.where(batch.gone, np.nan, score)
            ids = id_numbers(batch.rows.column(self.table.key), self.table.key)
            self._take(batch._replace(ids=ids, score=score))

    def follow(self, source: Iterable[Any]) -> None:
        """Apply every batch of an iterator."""
        for changes in source:
            self.apply(changes)

    def catch_up(self) -> int:
        """Apply what the table says has changed since `version`; the version that it has come to."""
        changes = self.table.since(self.version)
        if changes.rows.num_rows:
            self.apply(changes.rows)
        self.version = max(self.version, changes.upto)
        return self.version

    def _learn_key(self, rows: pa.Table) -> None:
        kind = rows.schema.field(self.table.key).type
        if self._key_type is None:
            self._key_type = kind.value_type if pa.types.is_dictionary(kind) else kind

    def _take(self, batch: Batch) -> None:
        """Run changes through the core, with a refill wherever one is due."""
        if self._asked is not None:
            self._absorb()
        size, at = batch.size, 0
        base = self._payload.next
        while at < size:
            if self._asked is not None:
                self._asked.since.append(batch.after(at))
            began = time.thread_time()  # of this thread: others that run must not make updates look dear
            before = at
            at = self._core.apply(batch.ids, batch.score, batch.version, first=at, stop=self._stop(), base=base)
            self._account(at - before, time.thread_time() - began)
            if self._due():
                self._keep(batch.rows, base)
                self._refill()
                base = self._payload.next
            elif at < size:
                raise AssertionError("a view stopped that needs nothing")
        self._keep(batch.rows, base)
        self.stats.updates += size
        if batch.version is not None and size:
            self.version = max(self.version, int(batch.version.max()))
        self._relax()

    def _stop(self) -> int:
        """Below how many rows the table is to be asked; 0 while it cannot be."""
        if self._asked is not None or time.monotonic() < self._again:
            return 0
        return self.k if self.refill_at is None else min(self.refill_at, self.kmax)

    def _due(self) -> bool:
        return self._core.bound is not None and self._core.size < self._stop()

    def _account(self, updates: int, seconds: float) -> None:
        """Count what the core did, and learn what an update costs."""
        if updates <= 0:
            return
        cost = seconds / updates
        self._update_cost = cost if self._update_cost == _USUAL else _OLD * self._update_cost + (1 - _OLD) * cost
        self.stats.update_seconds += seconds
        counts = self._core.counts
        was = self.stats
        good, bad = counts.good - was.good, counts.bad - was.bad
        was.ignorable, was.neutral, was.good, was.bad, was.stale = counts
        since = self._since
        self._since = since._replace(
            updates=since.updates + updates,
            good=since.good + good,
            bad=since.bad + bad,
            least=min(since.least, self._core.take_least()),
        )

    def _keep(self, rows: pa.Table, base: int) -> None:
        """Keep the other columns of the rows that came in; now and then drop those that have left."""
        if not self._kept:
            return
        _, _, row = self._core.top(self._core.size)
        used = np.unique(row[row >= base])
        if len(used):
            slots = self._payload.add(rows.select(self._kept).take(pa.array(used - base)))
            number = np.zeros(rows.num_rows, np.int64)
            number[used - base] = slots
            self._core.renumber(number, base)
        if len(self._payload) > 4 * self.kmax + 1024:
            self._payload.keep(self._core.top(self._core.size)[2])

    # ------------------------------------------------------------ refilling

    def _seen(self) -> Seen:
        return self._since._replace(
            k=self.k,
            kmax=self.kmax,
            rows=self._rows,
            size=self._core.size,
            drawdown=self._core.drawdown(),
            refill_cost=self._refill_cost,
            update_cost=self._update_cost,
        )

    def _relax(self) -> None:
        """Let the policy take rows away after a long time without a refill."""
        kmax, updates = self.policy.rested(self._seen())
        if kmax != self.kmax:
            self._core.resize(kmax)
            self._since = self._since._replace(least=max(self.k, self._since.least - (self.kmax - kmax)))
            self.kmax = kmax
        self._since = self._since._replace(updates=int(updates))

    def _fill(self) -> None:
        """The first rows; the table is not asked again before it was asked once."""
        rows, seconds = self._ask(self.kmax, None)
        self._refill_cost = seconds
        self._since = self._since._replace(least=self.kmax, kmax=self.kmax)
        self._settle(rows, self.kmax)

    def _ask(self, n: int, below: tuple[float, object] | None) -> tuple[pa.Table, float]:
        began = time.perf_counter()
        rows = self._ranked.top(n, below)
        return rows, time.perf_counter() - began

    def _below(self) -> tuple[float, object] | None:
        """From where on rows are missing, as the table reads it."""
        bound = self._core.bound
        if bound is None:
            return None
        if not self._hashed:
            return bound
        return bound[0], None  # texts: whole runs of equal scores, since hashes order them here and not there

    def _refill(self) -> None:
        """Ask the table for the rows that come next: now, or in the background."""
        self._warn()
        kmax = max(self.policy.refilled(self._seen()), self.k)
        wanted, below = max(kmax - self._core.size, 1), self._below()
        if self.refill_at is not None:
            if self._executor is None:
                self._executor = ThreadPoolExecutor(1, thread_name_prefix="skyband-view")
            self._asked = _Refill(self._executor.submit(self._ask, wanted, below), wanted, kmax, below is None)
            return
        try:
            rows, seconds = self._ask(wanted, below)
        except TableError as error:
            self._failed(error)
            return
        self._refilled(rows, seconds, wanted, kmax)

    def _warn(self) -> None:
        """Say once that rows leave faster than they enter: then no small view serves long (section 4.5)."""
        since = self._since
        if not self._warned and since.bad > _MANY and since.bad > 2 * since.good:
            self._warned = True
            _log.warning(
                "more rows leave this view than enter it (%d against %d in %d changes), so it must be refilled often, "
                "whatever its size: rank by something that lasts longer, or ask the table itself",
                since.bad,
                since.good,
                since.updates,
            )

    def _failed(self, error: TableError) -> None:
        self.stats.failed_refills += 1
        self._again = time.monotonic() + (_RETRY if error.retry_after is None else error.retry_after)

    def _refilled(self, rows: pa.Table, seconds: float, wanted: int, kmax: int) -> None:
        self.stats.refills += 1
        self.stats.refilled_rows += rows.num_rows
        self.stats.refill_seconds += seconds
        self._refill_cost = seconds
        if kmax != self.kmax:
            self._core.resize(max(kmax, self._core.size))
            self.kmax = kmax
        self._settle(rows, wanted)
        self._core.drawdown(reset=True)
        self._since = self._since._replace(updates=0, good=0, bad=0, least=self._core.size)

    def _settle(self, rows: pa.Table, wanted: int) -> None:
        """Add rows that the table gave; all that rank at or before the last of them is then known."""
        self._learn_key(rows)
        ids = id_numbers(rows.column(self.table.key), self.table.key)
        score = rows.column(SCORE).to_numpy()
        if rows.num_rows < wanted:
            self._core.bound = None
        elif self._hashed:
            self._core.bound = (float(score[-1]), -(1 << 63))
        else:
            self._core.bound = (float(score[-1]), int(ids[-1]))
        if self._core.size + len(ids) > self._core.kmax:
            self._core.resize(self._core.size + len(ids))  # a run of equal scores came whole
        base = self._payload.next
        version = rows.column(VERSION).to_numpy() if VERSION in rows.column_names and not self.ordered else None
        counts = self._core.marks.copy()
        self._core.apply(ids, score, version, fresh=True, base=base)
        self._core.marks[2:7] = counts[2:7]  # a refill is no update
        self._core.take_least()
        self._keep(rows, base)

    def _absorb(self) -> None:
        """If the table has answered: add its rows, then apply again what has changed since it was asked."""
        asked = self._asked
        if asked is None or not asked.answer.done():
            return
        self._asked = None
        try:
            rows, seconds = asked.answer.result()
        except TableError as error:
            self._failed(error)
            return
        self._refilled(rows, seconds, asked.wanted, asked.kmax)
        counts = self._core.marks.copy()
        for batch in asked.since:  # idempotent: what the view has already is set to what it is
            base = self._payload.next
            self._core.apply(batch.ids, batch.score, batch.version, again=True, base=base)
            self._keep(batch.rows, base)
        self._core.marks[2:7] = counts[2:7]
        if self._due():
            self._refill()

    def settle(self, timeout: float | None = None) -> bool:
        """Wait for the refill that is under way, if there is one; whether the view is complete."""
        while (asked := self._asked) is not None:
            try:
                asked.answer.result(timeout)
            except (TableError, TimeoutError):
                break
            finally:
                with self._lock:
                    self._absorb()
        return self.complete

    def refill(self) -> bool:
        """Ask the table now, if rows are missing, whatever happened before; whether the view is complete."""
        with self._lock:
            self._again = 0.0
            if self._asked is None and self._core.bound is not None and self._core.size < max(self._stop(), self.k):
                self._refill()
        return self.settle()

    # ------------------------------------------------------------ saving

    def save(self) -> dict[str, np.ndarray | pa.Table]:
        """All that the view needs to go on elsewhere, as named arrays and tables."""
        with self._lock:
            if self._asked is not None:
                self.settle()
            saved: dict[str, np.ndarray | pa.Table] = dict(self._core.snapshot())
            _, _, row = self._core.top(self._core.size)
            saved["view"] = np.array([self.k, self.kmax, self.version, self._rows, self.ascending], np.int64)
            saved["what"] = pa.table({"by": [self.by.text], "key": [self.table.key], "columns": [list(self.columns)]})
            if self._kept and len(row):
                saved["rows"] = cast("pa.Table", self._payload.take(row))
            elif self._key_type is not None:
                saved["rows"] = pa.table({self.table.key: pa.array([], self._key_type)})
            return saved

    @classmethod
    def restore(cls, table: Base, saved: Mapping[str, np.ndarray | pa.Table], **options: Any) -> View:
        """A view from what was saved, brought up to date from the table's change log; built again where there is none.

        `options` are those of the view, such as `kmax` and `refill_at`.
        """
        from skyband.view.restore import restored

        return restored(cls, table, saved, options)

    def resume(self, table: Base, k: int, by: str, core: Core, options: Mapping[str, Any]) -> None:
        """Stand on `core` instead of asking the table."""
        given = dict(options)
        self._open(table, k, by, given.pop("kmax"), given.pop("columns"), **given)
        self._core = core
        self._since = self._since._replace(least=core.size)

    def resume_rows(self, kept: pa.Table | None, rows: int) -> None:
        """The other columns of the rows, best first."""
        self._rows = rows
        if kept is None:
            return
        self._learn_key(kept) if self.table.key in kept.column_names else None
        if kept.num_rows:
            base = self._payload.next
            self._payload.add(kept)
            self._core.number(base)
