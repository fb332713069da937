"""The look-ups of a join: who is asked for, until when, and what becomes of what comes back."""

from __future__ import annotations

import time as clock_time
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from skyband.join.budget import Purse
from skyband.join.fitting import fitting
from skyband.join.lookup import Lookup
from skyband.join.shared import in_turn

if TYPE_CHECKING:
    from skyband.join.board import Board
    from skyband.join.pipeline import JoinPipeline


class Remote:
    """Reads remote rows into the replica of a join, within its budget and its deadline."""

    def __init__(self, line: JoinPipeline) -> None:
        self._line = line
        self.purse = Purse(line.join.refresh.budget)
        self.lookup = Lookup(line.join)
        self.error = ""  # the last one
        self._deadline = 0.0
        self._back, self._needs = 0.0, 0.0  # when the look-ups were over, and how long the rest has taken before

    def begin(self) -> None:
        """A batch has come: from now on its deadline runs."""
        self._deadline = 0.0

    def told(self) -> None:
        """The answers are out: how long they took behind the look-ups counts for the next ones."""
        if self._back:
            self._needs = max(clock_time.monotonic() - self._back, 0.95 * self._needs)
            self._back = 0.0

    def refresh(self, due: list[Board], now: int) -> tuple[int, int, int, int]:
        """Look up what the policies of these boards want: how many were wanted, made, failed and late."""
        line = self._line
        if line.join.table is None:
            return 0, 0, 0, 0
        until = self._until()  # from here on: choosing takes time too
        for asked, ids, rows in self.lookup.overdue():
            self._read([(ids, rows)], asked)
        budget = self.purse.draw()
        free = [board for board in due if board.unlimited]
        bound = [board for board in due if not board.unlimited]
        chosen = self._first_reads(in_turn([board.unread(now) for board in bound]), budget)
        room = budget - len(chosen)
        more = in_turn([board.wishes(room, now) for board in bound])
        chosen = np.concatenate([chosen, more[~np.isin(more, chosen)][:room]])
        paid = len(chosen)
        if free:
            chosen = in_turn([chosen, *(wish for b in free for wish in (b.unread(now), b.wishes(budget, now)))])
        if not len(chosen):
            self.purse.pay(0)
            return 0, 0, 0, 0
        ids = line.key_values(chosen).to_pylist()
        if hasattr(line.join.table, "at"):
            line.join.table.at(now)
        found = self.lookup.fetch(ids, now, until)
        self._back = clock_time.monotonic()
        self.purse.pay(min(paid, found.made))  # what was never sent is not spent
        failed = found.failed + self._read(found.replies, now)
        self.lookup.vain.update(line.key_values(chosen[line.replica.unread(chosen)]).to_pylist() if found.made else ())
        self.error = found.error or self.error
        return len(ids), found.made, failed, found.late

    def _first_reads(self, unread: np.ndarray, budget: int) -> np.ndarray:
        """Of keys without a remote row, those to ask for.

        Keys that were never asked for come first. Keys whose look-ups failed get at most half of what is left, rounded
        up, and keys that were found missing at most half of the rest: neither starves the policy.
        """
        if not len(unread):
            return unread
        missing = ~self._line.replica.unread(unread)
        failed = np.zeros(len(unread), np.bool_)
        if self.lookup.vain:
            keys = self._line.key_values(unread).to_pylist()
            failed = np.array([key in self.lookup.vain for key in keys])
            self.lookup.vain.intersection_update(keys)
        fresh = unread[~missing & ~failed][:budget]
        again = unread[failed & ~missing][: (budget - len(fresh) + 1) // 2]
        return np.concatenate([fresh, again, unread[missing][: (budget - len(fresh) - len(again)) // 2]])

    def _until(self) -> float:
        """When look-ups must be over, so that the answer is out by the deadline; windows of a live batch share it."""
        length = self._line.join.refresh.deadline.total_seconds()
        if not self._line.live:
            return clock_time.monotonic() + length
        spare = min(max(2 * self._needs, 0.02 * length), 0.5 * length)
        self._deadline = self._deadline or clock_time.monotonic() + length - spare
        return self._deadline

    def _of(self, ids: list[object], rows: pa.Table | None) -> pa.Table | None:
        """The rows of these ids: a service may give others too."""
        line = self._line
        if rows is None:
            return None
        asked = line.codes_of(pa.chunked_array([pa.array(ids, line.key_type)]))
        mine = np.isin(line.codes_of(rows[line.join.on]), asked)
        return rows if mine.all() else rows.filter(pa.array(mine))

    def _read(self, replies: list[tuple[list[object], pa.Table]], now: int) -> int:
        """Take what came back into the replica; how many look-ups were of no use after all."""
        line, kind = self._line, self._line.key_type
        good, asked, useless = [], [], 0
        for ids, rows in replies:
            found = fitting(line, rows)
            line.replica.settle(found.rows)
            self.error = found.error or self.error
            mine = self._of(ids, found.rows)
            came = set() if mine is None else set(mine[line.join.on].to_pylist())
            # where no one can tell whose the rows are, no one is known to be absent
            used = [key for key in ids if key not in found.bad and (key in came or not found.unclear)]
            asked += used
            useless += len(ids) - len(used)
            good += [] if mine is None else [mine]
        known = line.replica.schema
        if any(rows.num_rows for rows in good) and known is not None and pa.null() in known.types:
            name = known.names[known.types.index(pa.null())]
            self.error = f"{name!r} has been NULL wherever it was read: is that its name in the table?"
        codes = line.codes_of(pa.chunked_array([pa.array(asked, kind)]))
        newer = codes[line.replica.time[codes] < now]
        if len(newer):
            empty = pa.table({n: pa.nulls(0) for n in line.join.columns} | {line.join.on: pa.array([], kind)})
            rows = pa.concat_tables(good, promote_options="permissive") if good else empty
            of = line.codes_of(rows[line.join.on])
            wanted = np.isin(of, newer)
            chosen = rows if wanted.all() else rows.filter(pa.array(wanted))
            read = line.replica.update(np.unique(newer), of[wanted], chosen, now)
            for board in line.boards.values():
                waiting = read.same[board.held.waits(read.same)]
                board.held.refreshed(np.concatenate([read.changed, waiting]))
        return useless
