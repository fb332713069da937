"""Objects whose score is given by a stream row and its remote row: kept on the Super-MTK+N list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from skyband.engines.validation import require, section, typed_column, validate
from skyband.operators.lookup_join.join_list import NO_WINDOW, Arrivals, JoinList, ListAnswer
from skyband.operators.lookup_join.policies import Candidates
from skyband.operators.lookup_join.topkn import APPROXIMATE, BOUND, EXACT, ListedObjects, TopKN
from skyband.operators.lookup_join.value_ranges import ValueRanges
from skyband.windows import MIN_TIME

if TYPE_CHECKING:
    from skyband.operators.lookup_join.remote_rows import RemoteRows
    from skyband.query import TopK
    from skyband.runtime.protocols import Context

_UNBOUNDED = 1 << 40  # the size of a list that forgets nothing
_COLUMNS = {
    **{f"unscored/{name}": typed_column("i8", "unscored") for name in ("time", "id", "key", "last")},
    "forgotten": typed_column("i8", "keys"),
    "had_score": typed_column("?", "keys"),
}


class StreamRows(NamedTuple):
    """Stream rows as columns."""

    time: np.ndarray
    id: np.ndarray
    key: np.ndarray
    last: np.ndarray  # the last window that holds it

    def take(self, places: np.ndarray) -> StreamRows:
        """Return the rows at these places."""
        return StreamRows(*(column[places] for column in self))

    def append(self, other: StreamRows) -> StreamRows:
        """Return these rows and others behind them."""
        return StreamRows(*(np.concatenate(pair) for pair in zip(self, other, strict=True)))


class CandidateList(JoinList):
    """The list, and the rows that wait for a remote row.

    Objects that are pushed off the list are forgotten. Of each key it is known up to which window it has a forgotten
    object: when the remote row of such a key changes, whoever looked it up, the object's score can be anything in the
    range that the stream's values leave, and the status of answers tells so.
    """

    def __init__(
        self, place: int, query: TopK, remote: RemoteRows, context: Context, window: int | None = None
    ) -> None:
        super().__init__(place, query, remote, context, window)
        refresh = self.join.refresh
        self._width = query.k + refresh.spare
        cap = _UNBOUNDED if getattr(self.policy, "whole", False) else self._width + refresh.reserve
        self.ranges = ValueRanges(query, context.schema, remote)
        self.list = TopKN(cap, 0, self.assigner.ratio, len(self.ranges.columns))
        self._unscored = StreamRows(*np.empty((4, 0), np.int64))  # rows that wait for a remote row
        self._forgotten = np.empty(0, np.int64)  # by key: the last window of a forgotten object
        self._had_score = np.empty(0, np.bool_)  # by key: whether that object had a score

    def __len__(self) -> int:
        return len(self.list)

    @property
    def peak(self) -> int:  # type: ignore[override]
        """The most objects ever on the list."""
        return self.list.peak

    # ------------------------------------------------------------ rows in

    def add(self, arrivals: Arrivals) -> None:
        """Take the rows of a pane: the chosen ones are objects."""
        rows, chosen = arrivals.rows, arrivals.chosen
        if rows is None or not len(chosen):
            return
        if self.window is not None and self.list.oldest != self.window:  # windows without a row were passed over
            self.expire(self.window)
        time, key = arrivals.time[chosen], arrivals.key[chosen]
        new = StreamRows(time, arrivals.id[chosen], key, np.asarray(self.assigner.last(time)))
        replaced = key if self.join.each == "key" else None
        if replaced is not None:  # older objects of the key do not count any more
            self._forgotten[key[key < len(self._forgotten)]] = NO_WINDOW
            self._unscored = self._unscored.take(~np.isin(self._unscored.key, replaced))
        objects, without = self._objects(rows, new)
        if len(without):
            waits = self.remote.replica.unread(key[without]) | self._lacks_value(key[without])
            self._unscored = self._unscored.append(new.take(without[waits]))
            drop = without[~waits]
            self._forget(key[drop], new.last[drop], self.ranges.numbers(rows.take(pa.array(drop))), had_score=False)
        if len(objects.score) > self.list.cap:  # one pane: only the best of it can stay
            best = objects.ranking()
            rest = objects.take(best[self.list.cap :])
            self.list.note_forgotten(rest.score, rest.last)
            self._forget(rest.key, rest.last, rest.values)
            objects = objects.take(best[: self.list.cap])
        self._insert(objects, replaced)

    def _without_replaced(self, arrivals: Arrivals) -> Arrivals:
        """Return rows without objects that a newer row of their key, taken before, has replaced."""
        if self.join.each == "row":
            return arrivals
        time, key = arrivals.time[arrivals.chosen], arrivals.key[arrivals.chosen]
        return arrivals.choose(time >= self.newest_time[key])

    def _objects(self, rows: pa.Table, new: StreamRows) -> tuple[ListedObjects, np.ndarray]:
        """Join stream rows with their remote rows; return the objects that have a score, and the rows without one."""
        replica = self.remote.replica
        which, part, place = replica.places(new.key)
        joined = rows if len(which) == rows.num_rows else rows.take(pa.array(which))
        score = self.remote.score(self.query, joined, place)
        good = ~np.isnan(score)
        self.context.counters["without_score"] += int((~good & ~replica.unread(new.key)[which]).sum())
        scored = np.flatnonzero(good)
        values = self.ranges.numbers(rows)[which]
        objects = ListedObjects.of(score, *new.take(which), part, values=values)
        without = np.ones(len(new.key), np.bool_)
        without[which[scored]] = False
        return objects.take(scored), np.flatnonzero(without)

    def _lacks_value(self, key: np.ndarray) -> np.ndarray:
        """Return which keys have no remote row, or one that lacks a value that every score needs."""
        which, _, place = self.remote.replica.places(key)
        found = np.zeros(len(key), np.bool_)
        found[which[self.ranges.lacks_value(place)]] = True
        return found

    def _forget(self, key: np.ndarray, last: np.ndarray, values: np.ndarray, *, had_score: bool = True) -> None:
        """Note that objects of these keys are not kept any more."""
        if len(key):
            self.make_room()
            np.maximum.at(self._forgotten, key, last)
            self._had_score[key] = had_score
            self.ranges.add(last, values)

    def _insert(self, objects: ListedObjects, replaced: np.ndarray | None) -> None:
        """Put objects on the list, in place of those with a key in `replaced`."""
        gone = self.list.insert(objects, replaced)
        gone = gone.take(np.flatnonzero(gone.status == EXACT))  # the objects of bounds were forgotten before
        self._forget(gone.key, gone.last, gone.values)

    def make_room(self) -> None:
        """Have room for all keys."""
        super().make_room()
        more = len(self.remote.keys) - len(self._forgotten)
        if more > 0:
            self._forgotten = np.concatenate([self._forgotten, np.full(more, NO_WINDOW)])
            self._had_score = np.concatenate([self._had_score, np.zeros(more, np.bool_)])

    def expire(self, oldest: int) -> None:
        """Forget what belongs to windows before `oldest` only."""
        self.list.expire(oldest)
        self.ranges.expire(oldest)

    # ------------------------------------------------------------ the remote side

    def _unread(self, before: int) -> np.ndarray:
        self._drop_expired()
        keys, replica = self._unscored.key, self.remote.replica
        return np.unique(keys[replica.unread(keys) | (replica.time[keys] <= before)])

    def waits_for(self, keys: np.ndarray) -> np.ndarray:
        """Return which keys have rows that wait for a score."""
        return np.isin(keys, self._unscored.key)

    def _drop_expired(self) -> None:
        if self.window is not None:
            self._unscored = self._unscored.take(self._unscored.last >= self.window)

    def candidates(self) -> Candidates:
        """Return the list by remote key."""
        listed, assigner = self.list.listed, self.assigner
        inside = self.list.within(self._width)
        keys, first, where, rows = np.unique(listed.key, return_index=True, return_inverse=True, return_counts=True)
        order = np.argsort(first)
        chosen = np.zeros(len(keys), np.bool_)
        chosen[where[inside]] = True
        best = listed.take(first[order])
        self.make_room()

        def rescore(values: Mapping[str, np.ndarray]) -> np.ndarray:
            stream = self.context.take(best.id, self._columns)
            return self.remote.rescore(self.query, stream, best.key, values)

        return Candidates(
            best.key,
            best.score,
            chosen[order],
            self.newest_time[best.key],
            rows[order],
            self.query.k,
            assigner.size,
            assigner.slide,
            rescore,
            best.id,
        )

    def update(self, keys: np.ndarray) -> None:
        """Compute the scores of objects whose remote rows have changed."""
        if not len(keys):
            return
        listed, waiting = self.list.listed, np.isin(self._unscored.key, keys)
        known = np.isin(listed.key, keys) & (listed.status == EXACT)
        there = StreamRows(listed.time, listed.id, listed.key, listed.last).take(known)
        there = there.append(self._unscored.take(waiting))
        there = there.take(there.last >= self.list.oldest)
        there = there.take(np.unique(there.id, return_index=True)[1])  # a row may have several remote rows
        self.make_room()
        forgotten = keys[self._forgotten[keys] >= self.list.oldest]
        if self.join.each == "key":
            forgotten = forgotten[~np.isin(forgotten, there.key)]
        self._unscored = self._unscored.take(~waiting)
        if len(there.id):
            objects, without = self._objects(self.context.take(there.id, self._columns), there)
            self._unscored = self._unscored.append(there.take(without))
            self._insert(objects, there.key)
        if len(forgotten):
            self._update_forgotten(forgotten)

    def _update_forgotten(self, keys: np.ndarray) -> None:
        """Bound the scores of forgotten objects whose remote rows have changed, by the values of their window."""
        last = self._forgotten[keys]
        found = self.ranges.limits(keys, last)
        which, last = found.which, last[found.which]
        shown = np.zeros(len(last), np.bool_)
        bounds = self.join.refresh.unlisted == "bound" and self.join.each == "key"
        if bounds and not self.ranges.filtered:  # its score still exists
            shown = self._had_score[keys][which] & (found.low > -np.inf)
        hidden = ~shown & ~np.isnan(found.high)
        self.list.note_forgotten(found.high[hidden], last[hidden])
        if self.join.each == "row":
            return
        ids = self.context.add(self.ranges.rows(keys)) if shown.any() else keys
        objects = ListedObjects.of(
            found.low,
            np.full(len(last), self.latest),
            ids[which],
            keys[which],
            last,
            found.part,
            status=BOUND if self.ranges.bounded else APPROXIMATE,
            upper=found.high,
            values=np.full((len(last), len(self.ranges.columns)), np.nan),
        )
        self._insert(objects.take(np.flatnonzero(shown)), keys)

    # ------------------------------------------------------------ answers

    def answer(self) -> ListAnswer:
        """Return the k best of the window that closes next."""
        assert self.window is not None
        k, first = self.query.k, self.remote.replica.first
        best, status = self.list.answer(self.window, k)
        place = np.where(first[best.key] < 0, -1, first[best.key] + best.part)
        short = len(best.key) < k and self.list.has_forgotten(self.window)
        return ListAnswer(best.id, best.key, best.score, place, status, incomplete=short)

    # ------------------------------------------------------------ what is kept

    def live_ids(self) -> np.ndarray:
        """Return the ids of objects on the list, and of rows that wait for a remote row."""
        self._drop_expired()
        return np.concatenate([self.list.listed.id, self._unscored.id])

    def kept_keys(self) -> np.ndarray:
        """Return the keys of objects on the list, and of rows that wait for a remote row."""
        return np.concatenate([self.list.listed.key, self._unscored.key])

    def keep_keys(self, codes: np.ndarray, number: np.ndarray) -> None:
        """Forget all keys but these."""
        super().keep_keys(codes, number)
        self.list.listed = self.list.listed._replace(key=number[self.list.listed.key])
        self._unscored = self._unscored._replace(key=number[self._unscored.key])
        self._forgotten, self._had_score = self._forgotten[codes], self._had_score[codes]

    def snapshot(self) -> dict[str, Any]:
        """Return all that is needed to go on elsewhere."""
        self._drop_expired()
        return {
            **super().snapshot(),
            **{f"listed/{name}": column for name, column in self.list.snapshot().items()},
            **{f"unscored/{name}": column for name, column in self._unscored._asdict().items()},
            "forgotten": self._forgotten,
            "had_score": self._had_score,
            **self.ranges.snapshot(self.assigner),
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Go on from a snapshot."""
        super().restore(saved)
        old = "listed/time" not in saved
        saved = self._with_times(saved) if old else saved
        self.list.restore(section(saved, "listed/"))
        self.ranges.restore(saved, self.list.oldest, self.assigner)
        listed = self.list.listed
        if len(listed.id):
            values = self.ranges.numbers(self.context.take(listed.id, self._columns))
            self.list.listed = listed._replace(values=values)
        tells = "forgotten" in saved
        none = {"forgotten": np.empty(0, np.int64), "had_score": np.empty(0, np.bool_)}
        found = validate(saved if tells else {**none, **saved}, _COLUMNS)
        self._unscored = StreamRows(*(found[f"unscored/{name}"] for name in StreamRows._fields))
        self._forgotten, self._had_score = found["forgotten"], found["had_score"]
        kept, keys = self.kept_keys(), len(self.remote.keys)
        require((kept >= 0) & (kept < keys), "there are rows of keys that never came")
        require(len(self._forgotten) <= keys, "there are forgotten rows of keys that never came")
        if not tells:
            self._forget_all()

    # ------------------------------------------------------------ snapshots of formats 1 and 2

    def _with_times(self, saved: Mapping[str, Any]) -> dict[str, Any]:
        """Return a snapshot with the times of rows, for which the start of their last window stands.

        Ids rise with time, and so must what stands for it.
        """
        found = dict(saved)
        if "unscored/last" not in saved:  # format 1
            found["unscored/last"] = self._last_windows(saved["unscored/id"], saved["unscored/key"])
        for part in ("listed", "unscored"):
            ids, start = found[f"{part}/id"], self.assigner.start(found[f"{part}/last"])
            order = np.argsort(ids, kind="stable")
            time = np.empty(len(ids), np.int64)
            time[order] = np.maximum.accumulate(start[order]) if len(ids) else start
            found[f"{part}/time"] = time
        return found

    def _last_windows(self, ids: np.ndarray, keys: np.ndarray) -> np.ndarray:
        """Return the last window that holds each row."""
        require((keys >= 0) & (keys < len(self.newest_time)), "there are rows of keys that never came")
        if self.join.each == "key" or not len(ids):
            return np.asarray(self.assigner.last(self.newest_time[keys]))
        if self.assigner.counts or self.query.time is None:
            return np.asarray(self.assigner.last(ids))
        from skyband.runtime.schema import TimeType

        column = self.context.take(ids, [self.query.time])[self.query.time]
        time, _ = TimeType.of(self.query, self.context.schema.field(self.query.time).type).micros(column)
        return np.asarray(self.assigner.last(time))

    def _forget_all(self) -> None:
        """Assume that all keys may have forgotten objects: format 1 does not tell which have."""
        self.make_room()
        there = np.flatnonzero(self.newest_time > MIN_TIME)
        if self.join.each == "key":
            there = np.setdiff1d(there, self.kept_keys())
        self._forgotten[there] = self.assigner.last(self.newest_time[there])
        self._had_score[there] = not self.ranges.conditional
        if len(there) and self.join.changes is None:
            self.ranges.add_unknown(int(self._forgotten.max()))
        if self.join.each == "row" or self.shares_replica:  # nor does it tell of changes read for other lists
            self.list.note_forgotten(np.full(len(there), np.inf), self._forgotten[there])
