"""Objects whose score is fixed by their newest row and the remote side: kept on the Super-MTK+N list."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from skyband.flow.payload import Payload
from skyband.join.answers import Answer, ages
from skyband.join.candidates import Candidates
from skyband.join.topkn import BOUND, GUESS, Listed, TopKN
from skyband.query.expression import Expression
from skyband.query.monotone import direction

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skyband.flow.part import Part
    from skyband.join.board import Board

_ALL = 1 << 40  # a list that forgets nothing
_SPARE = 1 << 14  # rows that may pile up before the useless ones are dropped


class Valued:
    """The list, the rows on it, and those whose remote value was never read."""

    def __init__(self, line: Board) -> None:
        self.line = line
        join = line.join
        self._wide = line.query.k + join.spare
        cap = _ALL if getattr(line.policy, "whole", False) else self._wide + join.reserve
        self.list = TopKN(cap, 0, line.clock.ratio)
        self.payload = Payload()
        self.unscored = np.empty((2, 0), np.int64)  # slot and key of rows that wait for their first look-up
        self._kept = 0
        self._panes = 0
        self.extremes: list[tuple[int, dict[str, tuple[float, float]]]] = []  # of each pane's stream columns
        by = line.query.by
        self._stream = [n for n in by.columns if n in line.schema.names] if isinstance(by, Expression) else []
        self._ways = {n: direction(by.tree, n) for n in self._stream} if isinstance(by, Expression) else {}

    def __len__(self) -> int:
        return len(self.list)

    @property
    def peak(self) -> int:
        """The most objects ever on the list."""
        return self.list.peak

    # ------------------------------------------------------------ rows in

    def places(self, pane: np.ndarray, key: np.ndarray) -> np.ndarray:
        """The rows that stand for all: the newest of each key in each pane."""
        if self.line.join.each == "row":
            return np.arange(len(key))
        from skyband.kernels.topkn import newest

        keep = np.empty(len(key), np.bool_)
        newest(pane, key, np.full(len(self.line.keys), -(1 << 62)), keep)
        return np.flatnonzero(keep)

    def take(self, part: Part, key: np.ndarray, places: np.ndarray) -> None:
        """Take a pane; `places` are the rows of it that count."""
        self._panes += 1
        if self._panes % 32 == 0:  # many small pieces are slow to look through
            self.clean()
        rows, key, time = part.rows.take(pa.array(places)), key[places], part.time[places]
        if self.line.join.changes is not None and self._stream:
            self._measure(int(self.line.clock.pane(time[0])), rows)
        slot = self.payload.add(rows)
        replaced = key if self.line.join.each == "key" else None
        self._arrive(rows, slot, key, replaced)

    def _measure(self, pane: int, rows: pa.Table) -> None:
        """Remember the least and the greatest of each stream column, by pane (the paper's min.scoreS)."""
        found = {}
        for name in self._stream:
            x = rows[name].cast(pa.float64(), safe=False).to_numpy()
            x = x[np.isfinite(x)]
            if len(x):
                found[name] = (float(x.min()), float(x.max()))
        self.extremes.append((pane, found))

    def _arrive(self, rows: pa.Table, slot: np.ndarray, key: np.ndarray, replaced: np.ndarray | None) -> None:
        line = self.line
        if line.window is not None and self.list.oldest != line.window:  # windows without a row were passed over
            self.list.expire(line.window)
        if replaced is not None and self.unscored.shape[1]:
            self.unscored = self.unscored[:, ~np.isin(self.unscored[1], replaced)]
        new, unread = self._objects(rows, slot, key)
        if len(unread):
            self.unscored = np.concatenate([self.unscored, np.stack([slot[unread], key[unread]])], axis=1)
        if len(new.score) > self.list.cap:  # one pane: no more than the best of it can stay
            best = np.lexsort((-new.slot, -new.score))
            rest = best[self.list.cap :]
            self.list.doubt(new.score[rest], new.last[rest])
            new = new.take(best[: self.list.cap])
        self.list.arrive(new, replaced)

    def _objects(self, rows: pa.Table, slot: np.ndarray, key: np.ndarray) -> tuple[Listed, np.ndarray]:
        """Stream rows joined with their remote rows, those that have a score; and which were never read."""
        line, replica = self.line, self.line.replica
        count = np.maximum(replica.count[key], 1)
        which = np.repeat(np.arange(len(key)), count)
        part = np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count)
        place = np.where(replica.first[key][which] < 0, -1, replica.first[key][which] + part)
        score = line.scored(rows if len(which) == rows.num_rows else rows.take(pa.array(which)), place)
        good = np.isfinite(score) | np.isinf(score)
        unread = np.flatnonzero(replica.unread(key))
        bad = ~good & ~np.isin(which, unread)
        line.miss(int(bad.sum()))
        last = line.clock.last(line.seen(key)) if line.join.each == "key" else line.clock.last(self._times(rows, slot))
        chosen = Listed.of(score, slot[which], key[which], last[which], part)
        scored = np.flatnonzero(good)
        return chosen.take(scored), np.setdiff1d(unread, which[scored])

    def _times(self, rows: pa.Table, slot: np.ndarray) -> np.ndarray:
        """The times of rows that are objects of their own."""
        line = self.line
        if line.time is None or line.clock.counts:
            return slot  # one slot a row, in order
        return line.time.micros(rows[line.query.time])[0]

    # ------------------------------------------------------------ the remote side

    def unread(self, before: int) -> np.ndarray:
        """Keys that were never read, or found absent by `before`; the newest first."""
        line = self.line
        self._drop_expired()
        keys = self.unscored[1]
        keys = keys[line.replica.unread(keys) | (line.replica.time[keys] <= before)]
        keys = np.unique(keys)
        return keys[np.lexsort((~line.ties(keys), -line.seen(keys)))] if len(keys) else keys

    def waits(self, codes: np.ndarray) -> np.ndarray:
        """Which codes have rows that wait for a score."""
        return np.isin(codes, self.unscored[1])

    def _drop_expired(self) -> None:
        line = self.line
        if self.unscored.shape[1] and line.window is not None:
            alive = line.clock.last(line.seen(self.unscored[1])) >= line.window
            self.unscored = self.unscored[:, alive]

    def keys_held(self) -> np.ndarray:
        """The keys of what is kept."""
        return np.concatenate([self.list.listed.key, self.unscored[1]])

    def renumber(self, number: np.ndarray) -> None:
        """Keys have other numbers now: that of the old one is the place."""
        self.list.listed = self.list.listed._replace(key=number[self.list.listed.key])
        self.unscored = np.stack([self.unscored[0], number[self.unscored[1]]])

    def candidates(self, window: int, now: int) -> Candidates:
        """The list by remote key."""
        del window, now
        line, listed = self.line, self.list.listed
        inside = self.list.within(self._wide)
        keys, first, where, rows = np.unique(listed.key, return_index=True, return_inverse=True, return_counts=True)
        order = np.argsort(first)
        chosen = np.zeros(len(keys), np.bool_)
        chosen[where[inside]] = True
        best = first[order]
        return Candidates(
            keys[order],
            listed.score[best],
            chosen[order],
            line.seen(keys[order]),
            rows[order],
            line.query.k,
            line.clock.size,
            line.clock.slide,
            lambda values: self._rescored(listed.take(best), values),
            listed.slot[best],
        )

    def _rescored(self, listed: Listed, values: Mapping[str, np.ndarray]) -> np.ndarray:
        """The scores that these objects would have with other remote values."""
        rows = self.payload.take(listed.slot)
        assert rows is not None
        return rescored(self.line, rows, listed.key, values)

    def refreshed(self, changed: np.ndarray, *, pushed: bool) -> None:
        """Remote values are others now: give their objects their new scores."""
        if not len(changed):
            return
        listed = self.list.listed
        on = np.isin(listed.key, changed)
        waits = np.isin(self.unscored[1], changed)
        slots, first = np.unique(np.concatenate([listed.slot[on], self.unscored[0][waits]]), return_index=True)
        keys = np.concatenate([listed.key[on], self.unscored[1][waits]])[first]
        guessed = np.isin(slots, listed.slot[on & (listed.kind > 0)])
        if pushed:
            away = changed[~np.isin(changed, keys[~guessed])]
            self._unlisted(away[self.line.clock.last(self.line.seen(away)) >= self.list.oldest])
        slots, keys = slots[~guessed], keys[~guessed]
        self.unscored = self.unscored[:, ~waits]
        if len(slots):
            rows = self.payload.take(slots)
            assert rows is not None
            new, unread = self._objects(rows, slots, keys)
            # absent rows wait on: they may come to be
            gone = np.setdiff1d(np.arange(len(slots)), np.searchsorted(slots, new.slot))
            lost = np.union1d(unread, gone)
            self.unscored = np.concatenate([self.unscored, np.stack([slots[lost], keys[lost]])], axis=1)
            self.list.arrive(new, keys)

    def _unlisted(self, keys: np.ndarray) -> None:
        """Changed objects that were forgotten: a bound of their score, from the stream values of their window."""
        if not len(keys):
            return
        line = self.line
        last = line.clock.last(line.seen(keys))
        sure = all(way is not None for way in self._ways.values()) and isinstance(line.query.by, Expression)
        rows = pa.table({f.name: pa.nulls(len(keys), f.type) for f in line.schema})
        place = rows.schema.get_field_index(line.join.on)
        rows = rows.set_column(
            place, line.schema.field(place), line.key_values(keys).cast(line.schema.field(place).type)
        )
        low = line.scored(self._with_extremes(rows, 0), line.replica.first[keys])
        high = line.scored(self._with_extremes(rows, 1), line.replica.first[keys])
        upper = high if sure else np.full(len(keys), np.inf)
        good = np.flatnonzero(~np.isnan(low))
        if line.join.unlisted == "ignore" or line.join.each == "row":
            self.list.doubt(np.where(np.isnan(upper), -np.inf, upper), last)
            return
        slot = self.payload.add(rows)
        kind = BOUND if sure else GUESS
        self.list.arrive(Listed.of(low, slot, keys, last, kind=kind, upper=upper).take(good), keys)

    def _with_extremes(self, rows: pa.Table, end: int) -> pa.Table:
        """Rows whose stream columns make the score least (0) or greatest (1)."""
        for name, way in self._ways.items():
            seen = [found[name] for _, found in self.extremes if name in found]
            if not seen:
                continue
            value = min(s[0] for s in seen) if (way != -1) == (end == 0) else max(s[1] for s in seen)
            column = pa.array(np.full(rows.num_rows, value))
            rows = rows.set_column(rows.schema.get_field_index(name), name, column)
        return rows

    # ------------------------------------------------------------ answers

    def answer(self, window: int, now: int) -> Answer:
        """The window's k best."""
        line = self.line
        best, status = self.list.answer(window, line.query.k)
        place = np.where(line.replica.first[best.key] < 0, -1, line.replica.first[best.key] + best.part)
        rows = self.payload.take(best.slot) if len(best.slot) else None
        remote = line.replica.take(place) if len(place) else None
        age = ages(line, best.key, now)
        return Answer(line.clock.end(window), now, best.score, best.key, place, status, rows, remote, age)

    def expire(self, oldest: int) -> None:
        """Close all windows before `oldest`."""
        self.list.expire(oldest)
        start = self.line.clock.start(oldest)
        self.extremes = [e for e in self.extremes if e[0] >= start]

    def tidy(self) -> None:
        """Drop rows that no object needs."""
        if len(self.payload) > 2 * self._kept + _SPARE:
            self.clean()

    def clean(self) -> None:
        """Keep the rows of the objects, and no others."""
        self._drop_expired()
        self.payload.keep(np.concatenate([self.list.listed.slot, self.unscored[0]]))
        self._kept = len(self.payload)


def rescored(line: Board, rows: pa.Table, key: np.ndarray, values: Mapping[str, np.ndarray]) -> np.ndarray:
    """The scores of rows with each of several remote values: (rows, worlds)."""
    worlds = next(iter(values.values())).shape[1] if values else 1
    which = np.repeat(np.arange(len(key)), worlds)
    by, join = line.query.by, line.join
    wanted = [n for n in by.columns if n in rows.column_names] if isinstance(by, Expression) else rows.column_names
    many = rows.select(wanted).take(pa.array(which))
    remote = line.replica.take(line.replica.first[key])
    for name in join.columns:
        if name in values:
            column = pa.array(values[name].ravel())
        else:
            column = pa.nulls(len(which)) if remote is None else remote[name].take(pa.array(which))
        many = many.append_column(name, column)
    from skyband.flow.score import scores

    if not many.num_columns:
        return np.empty((len(key), worlds))
    score = scores(by, many).reshape(len(key), worlds)
    return -score if line.query.ascending else score
