"""Refreshes the replica before each answer: which keys are looked up, and which replies can be used."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from skyband.errors import SchemaError, SkybandError
from skyband.query.expression import Expression
from skyband.query.points import Distance, Weighted
from skyband.runtime.score import scores

if TYPE_CHECKING:
    from skyband.operators.lookup_join.client import LookupClient
    from skyband.operators.lookup_join.join_list import JoinList
    from skyband.operators.lookup_join.remote_rows import RemoteRows
    from skyband.query import Join, TopK
    from skyband.query.join import Budget

_UNUSABLE = (SkybandError, KeyError, pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError)


class LookupBudget:
    """So many look-ups an evaluation; unused ones are saved for later, up to a limit.

    Examples
    --------
    >>> from skyband.query import Budget
    >>> budget = LookupBudget(Budget(7, save=10))
    >>> budget.begin(), budget.spend(2), budget.begin()
    (7, None, 12)
    """

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self.saved = 0
        self._available = 0

    def begin(self) -> int:
        """Return how many look-ups this evaluation may make."""
        self._available = self._budget.each + self.saved
        return self._available

    def spend(self, made: int) -> None:
        """Save what was not spent."""
        self.saved = min(max(self._available - made, 0), self._budget.save)


class LookupCounts(NamedTuple):
    """What became of the look-ups of an evaluation."""

    wanted: int = 0
    made: int = 0
    failed: int = 0
    missed_deadline: int = 0


class UsableRows(NamedTuple):
    """What can be used of a reply."""

    rows: pa.Table | None  # the remote columns, and the key as the stream has it
    unusable: frozenset[object] = frozenset()  # keys with a row that cannot be used
    unclear: bool = False  # whether there were rows whose key is not known
    error: str = ""


class Refresher:
    """Reads remote rows into the replica, within the budget and the deadline.

    Parameters
    ----------
    join, queries
        What is joined for all queries, and these.
    schema
        The columns of the stream.
    remote, lists
        The replica, and the lists whose scores depend on it.
    client
        Calls the service; None: nothing is looked up.
    live
        The windows that one batch closes share a deadline: someone waits for them.
    """

    def __init__(  # noqa: PLR0913 - the parts of a join
        self,
        join: Join,
        queries: Sequence[TopK],
        schema: pa.Schema,
        remote: RemoteRows,
        lists: Mapping[tuple[int, int], JoinList],
        client: LookupClient | None,
        *,
        live: bool,
    ) -> None:
        self._join, self._queries, self._schema = join, queries, schema
        self._remote, self._lists, self._live = remote, lists, live
        self.client = client
        self.budget = LookupBudget(join.refresh.budget)
        self.last_error = ""
        self._usable_types: set[tuple[pa.DataType, ...]] = set()  # of remote columns: all scores can take them
        self._deadline = 0.0  # of the batch; 0: no look-up was made for it yet
        self._replied, self._after = 0.0, 0.0  # when the look-ups were over, and how long the rest has taken before

    def end_batch(self) -> None:
        """Note that the answers of a batch are out: the time they took after the look-ups counts for the next ones."""
        self._deadline = 0.0
        if self._replied:
            self._after = max(time.monotonic() - self._replied, 0.95 * self._after)
            self._replied = 0.0

    def _end_of_lookups(self) -> float:
        """Return when look-ups must be over so that the answer is out by the deadline."""
        length = self._join.refresh.deadline.total_seconds()
        if not self._live:
            return time.monotonic() + length
        spare = min(max(2 * self._after, 0.02 * length), 0.5 * length)
        self._deadline = self._deadline or time.monotonic() + length - spare
        return self._deadline

    # ------------------------------------------------------------ what to look up

    def refresh(self, due: Sequence[JoinList], now: int) -> LookupCounts:
        """Look up what the policies of these lists want."""
        client, remote = self.client, self._remote
        if client is None or self._join.table is None:
            return LookupCounts()
        until = self._end_of_lookups()  # choosing takes time too
        for late in client.late_replies():
            self._read([(late.ids, late.rows)], late.asked)
        chosen, paid = self._choose(due, now)
        if not len(chosen):
            self.budget.spend(0)
            return LookupCounts()
        ids = remote.key_values(chosen).to_pylist()
        if hasattr(self._join.table, "at"):
            self._join.table.at(now)
        found = client.fetch(ids, now, until)
        self._replied = time.monotonic()
        self.budget.spend(min(paid, found.made))  # a look-up that was never sent costs nothing
        failed = found.failed + self._read(found.replies, now)
        if found.made:
            client.failed_keys.update(remote.key_values(chosen[remote.replica.unread(chosen)]).to_pylist())
        self.last_error = found.error or self.last_error
        return LookupCounts(len(ids), found.made, failed, found.missed_deadline)

    def _choose(self, due: Sequence[JoinList], now: int) -> tuple[np.ndarray, int]:
        """Return the keys to look up, and how many of them count against the budget."""
        budget = self.budget.begin()
        limited = [each for each in due if not each.unlimited]
        chosen = self._first_reads(in_turn([each.unread_keys(now) for each in limited]), budget)
        room = budget - len(chosen)
        more = in_turn([each.refresh_keys(room, now) for each in limited])
        chosen = np.concatenate([chosen, more[~np.isin(more, chosen)][:room]])
        paid = len(chosen)
        unlimited = [
            keys for each in due if each.unlimited for keys in (each.unread_keys(now), each.refresh_keys(budget, now))
        ]
        return (in_turn([chosen, *unlimited]) if unlimited else chosen), paid

    def _first_reads(self, unread: np.ndarray, budget: int) -> np.ndarray:
        """Return which keys without a remote row to look up.

        Keys that were never looked up come first. Keys whose look-ups failed get at most half of the remaining budget,
        rounded up, and keys that were absent at most half of the rest: neither starves the policy.
        """
        if not len(unread):
            return unread
        assert self.client is not None
        absent = ~self._remote.replica.unread(unread)
        failed = np.zeros(len(unread), np.bool_)
        if self.client.failed_keys:
            keys = self._remote.key_values(unread).to_pylist()
            failed = np.array([key in self.client.failed_keys for key in keys])
            self.client.failed_keys.intersection_update(keys)
        fresh = unread[~absent & ~failed][:budget]
        again = unread[failed & ~absent][: (budget - len(fresh) + 1) // 2]
        return np.concatenate([fresh, again, unread[absent][: (budget - len(fresh) - len(again)) // 2]])

    # ------------------------------------------------------------ what came back

    def _read(self, replies: Sequence[tuple[list[object], pa.Table]], now: int) -> int:
        """Take replies into the replica and rescore the lists; return how many look-ups brought nothing usable."""
        remote, replica, key_type = self._remote, self._remote.replica, self._remote.key_type
        good, asked, useless = [], [], 0
        for ids, rows in replies:
            found = self._usable(rows)
            replica.fix_types(found.rows)
            self.last_error = found.error or self.last_error
            mine = self._rows_of(ids, found.rows)
            came = set() if mine is None else set(mine[remote.on].to_pylist())
            # if there are rows whose key is not known, no key is known to be absent
            used = [key for key in ids if key not in found.unusable and (key in came or not found.unclear)]
            asked += used
            useless += len(ids) - len(used)
            good += [] if mine is None else [mine]
        if any(rows.num_rows for rows in good) and replica.schema is not None and pa.null() in replica.schema.types:
            name = replica.schema.names[replica.schema.types.index(pa.null())]
            self.last_error = f"{name!r} was NULL in every reply: is that its name in the table?"
        keys = remote.remote_codes(pa.chunked_array([pa.array(asked, key_type)]))
        newer = keys[replica.time[keys] < now]
        if len(newer):
            none = pa.table({n: pa.nulls(0) for n in remote.columns} | {remote.on: pa.array([], key_type)})
            rows = pa.concat_tables(good, promote_options="permissive") if good else none
            of = remote.remote_codes(rows[remote.on])
            wanted = np.isin(of, newer)
            chosen = rows if wanted.all() else rows.filter(pa.array(wanted))
            read = replica.update(np.unique(newer), of[wanted], chosen, now)
            for each in self._lists.values():
                waiting = read.same[each.waits_for(read.same)]
                each.update(np.concatenate([read.changed, waiting]))
        return useless

    def _rows_of(self, ids: list[object], rows: pa.Table | None) -> pa.Table | None:
        """Return the rows of these ids: a service may return others too."""
        if rows is None:
            return None
        remote = self._remote
        asked = remote.remote_codes(pa.chunked_array([pa.array(ids, remote.key_type)]))
        mine = np.isin(remote.remote_codes(rows[remote.on]), asked)
        return rows if mine.all() else rows.filter(pa.array(mine))

    def _usable(self, rows: pa.Table) -> UsableRows:
        """Return the rows in the types of the replica. One bad value makes its own key unusable, and no other."""
        try:
            return UsableRows(self._fit(rows))
        except _UNUSABLE as error:
            why = str(error).splitlines()[0] if str(error) else type(error).__name__
        name, on = self._join.table.key, self._join.on
        good, bad, unclear = [], set(), name not in rows.column_names
        for place in range(rows.num_rows):
            row = rows.slice(place, 1)
            try:
                key = row[name].cast(self._remote.key_type)[0].as_py()
            except _UNUSABLE:
                unclear = True
                continue
            try:
                good.append(self._fit(row))
            except _UNUSABLE:
                bad.add(key)
        found = pa.concat_tables(good) if good else None
        if found is not None and bad:
            found = found.filter(pa.array([key not in bad for key in found[on].to_pylist()]))
        return UsableRows(found, frozenset(bad), unclear, why)

    def _fit(self, rows: pa.Table) -> pa.Table:
        chosen = rows.select([self._join.table.key, *self._join.columns])
        key = chosen[0].cast(self._remote.key_type)
        self._check_types(chosen.schema)
        return self._remote.replica.conform(chosen).append_column(self._join.on, key)

    def _check_types(self, schema: pa.Schema) -> None:
        """Raise if a score cannot take a column whose type is seen for the first time."""
        join, known = self._join, self._remote.replica.schema
        kinds = [schema.field(name).type for name in join.columns]
        if known is not None:  # known types stay, but for columns of which only NULLs were seen
            kinds = [new if pa.types.is_null(old) else old for old, new in zip(known.types, kinds, strict=True)]
        if tuple(kinds) in self._usable_types:
            return
        names = [*self._schema.names, *join.aggregate_names, *join.columns]
        types = [*self._schema.types, *(pa.float64() for _ in join.aggregates), *kinds]
        empty = pa.schema(list(zip(names, types, strict=True))).empty_table()
        for query in self._queries:
            if isinstance(query.by, (Expression, Distance, Weighted)):
                try:
                    scores(query.by, empty)
                except SchemaError:
                    raise
                except pa.ArrowException as error:
                    raise SchemaError(str(error)) from error
        self._usable_types.add(tuple(kinds))


def in_turn(choices: Sequence[np.ndarray]) -> np.ndarray:
    """Return everyone's first choice, then everyone's second, each id once.

    Examples
    --------
    >>> in_turn([np.array([3, 1]), np.array([3, 2, 4])]).tolist()
    [3, 1, 2, 4]
    """
    if len(choices) == 1:
        return choices[0]
    ranks = zip_longest(*(ids.tolist() for ids in choices))
    found = dict.fromkeys(id_ for rank in ranks for id_ in rank if id_ is not None)
    return np.array(list(found), np.int64)
