"""The AcquaTop experiments in columns: the same policies and replica as in the engine, without a stream around them.

A comparison of ten policies takes the engine half a minute, most of it spent on rows, tables and look-ups that are the
same each time. Here windows, true values and true answers are made once for a set; a test holds it to the engine.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import log2
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from skyband.operators.lookup_join.policies import Candidates, resolve_policy
from skyband.operators.lookup_join.replica import NOT_READ, Replica
from skyband.runtime.ids import id_numbers
from skyband_lab.bench.acquatop import SIZE, SLIDE, START, WINDOWS

if TYPE_CHECKING:
    from skyband.query.join import Choose
    from skyband_lab.bench.acquatop import Evening


class Window(NamedTuple):
    """The users of one window: how often they came, when last, and their true values; and those of the next so far."""

    end: int  # ms
    user: np.ndarray
    mentions: np.ndarray
    last: np.ndarray
    value: np.ndarray
    next_user: np.ndarray
    next_mentions: np.ndarray


class Sums(NamedTuple):
    """What a policy reached over all windows."""

    ndcg: float
    precision: float
    lookups: int


class Replay:
    """An evening, ready for any number of policies and budgets.

    Cost: about two seconds to get ready, then a millisecond a window and what the policy takes.
    """

    def __init__(self, evening: Evening) -> None:
        self._evening = evening
        stream = evening.mentions["user"].to_numpy()
        users = np.array(list(dict.fromkeys([*evening.initial["user"].to_pylist(), *stream.tolist()])), np.int64)
        self._tie = np.asarray(id_numbers(pa.chunked_array([users]), "user"))
        order = np.argsort(users)

        def codes(ids: np.ndarray) -> np.ndarray:
            return order[np.searchsorted(users, ids, sorter=order)]

        past = evening.past.filter(pa.array(np.isin(evening.past["user"].to_numpy(), users)))
        whose, when = codes(past["user"].to_numpy()), past["at"].to_numpy()
        sort = np.lexsort((when, whose))
        self._when, self._value = when[sort], past["dfc"].to_numpy().astype(np.float64)[sort]
        self._first = np.searchsorted(whose[sort], np.arange(len(users) + 1))
        start = evening.initial
        self._initial = codes(start["user"].to_numpy()), start["ts"].to_numpy(), start["dfc"].to_numpy()
        self._windows = list(self._cut(evening.mentions["ts"].to_numpy(), codes(stream)))

    def _cut(self, time: np.ndarray, user: np.ndarray) -> Iterator[Window]:
        for number in range(WINDOWS):
            begin, end = START + number * SLIDE, START + number * SLIDE + SIZE
            mine = self._seen(time, user, begin, end)
            following, again, _ = self._seen(time, user, begin + SLIDE, end)
            yield Window(end, *mine, self._true(mine[0], end), following, again)

    @staticmethod
    def _seen(time: np.ndarray, user: np.ndarray, begin: int, end: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        inside = (time >= begin) & (time < end)
        users, place, count = np.unique(user[inside], return_inverse=True, return_counts=True)
        last = np.zeros(len(users), np.int64)
        np.maximum.at(last, place, time[inside])
        return users, count, last

    def _true(self, users: np.ndarray, moment: int) -> np.ndarray:
        """The values just before a moment."""
        found = np.full(len(users), np.nan)
        for at, user in enumerate(users.tolist()):
            low, high = self._first[user], self._first[user + 1]
            place = low + np.searchsorted(self._when[low:high], moment) - 1
            if place >= low:
                found[at] = self._value[place]
        return found

    def _score(self, mentions: np.ndarray, value: np.ndarray) -> np.ndarray:
        low, high = self._evening.low, self._evening.high
        return np.asarray(0.7 * (mentions - 1) + 0.3 * (value - low) / (high - low))

    def _ranked(self, user: np.ndarray, score: np.ndarray) -> np.ndarray:
        """Places by score, ties by user, without those that have none."""
        order = np.lexsort((~self._tie[user], -score))
        return order[: int((~np.isnan(score)).sum())]

    def _start(self) -> Replica:
        user, when, value = self._initial
        replica = Replica(("dfc",), SLIDE * 1000)
        replica.make_room(len(self._tie))
        replica.update(np.unique(user), user, pa.table({"dfc": value}), START * 1000)
        replica.time[user] = when * 1000
        return replica

    def run(self, policy: str | Choose, k: int, spare: int, budget: int, windows: int = WINDOWS) -> Sums:
        """The sums of nDCG@k and precision@k of the first windows, and the look-ups made."""
        replica, choose = self._start(), resolve_policy(policy)
        total = np.zeros(3)
        for window in self._windows[:windows]:
            total[2] += self._refresh(replica, window, choose, (k, spare, budget), never=policy == "never")
            score = self._score(window.mentions, replica.value["dfc"][window.user])
            answer = self._ranked(window.user, score)[:k].tolist()
            truth = self._ranked(window.user, self._score(window.mentions, window.value))[:k].tolist()
            total[:2] += _compared(answer, truth, k)
        return Sums(float(total[0]), float(total[1]), int(total[2]))

    def _refresh(
        self, replica: Replica, window: Window, choose: Choose, sizes: tuple[int, int, int], *, never: bool
    ) -> int:
        k, spare, budget = sizes
        now, unlimited = window.end * 1000, bool(getattr(choose, "unlimited", False))
        read, absent = replica.time[window.user], replica.count[window.user] == 0
        due = (read == NOT_READ) | (absent & (read <= (now if unlimited else now - SIZE * 1000)))
        fresh = np.flatnonzero(due & (not never))
        fresh = window.user[fresh[np.lexsort((-self._tie[window.user[fresh]], -window.last[fresh]))]]
        chosen = fresh if unlimited else fresh[:budget]
        candidates = self._candidates(replica, window, k, spare)
        if len(candidates.id) and (unlimited or budget > len(chosen)):
            more = np.asarray(choose(candidates, replica, budget - len(chosen), now), np.int64)
            more = more[~np.isin(more, chosen)]
            chosen = np.concatenate([chosen, more if unlimited else more[: budget - len(chosen)]])
        if len(chosen):
            chosen = np.sort(chosen)
            value = self._true(chosen, window.end)
            there = ~np.isnan(value)
            replica.update(chosen, chosen[there], pa.table({"dfc": value[there].astype(np.int64)}), now)
        return len(chosen)

    def _candidates(self, replica: Replica, window: Window, k: int, spare: int) -> Candidates:
        score = self._score(window.mentions, replica.value["dfc"][window.user])
        place = self._ranked(window.user, score)
        ids, mentions = window.user[place], window.mentions[place]
        later = self._score(window.next_mentions, replica.value["dfc"][window.next_user])
        coming = window.next_user[self._ranked(window.next_user, later)[: k + spare]]
        return Candidates(
            ids,
            score[place],
            np.isin(ids, np.concatenate([ids[: k + spare], coming])),
            window.last[place] * 1000,
            np.ones(len(ids), np.int64),
            k,
            SIZE * 1000,
            SLIDE * 1000,
            lambda drawn: self._score(mentions[:, None], drawn["dfc"]),
            self._tie[ids],
        )


def _compared(answer: list[int], truth: list[int], k: int) -> tuple[float, float]:
    """NDCG and precision of one window, as `skyband.evaluate` has them."""
    grade = {item: k - i for i, item in enumerate(truth)}
    ideal = sum((2.0**g - 1) / log2(i + 2) for i, g in enumerate(grade.values()))
    gain = sum((2.0 ** grade.get(item, 0) - 1) / log2(i + 2) for i, item in enumerate(answer))
    there = min(k, len(truth))
    return (gain / ideal if ideal else 1.0, len(set(answer) & set(truth)) / there if there else 1.0)
