"""Keys whose score uses aggregates over the window: every window to come has scores of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from skyband.engines.validation import require, typed_column, validate
from skyband.operators.lookup_join.join_list import Arrivals, JoinList, ListAnswer
from skyband.operators.lookup_join.policies import Candidates
from skyband.windows import MIN_TIME

if TYPE_CHECKING:
    from skyband.operators.lookup_join.remote_rows import RemoteRows
    from skyband.query import TopK
    from skyband.runtime.protocols import Context

_WINDOWS_AHEAD = 8  # windows to come whose lists are predicted
_COLUMNS = {
    "panes/start": typed_column("i8", "panes"),
    "panes/sizes": typed_column("i8", "panes", low=0),
    **{f"panes/{name}": typed_column("i8", "keys_of_panes") for name in ("key", "id", "time")},
    "panes/values": typed_column("f8", "aggregates", 4, "keys_of_panes"),
}


class Pane(NamedTuple):
    """The rows of one pane, added up by key."""

    start: int
    key: np.ndarray  # ascending
    id: np.ndarray  # of each key's newest row
    time: np.ndarray
    values: np.ndarray  # (aggregates, 4, keys): count, sum, min and max


class WindowKeys(NamedTuple):
    """Keys of a window that have a score, best first."""

    key: np.ndarray
    id: np.ndarray
    time: np.ndarray
    score: np.ndarray
    place: np.ndarray  # of the remote row
    values: list[np.ndarray]  # aggregates over the window

    def take(self, places: np.ndarray | slice) -> WindowKeys:
        """Return the keys at these places."""
        key, ids, time, score, place = (column[places] for column in self[:5])
        return WindowKeys(key, ids, time, score, place, [value[places] for value in self.values])


class AggregateList(JoinList):
    """All keys of the open windows, added up by pane; the ranked list is made of them at each evaluation.

    A score with an aggregate differs from window to window, which the Super-MTK+N list does not allow. So nothing is
    forgotten: all keys of the window are kept, and every window to come has its own scores. Exact, and no larger than
    the keys of the window times the panes in which they came.

    Cost: O(1) a row, O(keys * panes) a window.
    """

    def __init__(
        self, place: int, query: TopK, remote: RemoteRows, context: Context, window: int | None = None
    ) -> None:
        super().__init__(place, query, remote, context, window)
        self.panes: list[Pane] = []  # in the order of time
        self.peak = 0

    def __len__(self) -> int:
        return len(np.unique(self.kept_keys()))

    # ------------------------------------------------------------ rows in

    def add(self, arrivals: Arrivals) -> None:
        """Add up the rows of a pane; the chosen ones are the newest of each key."""
        from skyband.kernels.topkn import gathered

        start = int(self.assigner.pane(int(arrivals.time[0])))
        newest = arrivals.chosen[np.argsort(arrivals.key[arrivals.chosen])]
        keys = arrivals.key[newest]
        place = np.searchsorted(keys, arrivals.key)
        values = np.zeros((len(arrivals.values), 4, len(keys)))
        values[:, 2], values[:, 3] = np.inf, -np.inf
        for number, total in zip(arrivals.values, values, strict=True):
            gathered(place, number, *total)
        self.panes.append(Pane(start, keys, arrivals.id[newest], arrivals.time[newest], values))
        if len(self.panes) > 1 and self.panes[-2].start > start:
            self.panes.sort(key=lambda pane: pane.start)

    def expire(self, oldest: int) -> None:
        """Forget the panes before the start of a window."""
        start = self.assigner.start(oldest)
        self.panes = [pane for pane in self.panes if pane.start >= start]

    def _window(self, start: int, end: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[np.ndarray]]:
        """Return of each key in [start, end): the key, the id and time of its newest row, and the aggregates."""
        panes = [pane for pane in self.panes if start <= pane.start < end]
        if not panes:
            none = np.empty(0, np.int64)
            return none, none, none, [np.empty(0) for _ in self.join.aggregates]
        keys, place = np.unique(np.concatenate([pane.key for pane in panes]), return_inverse=True)
        ids, time = np.full(len(keys), -1), np.full(len(keys), MIN_TIME)
        values = np.zeros((len(self.join.aggregates), 4, len(keys)))
        values[:, 2], values[:, 3] = np.inf, -np.inf
        first = 0
        for pane in panes:  # in the order of time, so that sums come out the same however the rows were cut
            here = place[first : first + len(pane.key)]
            first += len(pane.key)
            newer = pane.time >= time[here]
            ids[here], time[here] = np.where(newer, pane.id, ids[here]), np.where(newer, pane.time, time[here])
            values[:, :2, here] += pane.values[:, :2]
            values[:, 2, here] = np.minimum(values[:, 2, here], pane.values[:, 2])
            values[:, 3, here] = np.maximum(values[:, 3, here], pane.values[:, 3])
        return keys, ids, time, [_value(a.function, v) for a, v in zip(self.join.aggregates, values, strict=True)]

    def _ranked(self, start: int, end: int) -> WindowKeys:
        """Return the keys in [start, end) that have a score, best first."""
        key, ids, time, values = self._window(start, end)
        which, part, place = self.remote.replica.places(key)
        if not len(which):
            return WindowKeys(key, ids, time, np.empty(0), place, values)
        rows = self._rows(ids[which], [value[which] for value in values])
        score = self.remote.score(self.query, rows, place)
        good = np.flatnonzero(~np.isnan(score))
        order = good[np.lexsort((part[good], ~self.remote.ties(key[which[good]]), -score[good]))]
        chosen = which[order]
        values = [value[chosen] for value in values]
        return WindowKeys(key[chosen], ids[chosen], time[chosen], score[order], place[order], values)

    def _rows(self, ids: np.ndarray, values: Sequence[np.ndarray]) -> pa.Table:
        """Return the newest rows with the aggregates."""
        rows = self.context.take(ids, self._columns)
        for name, value in zip(self.join.aggregate_names, values, strict=True):
            rows = rows.append_column(name, pa.array(value, from_pandas=True))
        return rows

    # ------------------------------------------------------------ the remote side

    def _unread(self, before: int) -> np.ndarray:
        assert self.window is not None
        keys = self._window(self.assigner.start(self.window), self.assigner.end(self.window))[0]
        replica = self.remote.replica
        absent = (replica.count[keys] == 0) & (replica.time[keys] <= before)
        return keys[replica.unread(keys) | absent]

    def waits_for(self, keys: np.ndarray) -> np.ndarray:
        """Return that no key has such rows: scores are computed at each evaluation."""
        return np.zeros(len(keys), np.bool_)

    def update(self, keys: np.ndarray) -> None:
        """Do nothing: scores are computed at each evaluation."""

    def candidates(self) -> Candidates:
        """Return the keys of the window; listed are the k + spare best of it and of windows to come, as of now."""
        assert self.window is not None
        assigner, window, width = self.assigner, self.window, self.query.k + self.join.refresh.spare
        end = assigner.end(window)
        ranked = self._ranked(assigner.start(window), end)
        first = np.sort(np.unique(ranked.key, return_index=True)[1])
        best = ranked.take(first)
        rows = np.bincount(ranked.key, minlength=len(self.remote.keys))[best.key] if len(best.key) else first
        listed = [best.key[:width]]
        later = range(window + 1, min(self.last_window, window + _WINDOWS_AHEAD) + 1)
        listed += [self._ranked(assigner.start(w), end).key[:width] for w in later]
        self.peak = max(self.peak, len(np.unique(np.concatenate(listed))))

        def rescore(values: Mapping[str, np.ndarray]) -> np.ndarray:
            return self.remote.rescore(self.query, self._rows(best.id, best.values), best.key, values)

        return Candidates(
            best.key,
            best.score,
            np.isin(best.key, np.concatenate(listed)),
            best.time,
            rows,
            self.query.k,
            assigner.size,
            assigner.slide,
            rescore,
            self.remote.ties(best.key) if len(first) else None,
        )

    def answer(self) -> ListAnswer:
        """Return the k best of the window that closes next."""
        assert self.window is not None
        found = self._ranked(self.assigner.start(self.window), self.assigner.end(self.window))
        best = found.take(slice(self.query.k))
        return ListAnswer(best.id, best.key, best.score, best.place, np.zeros(len(best.key), np.int64), best.values)

    # ------------------------------------------------------------ what is kept

    def live_ids(self) -> np.ndarray:
        """Return the ids of the newest rows of all keys and panes."""
        return np.concatenate([np.empty(0, np.int64), *(pane.id for pane in self.panes)])

    def kept_keys(self) -> np.ndarray:
        """Return the keys of all panes."""
        return np.concatenate([np.empty(0, np.int64), *(pane.key for pane in self.panes)])

    def keep_keys(self, codes: np.ndarray, number: np.ndarray) -> None:
        """Forget all keys but these."""
        super().keep_keys(codes, number)
        self.panes = [pane._replace(key=number[pane.key]) for pane in self.panes]

    def snapshot(self) -> dict[str, Any]:
        """Return all panes, one after the other."""
        saved = super().snapshot()
        saved["panes/start"] = np.array([pane.start for pane in self.panes], np.int64)
        saved["panes/sizes"] = np.array([len(pane.key) for pane in self.panes], np.int64)
        for name in ("key", "id", "time"):
            saved[f"panes/{name}"] = np.concatenate([np.empty(0, np.int64), *(getattr(p, name) for p in self.panes)])
        none = np.empty((len(self.join.aggregates), 4, 0))
        saved["panes/values"] = np.concatenate([none, *(pane.values for pane in self.panes)], axis=2)
        return saved

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Go on from a snapshot."""
        super().restore(saved)
        found = validate(saved, _COLUMNS, aggregates=len(self.join.aggregates))
        start, sizes, key, ids, time, values = (found[name] for name in _COLUMNS)
        require(sizes <= len(key), "a pane has more keys than there are")
        require(sizes.sum() == len(key), "the panes have other keys than there are")
        require(np.diff(start) >= 0, "the panes are not in the order of time")
        require((key >= 0) & (key < len(self.remote.keys)), "there are rows of keys that never came")
        count = values[:, 0]
        require((count >= 0) & (count < 1 << 53) & (count == np.floor(count)), "a count is not a whole number")
        cuts = np.cumsum(sizes)[:-1]
        columns = (np.split(column, cuts) for column in (key, ids, time))
        parts = zip(start.tolist(), *columns, np.split(values, cuts, axis=2), strict=True)
        self.panes = [Pane(*part) for part in parts] if len(start) else []


def _value(function: str, parts: np.ndarray) -> np.ndarray:
    count, total, low, high = parts
    if function == "count":
        return count
    value = {"sum": total, "min": low, "max": high}.get(function)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(count > 0, total / count if value is None else value, np.nan)
