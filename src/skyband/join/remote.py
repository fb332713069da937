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
        self.purse = Purse(line.join.budget)
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
            self._read(ids, [rows], asked)
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
        failed = found.failed + self._read(found.ids, found.rows, now)
        self.lookup.vain.update(line.key_values(chosen[line.replica.unread(chosen)]).to_pylist() if found.made else ())
        self.error = found.error or self.error
        return len(ids), found.made, failed, found.late

    def _first_reads(self, unread: np.ndarray, budget: int) -> np.ndarray:
        """Of keys that were never read, those to ask for: who was asked for in vain gets half of the room at most."""
        if not self.lookup.vain or not len(unread):
            return unread[:budget]
        keys = self._line.key_values(unread).to_pylist()
        vain = np.array([key in self.lookup.vain for key in keys])
        self.lookup.vain.intersection_update(keys)
        fresh = unread[~vain][:budget]
        return np.concatenate([fresh, unread[vain][: (budget - len(fresh) + 1) // 2]])

    def _until(self) -> float:
        """When look-ups must be over, so that the answer is out by the deadline; windows of a live batch share it."""
        length = self._line.join.deadline / 1e6
        if not self._line.live:
            return clock_time.monotonic() + length
        spare = min(max(2 * self._needs, 0.02 * length), 0.5 * length)
        self._deadline = self._deadline or clock_time.monotonic() + length - spare
        return self._deadline

    def _read(self, ids: list[object], tables: list[pa.Table], now: int) -> int:
        """Take what came back into the replica; how many look-ups were of no use after all."""
        line, kind = self._line, self._line.key_type
        fits = []
        for rows in tables:
            fits.append(fitting(line, rows))
            line.replica.settle(fits[-1].rows)
        good = [found.rows for found in fits if found.rows is not None]
        bad = {key for found in fits for key in found.bad} & set(ids)
        if any(found.unclear for found in fits):  # whose rows they are is unknown, so no one is known to be absent
            came = {key for rows in good for key in rows[line.join.on].to_pylist()}
            bad |= {key for key in ids if key not in came}
        self.error = next((found.error for found in fits if found.error), self.error)
        asked, useless = set(ids) - bad, len(bad)
        known = line.replica.schema
        if any(rows.num_rows for rows in good) and known is not None and pa.null() in known.types:
            name = known.names[known.types.index(pa.null())]
            self.error = f"{name!r} has been NULL wherever it was read: is that its name in the table?"
        codes = line.codes_of(pa.chunked_array([pa.array(list(asked), kind)]))
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
                board.held.refreshed(np.concatenate([read.changed, waiting]), pushed=False)
        return useless
