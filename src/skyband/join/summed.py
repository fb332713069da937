"""Keys whose score uses values over the window: every window to come has scores of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from skyband.join.answers import Answer, ages
from skyband.join.candidates import Candidates
from skyband.join.counts import Counts
from skyband.join.valued import rescored
from skyband.runtime.row_store import RowStore
from skyband.runtime.score import scores

if TYPE_CHECKING:
    from skyband.join.board import Board
    from skyband.runtime.batch import PreparedBatch

_AHEAD = 8  # windows to come whose lists are predicted
_SPARE = 1 << 14
_NO_KEYS = np.empty(0, np.int64)


class Summed:
    """All keys of the window with their sums by pane; the list is made of them at each evaluation."""

    def __init__(self, line: Board) -> None:
        self.line = line
        self.counts = Counts(line.join.aggregates)
        self.payload = RowStore()
        self.peak = 0
        self._kept = 0
        self._panes = 0

    def __len__(self) -> int:
        return len(self.counts)

    def places(self, pane: np.ndarray, key: np.ndarray) -> np.ndarray:
        """The newest row of each key in each pane."""
        from skyband.kernels.topkn import newest

        keep = np.empty(len(key), np.bool_)
        newest(pane, key, np.full(len(self.line.keys), -(1 << 62)), keep)
        return np.flatnonzero(keep)

    def take(self, part: PreparedBatch, key: np.ndarray, places: np.ndarray) -> None:
        """Take a pane; `places` are each key's newest rows."""
        self._panes += 1
        if self._panes % 8 == 0:  # many small pieces are slow to look through
            self.clean()
        values = [np.ones(len(key)) if a.of is None else scores(a.of, part.rows) for a in self.line.join.aggregates]
        slot = self.payload.add(part.rows.take(pa.array(places)))
        at = int(self.line.clock.pane(part.time[0]))
        self.counts.add(at, key, values, (key[places], slot, part.time[places]))

    def unread(self, before: int) -> np.ndarray:
        """Keys of the window that were never read, or found absent by `before`; the newest first."""
        line = self.line
        assert line.window is not None
        keys = self.counts.window(line.clock.start(line.window), line.clock.end(line.window))[0]
        absent = (line.replica.count[keys] == 0) & (line.replica.time[keys] <= before)
        keys = keys[line.replica.unread(keys) | absent]
        return keys[np.lexsort((~line.ties(keys), -line.seen(keys)))] if len(keys) else keys

    def waits(self, codes: np.ndarray) -> np.ndarray:
        """None wait: scores are made when they are asked for."""
        return np.zeros(len(codes), np.bool_)

    def refreshed(self, changed: np.ndarray) -> None:
        """Nothing to do: scores are made when they are asked for."""

    def _scored(self, start: int, end: int) -> tuple[np.ndarray, ...]:
        """The window's keys that have a score, best first: key, slot, time, score, remote row, values."""
        line = self.line
        key, slot, time, values = self.counts.window(start, end)
        which, part, place = line.replica.places(key)
        if not len(which):
            return key, slot, time, np.empty(0), place, *values
        score = line.scored(self._rows(slot[which], [v[which] for v in values]), place)
        good = np.flatnonzero(~np.isnan(score))
        order = good[np.lexsort((part[good], ~line.ties(key[which[good]]), -score[good]))]
        chosen = which[order]
        return key[chosen], slot[chosen], time[chosen], score[order], place[order], *(v[chosen] for v in values)

    def _rows(self, slot: np.ndarray, values: list[np.ndarray]) -> pa.Table:
        """The newest rows, with the values over the window."""
        rows = self.payload.take(slot)
        assert rows is not None
        for name, value in zip(self.line.join.aggregate_names, values, strict=True):
            rows = rows.append_column(name, pa.array(value, from_pandas=True))
        return rows

    def keys_held(self) -> np.ndarray:
        """The keys of what is kept."""
        return np.concatenate([_NO_KEYS, *(pane.key for pane in self.counts.panes)])

    def renumber(self, codes: np.ndarray, number: np.ndarray) -> None:
        """Keys have other numbers now: these codes stay, and `number` has the new one of each. Their order stays."""
        del codes
        for pane in self.counts.panes:
            pane.key = number[pane.key]

    def candidates(self, window: int, now: int) -> Candidates:
        """The window's keys; listed are the k + spare best of it and of the windows to come, by what is known."""
        del now
        line, clock = self.line, self.line.clock
        end = clock.end(window)
        key, slot, time, score, _, *values = self._scored(clock.start(window), end)
        first = np.sort(np.unique(key, return_index=True)[1])
        rows = np.bincount(key, minlength=len(line.keys))[key[first]] if len(key) else first
        wide = line.query.k + line.join.refresh.spare
        listed = [key[first[:wide]]]
        later = range(window + 1, min(int(line.reach), window + _AHEAD) + 1)
        listed += [self._scored(clock.start(w), end)[0][:wide] for w in later]
        self.peak = max(self.peak, len(np.unique(np.concatenate(listed))))
        values = [v[first] for v in values]
        return Candidates(
            key[first],
            score[first],
            np.isin(key[first], np.concatenate(listed)),
            time[first],
            rows,
            line.query.k,
            clock.size,
            clock.slide,
            lambda drawn: rescored(line, self._rows(slot[first], values), key[first], drawn),
            line.ties(key[first]) if len(first) else None,
        )

    def answer(self, window: int, now: int) -> Answer:
        """The window's k best."""
        line, clock, k = self.line, self.line.clock, self.line.query.k
        found = self._scored(clock.start(window), clock.end(window))
        key, slot, _, score, place, *values = (column[:k] for column in found)
        rows = self.payload.take(slot) if len(slot) else None
        remote = line.replica.take(place) if len(place) else None
        age = ages(line, key, now)
        status = np.zeros(len(key), np.int64)
        return Answer(clock.end(window), now, score, key, place, status, rows, remote, age, tuple(values))

    def expire(self, oldest: int) -> None:
        """Close all windows before `oldest`."""
        self.counts.forget(self.line.clock.start(oldest))

    def tidy(self) -> None:
        """Drop rows that no key needs."""
        if len(self.payload) > 2 * self._kept + _SPARE:
            self.clean()

    def clean(self) -> None:
        """Keep the newest rows of the panes, and no others."""
        self.payload.keep(self.counts.slots())
        self._kept = len(self.payload)
