"""sb.View: the k best rows of a table, kept current from a stream of changes."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from skyband.errors import ClosedError, TableError
from skyband.tables.protocol import VERSION
from skyband.view.changes import diff_lists, read_changes
from skyband.view.refill import RefillController, RefillWorker
from skyband.view.rows import ViewRows
from skyband.view.snapshot import read_snapshot, restore_view, snapshot_view, write_snapshot
from skyband.view.spec import ViewSpec, check_table

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from skyband.query.expression import Expression
    from skyband.tables.protocol import BaseTable
    from skyband.view.policy import KmaxName, KmaxPolicy
    from skyband.view.stats import ViewStats


class View:
    """The `k` best rows of a database table, read at any time without a query.

    The view keeps k' rows, k <= k' <= kmax. Pass every insert, update and delete of the table to `apply`; nearly all of
    them concern no row of the view. The table is queried only if fewer than k rows would be left: one query fetches the
    rows that come next (a refill). All methods may be called from several threads.

    Parameters
    ----------
    table
        The table: `sb.tables.open_table(url, name, key=...)`, or any object with `ranked`, `position` and `since`.
    k
        Number of rows that a read returns.
    by
        The score: an SQL expression over the columns of the table.
    kmax
        Number of rows that the view may keep: an integer, "sqrt", "adaptive" (default), "model", or a policy of
        `skyband.view.policy`.
    columns
        Columns of the rows to keep, besides the key.
    ascending
        Smaller scores are better.
    refill_at
        Refill in the background as soon as fewer than this number of rows are left, so that nobody waits. By default
        the view is refilled when fewer than k are left, and `apply` waits for it.
    ordered
        The changes of a row come in the order in which they were made, and the table is at least as new as they are.
        Otherwise write `ordered=False` and give changes a `_version`: the view then remembers the newest version of
        every row that a change was about, until `forget` drops it.

    Notes
    -----
    Cost: O(1) a change that can be ignored, O(log kmax) others; O(k) a read; one query a refill. Memory: kmax rows.

    Examples
    --------
    >>> import numpy as np
    >>> import skyband as sb
    >>> stock = sb.tables.ArrayTable(np.array([5.0, 9.0, 7.0, 1.0]))
    >>> with sb.View(stock, k=2, by="value", kmax=2) as view:
    ...     view.read().to_pydict()
    ...     stock.value[1] = 2.0
    ...     view.apply({"id": [1], "value": [2.0]})
    ...     view.read()["id"].to_pylist(), view.stats.bad, view.stats.refills
    {'rank': [1, 2], 'score': [9.0, 7.0], 'id': [1, 2]}
    ([2, 0], 1, 1)

    References
    ----------
    Yi et al., ICDE 2003: the algorithm of section 3, with the eager refills proposed there; kmax by sections 4 and 7.
    """

    _worker_type = RefillWorker

    def __init__(  # noqa: PLR0913 - the public parameters
        self,
        table: BaseTable,
        k: int,
        by: str | Expression,
        *,
        kmax: int | KmaxName | KmaxPolicy = "adaptive",
        columns: Sequence[str] = (),
        ascending: bool = False,
        refill_at: int | None = None,
        ordered: bool = True,
    ) -> None:
        options: dict[str, Any] = {"k": k, "by": by, "kmax": kmax, "columns": columns, "ascending": ascending}
        table = check_table(table)
        spec = ViewSpec(table.key, refill_at=refill_at, ordered=ordered, **options)
        self._attach(table, *self._fill(table, spec))

    @classmethod
    def _fill(cls, table: BaseTable, spec: ViewSpec) -> tuple[RefillController, int]:
        """Fetch the first rows; they are at least as new as the position in the change log."""
        refills = RefillController(ViewRows(spec), cls._worker_type(table, spec))
        version = table.position()
        refills.fill()
        return refills, version

    def _attach(self, table: BaseTable, refills: RefillController, version: int) -> None:
        spec = refills.spec
        self.table, self.k, self.by, self.columns = table, spec.k, spec.by, spec.columns
        self.ascending, self.ordered = spec.ascending, spec.ordered
        self.version = version
        """Position in the table's change log: all changes up to it have been applied. -1 without a log."""
        self._refills, self._rows = refills, refills.rows
        self._lock = threading.RLock()
        self._log_lock = threading.Lock()  # held while changes of the log are fetched and applied
        self._last_list: pa.Table | None = None
        self._closed = False

    # ------------------------------------------------------------ reading

    @property
    def stats(self) -> ViewStats:
        """What the view has counted and measured so far."""
        with self._lock:
            return self._refills.stats

    @property
    def kmax(self) -> int:
        """The number of rows that the view may keep now."""
        return self._refills.kmax

    @property
    def size(self) -> int:
        """The number of rows that the view keeps now."""
        with self._lock:
            return self._rows.index.size

    @property
    def complete(self) -> bool:
        """Whether a read returns all of the k best rows; False after a failed refill, and while one is in flight."""
        with self._lock:
            return self._rows.complete

    @property
    def refill_error(self) -> TableError | None:
        """Why rows are missing; None while the view is complete."""
        with self._lock:
            return None if self._rows.complete else self._refills.error

    def top(self, k: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return keys and scores of the k best rows as arrays; keys other than integers by their hash. O(k)."""
        with self._lock:
            if self._closed or self._refills.refill_in_flight is not None:
                self._poll()
            return self._rows.top(self.k if k is None else min(max(k, 0), self.k))

    def read(self) -> pa.Table:
        """Return the k best rows: rank, score, key and columns. O(k), no query."""
        with self._lock:
            if self._closed or self._refills.refill_in_flight is not None:
                self._poll()
            return self._rows.read()

    def changes(self, *, ranks: bool = False, since: pa.Table | None = None) -> pa.Table:
        """Return what has changed in the list since the last call: `_change_type`, then the columns of `read`.

        The first time, all rows are inserts. A row with another score is a pair of `update_preimage` and
        `update_postimage`; with `ranks`, so is a row that only moved. `since` is a list to compare with instead, such
        as one that was read before a restart.
        """
        with self._lock:
            before = self._last_list if since is None else since
            self._last_list = self.read()
            return diff_lists(before, self._last_list, self.table.key, ranks=ranks)

    # ------------------------------------------------------------ changing

    def apply(self, changes: Any) -> None:
        """Apply a batch of changes: the key and the columns of `by` as they are now.

        `_change_type` is "delete" for deleted rows. With `ordered=False` a column `_version` is required, and changes
        older than what is known of their row are ignored.
        """
        self._check_open()
        batch = read_changes(changes, self.table.key)
        if not batch.size:
            return
        batch = self._refills.spec.score(self._rows.with_all_columns(batch))
        with self._lock:
            self._check_open()
            self._refills.apply(self._rows.prepare(batch))

    def follow(self, source: Iterable[Any]) -> None:
        """Apply every batch of an iterator. With `sb.tables.follow` of its table the view catches up first."""
        own_log = getattr(source, "table", None) is self.table
        if own_log:
            self.catch_up()  # with what has changed between the first rows and the start of the source
        for changes in source:
            if own_log:
                with self._log_lock:
                    self._apply_logged(changes, changes[VERSION][-1].as_py())
            else:
                self.apply(changes)

    def catch_up(self) -> int:
        """Apply what the table's change log has after `version`; return the version that it has come to."""
        with self._log_lock:
            changes = self.table.since(self.version)
            self._apply_logged(changes.rows, changes.upto)
            return self.version

    def _apply_logged(self, rows: pa.Table, version: int) -> None:
        """Apply rows of the change log as they were at `version`, unless another thread has applied newer ones."""
        if version > self.version:
            self.apply(rows)
            self.version = version

    def forget(self, version: int) -> None:
        """Drop the versions remembered up to this one: the table has those changes, and none of them comes again."""
        with self._lock:
            self._check_open()
            self._rows.index.forget(version)

    # ------------------------------------------------------------ refilling

    def refill(self) -> bool:
        """Refill now if rows are missing, however recent the last failure; return whether the view is complete."""
        with self._lock:
            self._check_open()
            self._refills.refill()
        return self.wait_for_refill()

    def wait_for_refill(self, timeout: float | None = None) -> bool:
        """Wait for the refill in flight, if there is one, for at most `timeout` seconds; return `complete`."""
        self._check_open()
        end = None if timeout is None else time.monotonic() + timeout
        while (refill := self._refills.refill_in_flight) is not None:
            wait([refill.result], None if end is None else max(end - time.monotonic(), 0.0))
            if not refill.result.done():
                break
            with self._lock:
                self._poll()
        return self.complete

    def _poll(self) -> None:
        """Take the rows of a refill that has finished."""
        self._check_open()
        self._refills.poll()

    # ------------------------------------------------------------ saving and closing

    def save(self, path: str | Path | None = None) -> dict[str, np.ndarray | pa.Table]:
        """Return all state of the view as named arrays and tables; with `path`, also write it into that file."""
        self.wait_for_refill()
        with self._lock:
            snapshot = snapshot_view(self._refills, self.version)
        if path is not None:
            write_snapshot(snapshot, Path(path))
        return snapshot

    @classmethod
    def restore(cls, table: BaseTable, saved: Mapping[str, np.ndarray | pa.Table] | str | Path, **options: Any) -> Self:
        """Restore a view and apply what the table's change log has since; build it again if the log lacks that.

        `saved` is what `save` returned, or its file. `options` are `kmax` and `refill_at`, if they are to change; a
        policy of your own must be passed again.
        """
        table = check_table(table)
        snapshot = read_snapshot(Path(saved)) if isinstance(saved, str | Path) else saved
        self = cls.__new__(cls)
        self._attach(table, *restore_view(table, snapshot, options))
        try:
            self.catch_up()
        except TableError:
            self._attach(table, *cls._fill(table, self._refills.spec))
        return self

    def close(self) -> None:
        """End the background thread. A closed view cannot be read or changed; the table stays open.

        Closing it again does nothing.
        """
        with self._lock:
            self._closed = True
            self._refills.close()

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError(
                "this view is closed: build another with sb.View(...), or restore one from what save() returned"
            )

    # ------------------------------------------------------------ names of version 0.1

    @property
    def trouble(self) -> TableError | None:
        """Deprecated: now `refill_error`."""
        warnings.warn("View.trouble is now View.refill_error", DeprecationWarning, stacklevel=2)
        return self.refill_error

    def settle(self, timeout: float | None = None) -> bool:
        """Deprecated: now `wait_for_refill`."""
        warnings.warn("View.settle() is now View.wait_for_refill()", DeprecationWarning, stacklevel=2)
        return self.wait_for_refill(timeout)

    def told(self, before: pa.Table) -> None:
        """Deprecated: now `changes(since=...)`."""
        warnings.warn("View.told(list) is now View.changes(since=list)", DeprecationWarning, stacklevel=2)
        self._last_list = before
