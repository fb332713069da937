"""Objects whose score is fixed by their newest row and the remote side: kept on the Super-MTK+N list."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from skyband.join.answers import Answer, ages
from skyband.join.candidates import Candidates
from skyband.join.extremes import Extremes
from skyband.join.topkn import BOUND, EXACT, GUESS, Listed, TopKN
from skyband.query.expression import Expression
from skyband.runtime.row_store import RowStore

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skyband.join.board import Board
    from skyband.runtime.batch import PreparedBatch

_ALL = 1 << 40  # a list that forgets nothing
_SPARE = 1 << 14  # rows that may pile up before the useless ones are dropped
NO_WINDOW = -(1 << 62)
"""Before all windows."""


class Valued:
    """The list, the rows on it, and those that wait for a remote row.

    What is pushed off the list is forgotten. Of each key it is known up to which window it has a forgotten object: when
    the remote row of such a key changes, whoever asked for it, the object's score can be anything in the range that the
    stream's values leave, and the answers say so.
    """

    def __init__(self, line: Board) -> None:
        self.line = line
        join = line.join
        self._wide = line.query.k + join.refresh.spare
        cap = _ALL if getattr(line.policy, "whole", False) else self._wide + join.refresh.reserve
        self.extremes = Extremes(line)
        self.list = TopKN(cap, 0, line.clock.ratio, len(self.extremes.columns))
        self.payload = RowStore()
        self.unscored = _no_rows()  # slot, key and last window of rows that wait for a remote row
        self.forgotten = np.empty(0, np.int64)  # by key: the last window of a forgotten object
        self.ranked = np.empty(0, np.bool_)  # by key: whether that object had a score
        self._kept = 0
        self._panes = 0

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

    def take(self, part: PreparedBatch, key: np.ndarray, places: np.ndarray) -> None:
        """Take a pane; `places` are the rows of it that count."""
        self._panes += 1
        if self._panes % 32 == 0:  # many small pieces are slow to look through
            self.clean()
        rows, key, time = part.rows.take(pa.array(places)), key[places], part.time[places]
        slot = self.payload.add(rows)
        self._arrive(rows, slot, key, np.asarray(self.line.clock.last(time)))

    def _arrive(self, rows: pa.Table, slot: np.ndarray, key: np.ndarray, last: np.ndarray) -> None:
        line = self.line
        if line.window is not None and self.list.oldest != line.window:  # windows without a row were passed over
            self.list.expire(line.window)
            self.extremes.expire(line.window)
        replaced = key if line.join.each == "key" else None
        if replaced is not None:  # older objects of the key do not count any more
            self.forgotten[key[key < len(self.forgotten)]] = NO_WINDOW
            if self.unscored.shape[1]:
                self.unscored = self.unscored[:, ~np.isin(self.unscored[1], replaced)]
        new, without = self._objects(rows, slot, key, last)
        if len(without):
            waits = line.replica.unread(key[without]) | self._missing(key[without])
            self._wait(slot, key, last, without[waits])
            drop = without[~waits]
            self._forget(key[drop], last[drop], self.extremes.numbers(rows.take(pa.array(drop))), ranked=False)
        if len(new.score) > self.list.cap:  # one pane: no more than the best of it can stay
            best = np.lexsort((-new.slot, -new.score))
            rest = new.take(best[self.list.cap :])
            self.list.doubt(rest.score, rest.last)
            self._forget(rest.key, rest.last, rest.values)
            new = new.take(best[: self.list.cap])
        self._list(new, replaced)

    def _objects(
        self, rows: pa.Table, slot: np.ndarray, key: np.ndarray, last: np.ndarray
    ) -> tuple[Listed, np.ndarray]:
        """Stream rows joined with their remote rows, those that have a score; and which rows have none."""
        line, replica = self.line, self.line.replica
        which, part, place = replica.places(key)
        score = line.scored(rows if len(which) == rows.num_rows else rows.take(pa.array(which)), place)
        good = ~np.isnan(score)
        line.miss(int((~good & ~replica.unread(key)[which]).sum()))
        scored = np.flatnonzero(good)
        values = self.extremes.numbers(rows)
        chosen = Listed.of(score, slot[which], key[which], last[which], part, values=values[which])
        without = np.ones(len(key), np.bool_)
        without[which[scored]] = False
        return chosen.take(scored), np.flatnonzero(without)

    def _missing(self, key: np.ndarray) -> np.ndarray:
        """Which keys have a remote row that lacks a value, or none."""
        which, _, place = self.line.replica.places(key)
        missing = np.zeros(len(key), np.bool_)
        missing[which[self.extremes.missing(place)]] = True
        return missing

    def _wait(self, slot: np.ndarray, key: np.ndarray, last: np.ndarray, places: np.ndarray) -> None:
        """Rows at these places wait for a remote row."""
        new = np.stack([slot[places], key[places], last[places]])
        self.unscored = np.concatenate([self.unscored, new], axis=1)

    def _forget(self, key: np.ndarray, last: np.ndarray, values: np.ndarray, *, ranked: bool = True) -> None:
        """Objects of these keys are not kept any more."""
        if len(key):
            self.grow()
            np.maximum.at(self.forgotten, key, last)
            self.ranked[key] = ranked
            self.extremes.measure(last, values)

    def _list(self, new: Listed, replaced: np.ndarray | None) -> None:
        """Put objects on the list, in place of those with a key in `replaced`."""
        gone = self.list.arrive(new, replaced)
        gone = gone.take(np.flatnonzero(gone.kind == EXACT))  # of the others, the object itself is forgotten already
        self._forget(gone.key, gone.last, gone.values)

    def grow(self) -> None:
        """Room for all keys known."""
        more = len(self.line.keys) - len(self.forgotten)
        if more > 0:
            self.forgotten = np.concatenate([self.forgotten, np.full(more, NO_WINDOW)])
            self.ranked = np.concatenate([self.ranked, np.zeros(more, np.bool_)])

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
        if self.unscored.shape[1] and self.line.window is not None:
            self.unscored = self.unscored[:, self.unscored[2] >= self.line.window]

    def keys_held(self) -> np.ndarray:
        """The keys of what is kept."""
        return np.concatenate([self.list.listed.key, self.unscored[1]])

    def renumber(self, codes: np.ndarray, number: np.ndarray) -> None:
        """Keys have other numbers now: these codes stay, and `number` has the new one of each."""
        self.list.listed = self.list.listed._replace(key=number[self.list.listed.key])
        self.unscored[1] = number[self.unscored[1]]
        there = codes[codes < len(self.forgotten)]
        self.forgotten, self.ranked = self.forgotten[there], self.ranked[there]

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

    def refreshed(self, changed: np.ndarray) -> None:
        """Remote rows of these keys are others now: give their objects their new scores."""
        if not len(changed):
            return
        listed = self.list.listed
        on = np.isin(listed.key, changed) & (listed.kind == EXACT)
        waits = np.isin(self.unscored[1], changed)
        there = np.stack([listed.slot[on], listed.key[on], listed.last[on]])
        there = np.concatenate([there, self.unscored[:, waits]], axis=1)
        there = there[:, there[2] >= self.list.oldest]
        slots, first = np.unique(there[0], return_index=True)
        _, keys, last = there[:, first]
        away = changed[changed < len(self.forgotten)]
        away = away[self.forgotten[away] >= self.list.oldest]
        if self.line.join.each == "key":
            away = away[~np.isin(away, keys)]
        self.unscored = self.unscored[:, ~waits]
        if len(slots):
            rows = self.payload.take(slots)
            assert rows is not None
            new, without = self._objects(rows, slots, keys, last)
            self._wait(slots, keys, last, without)
            self._list(new, keys)
        if len(away):
            self._unlisted(away)

    def _unlisted(self, keys: np.ndarray) -> None:
        """Changed objects that were forgotten: a bound of their score, from the stream values of their window."""
        line, known = self.line, self.extremes
        last = self.forgotten[keys]
        found = known.limits(keys, last)
        last = last[found.which]
        shown = np.zeros(len(last), np.bool_)
        bounded = line.join.refresh.unlisted == "bound" and line.join.each == "key"
        if bounded and not known.filtered:  # its score still exists
            shown = self.ranked[keys][found.which] & (found.low > -np.inf)
        hidden = ~shown & ~np.isnan(found.high)
        self.list.doubt(found.high[hidden], last[hidden])
        if line.join.each == "row":
            return
        slot = self.payload.add(known.rows(keys)) if shown.any() else keys
        kind = BOUND if known.bounded else GUESS
        new = Listed.of(
            found.low,
            slot[found.which],
            keys[found.which],
            last,
            found.part,
            kind=kind,
            upper=found.high,
            values=np.full((len(last), len(known.columns)), np.nan),
        ).take(np.flatnonzero(shown))
        self._list(new, keys)

    # ------------------------------------------------------------ answers

    def answer(self, window: int, now: int) -> Answer:
        """The window's k best."""
        line = self.line
        best, status = self.list.answer(window, line.query.k)
        place = np.where(line.replica.first[best.key] < 0, -1, line.replica.first[best.key] + best.part)
        rows = self.payload.take(best.slot) if len(best.slot) else None
        remote = line.replica.take(place) if len(place) else None
        age = ages(line, best.key, now)
        short = len(best.key) < line.query.k and self.list.forgot(window)
        found = Answer(line.clock.end(window), now, best.score, best.key, place, status, rows, remote, age)
        return found._replace(incomplete=short)

    def expire(self, oldest: int) -> None:
        """Close all windows before `oldest`."""
        self.list.expire(oldest)
        self.extremes.expire(oldest)

    def tidy(self) -> None:
        """Drop rows that no object needs."""
        if len(self.payload) > 2 * self._kept + _SPARE:
            self.clean()

    def clean(self) -> None:
        """Keep the rows of the objects, and no others."""
        self._drop_expired()
        self.payload.keep(np.concatenate([self.list.listed.slot, self.unscored[0]]))
        self._kept = len(self.payload)


def _no_rows() -> np.ndarray:
    return np.empty((3, 0), np.int64)


def rescored(line: Board, rows: pa.Table, key: np.ndarray, values: Mapping[str, np.ndarray]) -> np.ndarray:
    """The scores of rows with each of several remote values: (rows, worlds)."""
    worlds = next(iter(values.values())).shape[1] if values else 1
    which = np.repeat(np.arange(len(key)), worlds)
    by, join = line.query.by, line.join
    wanted = [n for n in by.columns if n in rows.column_names] if isinstance(by, Expression) else rows.column_names
    repeated = rows.select(wanted).take(pa.array(which))
    remote = line.replica.take(line.replica.first[key])
    many = dict(zip(wanted, repeated.columns, strict=True))
    for name in join.columns:
        if name in values:
            many[name] = pa.array(values[name].ravel())
        else:
            many[name] = pa.nulls(len(which)) if remote is None else remote[name].take(pa.array(which))
    from skyband.runtime.score import scores

    score = scores(by, pa.table(many)).reshape(len(key), worlds)
    return -score if line.query.ascending else score
