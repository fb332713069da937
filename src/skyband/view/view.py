"""sb.View: the k best rows of a table, kept current from a stream of changes."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from skyband.errors import QueryError, SchemaError, TableError
from skyband.kernels._jit import tier
from skyband.runtime.score import scores
from skyband.tables.protocol import VERSION, NotPushedDownError
from skyband.view import fields
from skyband.view.changes import Batch, batch_of, keys_of
from skyband.view.core import Core
from skyband.view.filling import Filling
from skyband.view.kept import NOTHING, Kept
from skyband.view.policy import Fixed, Policy, policy
from skyband.view.scan import scan
from skyband.view.stats import ViewStats
from skyband.view.told import changed

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.query.expression import Expression
    from skyband.tables.protocol import BaseTable, RankedTable


_PIECE = 1 << 20  # changes after which the policy looks again, however long the batch


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    return len(one) == len(other) and bool((one == other).all())


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
        Changes of one row come in the order in which they were made, and the table is asked where it is at least as new
        as they are. If not, give them `_version` and write `ordered=False`: the view then remembers the newest version
        of every row it hears of, and what it said, until `forget` lets go of it.

    Notes
    -----
    Cost: O(1) a change that can be ignored, O(log kmax) others; O(k) a read; one query a refill. Memory: kmax rows.

    Examples
    --------
    >>> import numpy as np
    >>> import skyband as sb
    >>> stock = sb.tables.ArrayTable(np.array([5.0, 9.0, 7.0, 1.0]))
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
        table: BaseTable,
        k: int,
        by: str | Expression,
        *,
        kmax: int | str | Policy = "adaptive",
        columns: Sequence[str] = (),
        ascending: bool = False,
        refill_at: int | None = None,
        ordered: bool = True,
    ) -> None:
        self._open(table, k, by, columns, ascending=ascending, ordered=ordered)
        self.version = table.position()
        self._begin(self._nothing(), kmax, refill_at)
        if not self._filling.ask(self._ranked.count):  # what went wrong is told at once
            raise self._filling.trouble
        self._filling.meter.stats = ViewStats()

    def _open(
        self, table: BaseTable, k: int, by: str | Expression, columns: Sequence[str], *, ascending: bool, ordered: bool
    ) -> None:
        """All but the rows."""
        self.table, self.k, self.by = fields.base(table), fields.whole_number("k", k), fields.scored(by)
        self.columns = fields.other_columns(columns, table.key)
        self.ascending, self.ordered = fields.truth("ascending", ascending), fields.truth("ordered", ordered)
        self._ranked: RankedTable = table.ranked(self.by, self.columns, ascending=self.ascending)
        self.version = -1
        """The version of the table's change log up to which all changes have been applied; -1 without a log."""
        self._lock = threading.RLock()
        self._shown: tuple[pa.Table, np.ndarray, np.ndarray, np.ndarray] | None = None
        self._shown_at: tuple[Core | None, int] = (None, 0)  # of whom, and at which turn
        self._looked = False  # since the last changes, somebody has asked for the best
        self._asked = False  # since the last changes, somebody has read
        self._told: pa.Table | None = None

    def _begin(self, kept: Kept, kmax: int | str | Policy, refill_at: int | None) -> None:
        """Stand on what is kept."""
        chosen = policy(kmax, self.k)
        if refill_at is not None:
            refill_at = fields.whole_number("refill_at", refill_at, self.k)
            if isinstance(chosen, Fixed) and refill_at > chosen.kmax:
                msg = (
                    f"refill_at={refill_at} is more than kmax={chosen.kmax}, so rows would always be asked for: "
                    f"write at most kmax"
                )
                raise QueryError(msg)
        self._kept, self._core = kept, kept.core
        self._filling = Filling(kept, self.k, chosen, refill_at, self._ask)

    def _nothing(self, types: pa.Schema | None = None) -> Kept:
        """No row, and that none is known."""
        core = Core(self.k, versions=not self.ordered)
        core.bound = NOTHING
        return Kept(core, self.table.key, self.columns, types)

    # ------------------------------------------------------------ reading

    @property
    def stats(self) -> ViewStats:
        """What the view has seen and done."""
        return self._filling.meter.stats

    @property
    def kmax(self) -> int:
        """How many rows may be kept now."""
        return self._filling.kmax

    @property
    def size(self) -> int:
        """k', how many rows are kept now."""
        return self._core.size

    @property
    def complete(self) -> bool:
        """Whether a read gives all of the k best rows; not so after a failed refill, and while one is under way."""
        return self._filling.complete

    @property
    def trouble(self) -> TableError | None:
        """Why rows are missing; None while the view is complete."""
        return None if self.complete else self._filling.trouble

    def top(self, k: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """The keys (as numbers: integers as they are, others by their hash) and scores of the k best. O(k)."""
        with self._lock:
            self._absorb()
            self._looked = True
            ids, score, _ = self._core.top(self.k if k is None else min(max(k, 0), self.k))
        return ids, -score if self.ascending else score

    def read(self) -> pa.Table:
        """The k best rows: rank, score, key and the other columns. O(k); no query."""
        with self._lock:
            self._absorb()
            self._asked = True
            return self._list()

    def _list(self) -> pa.Table:
        core, shown = self._core, self._shown
        whose, turn = self._shown_at
        if shown is not None and whose is core and turn == core.turn:
            return shown[0]
        self._shown_at = core, core.turn
        ids, score, row = core.top(self.k)
        if shown is not None and all(map(_same, shown[1:], (ids, score, row))):
            return shown[0]
        table = self._kept.table(ids, -score if self.ascending else score, row)
        self._shown = (table, ids, score, row)
        return table

    def changes(self, *, ranks: bool = False) -> pa.Table:
        """What has changed in the list since this was last asked: `_change_type`, then the columns of `read`.

        The first time, all rows are inserts. A row whose score changed is a pair of `update_preimage` and
        `update_postimage`; with `ranks` so is one that only moved.
        """
        with self._lock:
            now = self.read()
            before, self._told = self._told, now
            return changed(before, now, self.table.key, ranks=ranks)

    def told(self, before: pa.Table) -> None:
        """What `changes` is to start from: a list that was read before."""
        self._told = before

    # ------------------------------------------------------------ changing

    def apply(self, changes: Any) -> None:
        """Take changes: the key and the columns of `by` as they are now; "delete" as `_change_type` for what is gone.

        With a column `_version` and `ordered=False` only changes newer than what is known of their row count.
        """
        batch = batch_of(changes, self.table.key)
        if not batch.size:
            return
        batch = self._kept.whole(batch, self.by)
        score = scores(self.by, batch.rows)
        self.take(batch, -score if self.ascending else score)

    def take(self, batch: Batch, score: np.ndarray) -> None:
        """Take changes whose scores (larger is better) are known."""
        if not self.ordered and batch.version is None:
            msg = "a batch of changes lacks the column '_version', by which ordered=False tells which is newer: add it"
            raise SchemaError(msg)
        score = score if batch.gone is None else np.where(batch.gone, np.nan, score)
        tier.saw(len(score))
        with self._lock:
            rows = self._kept.typed(batch.rows)
            ids = keys_of(rows.column(self.table.key), self.table.key)
            self._take(batch._replace(rows=rows, ids=ids, score=score))

    def follow(self, source: Iterable[Any]) -> None:
        """Apply every batch of an iterator. With `sb.tables.follow` of its table the view catches up first."""
        own = getattr(source, "table", None) is self.table
        if own:
            self.catch_up()  # what has changed since the view was made, and before the source began
        for changes in source:
            self.apply(changes)
            if own:
                self.version = max(self.version, changes[VERSION][-1].as_py())

    def catch_up(self) -> int:
        """Apply what the table says has changed since `version`; the version that it has come to."""
        changes = self.table.since(self.version)
        if changes.rows.num_rows:
            self.apply(changes.rows)
        self.version = max(self.version, changes.upto)
        return self.version

    def forget(self, version: int) -> None:
        """With `ordered=False`: the table has all changes up to this one, and none of them will come again."""
        with self._lock:
            self._core.forget(version)

    def _take(self, batch: Batch) -> None:
        """Run changes through the core, with a refill wherever one is due."""
        self._absorb()
        size, at, filling = batch.size, 0, self._filling
        noted = None
        while at < size:
            pending = filling.asker.pending
            if pending is not noted and pending is not None and self.ordered:
                pending.since.append(batch.after(at) if at else batch)
                noted = pending
            began = time.thread_time()  # of this thread: others that run must not make updates look dear
            before = at
            at = self._kept.take(batch, at, min(at + _PIECE, size), filling.stop())
            filling.meter.account(self._core, at - before, time.thread_time() - began)
            if filling.due():
                self._kept.keep(batch.rows)
                filling.ask(self._ranked.count)
            filling.relax()
        self._kept.keep(batch.rows)
        self.stats.updates += size
        if self._asked:  # who reads will read again, and had better find the list made
            self._list()
        elif self._looked:
            self._core.order()
        self._asked = self._looked = False

    # ------------------------------------------------------------ refilling

    def _ask(self, n: int, below: tuple[float, object] | None) -> tuple[pa.Table, float]:
        began = time.perf_counter()
        try:
            rows = self._ranked.top(n, below)
        except NotPushedDownError as error:
            rows = scan(error.table, self.by, n, below, ascending=self.ascending)
        return rows, time.perf_counter() - began

    def _absorb(self) -> None:
        if self._filling.asker.pending is not None:
            self._filling.absorb(self._ranked.count)

    def settle(self, timeout: float | None = None) -> bool:
        """Wait for the refill that is under way, if there is one; whether the view is complete."""
        while (pending := self._filling.asker.pending) is not None:
            try:
                pending.answer.result(timeout)
            except (TableError, TimeoutError):
                break
            finally:
                with self._lock:
                    self._absorb()
        return self.complete

    def refill(self) -> bool:
        """Ask the table now, if rows are missing, whatever happened before; whether the view is complete."""
        filling = self._filling
        with self._lock:
            filling.asker.hurry()
            if filling.due():
                filling.ask(self._ranked.count)
        return self.settle()

    # ------------------------------------------------------------ saving

    def save(self, path: str | Path | None = None) -> dict[str, np.ndarray | pa.Table]:
        """All that the view needs to go on elsewhere, as named arrays and tables; with `path`, in that file too."""
        from skyband.view.restore import saved
        from skyband.view.stored import store

        with self._lock:
            self.settle()
            found = saved(self, self._kept, self._filling)
        if path is not None:
            store(found, Path(path))
        return found

    @classmethod
    def restore(cls, table: BaseTable, saved: Mapping[str, np.ndarray | pa.Table] | str | Path, **options: Any) -> Self:
        """A view from what was saved, brought up to date from the table's change log; built again where there is none.

        `saved` is what `save` returned, or its file. `options` are `kmax`, `refill_at` and `ordered` of the view; the
        first two are as they were, unless given (a policy of your own must be given again).
        """
        from skyband.view.restore import restored
        from skyband.view.stored import stored

        return restored(cls, table, stored(Path(saved)) if isinstance(saved, str | Path) else saved, options)

    @classmethod
    def resume(  # noqa: PLR0913 - as the door
        cls,
        table: BaseTable,
        k: int,
        by: str | Expression,
        kept: Kept | None = None,
        *,
        kmax: int | str | Policy = "adaptive",
        columns: Sequence[str] = (),
        ascending: bool = False,
        refill_at: int | None = None,
        ordered: bool = True,
        types: pa.Schema | None = None,
    ) -> Self:
        """A view on `kept` rows; without them, one that knows nothing until the table answers, at the first changes."""
        self = cls.__new__(cls)
        self._open(table, k, by, columns, ascending=ascending, ordered=ordered)
        self._begin(self._nothing(types) if kept is None else kept, kmax, refill_at)
        return self

    def go_on(self, version: int, kmax: int, measured: np.ndarray, swings: np.ndarray | None) -> None:
        """With what was known of the past."""
        self.version, self._filling.kmax = version, kmax
        meter = self._filling.meter
        meter.load(measured, self._core)
        if swings is None:
            meter.begin(self._core.size)  # how far it fell in the updates before is not known
        else:
            meter.load_swings(swings, kmax)
