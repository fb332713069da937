"""Refresh policies: which remote values to read again before an answer is emitted.

A policy is a plain value, choose(candidates, replica, budget, now) -> ids, the most wanted first.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from skyband.query.join import POLICIES, Choose

if TYPE_CHECKING:
    from skyband.operators.lookup_join.replica import Replica

Rescore = Callable[[Mapping[str, np.ndarray]], np.ndarray]
"""From remote columns, each (objects, worlds), to the scores that the objects would have with them."""


@dataclass(frozen=True)
class Candidates:
    """The objects of the window that closes, by remote key, best first by the values in the replica.

    Examples
    --------
    >>> c = Candidates.of(id=[7, 3], score=[2.0, 1.0], k=1)
    >>> c.id[c.listed].tolist()
    [7, 3]
    """

    id: np.ndarray  # int64: the key's number in the replica
    score: np.ndarray  # by the replica
    listed: np.ndarray  # whether it is among the k + spare best of this window or of one to come
    time: np.ndarray  # int64: when its newest row came
    rows: np.ndarray  # int64: how many objects have this key
    k: int
    size: int = 1  # of the window
    slide: int = 1
    rescore: Rescore | None = None
    tie: np.ndarray | None = None  # of equal scores the larger ranks first

    @classmethod
    def of(cls, *, id: object, score: object, k: int, **more: object) -> Candidates:
        """Make candidates with default values for the fields that are not given."""
        ids = np.asarray(id, np.int64)
        usual = {
            "listed": np.ones(len(ids), np.bool_),
            "time": np.zeros(len(ids), np.int64),
            "rows": np.ones(len(ids), np.int64),
        }
        return cls(ids, np.asarray(score, np.float64), k=k, **{**usual, **more})  # type: ignore[arg-type]

    def ids(self, *, whole: bool) -> np.ndarray:
        """Return the ids on the list, or with `whole` all of the window."""
        return self.id if whole else self.id[self.listed]


@dataclass(frozen=True)
class RefreshPolicy(ABC):
    """What a join asks before each answer.

    Parameters
    ----------
    whole
        Consider all objects of the window, as ACQUA's WSJ does, and not only those on the list.
    unlimited
        The budget does not apply.
    """

    whole: bool = False
    unlimited: bool = False

    @abstractmethod
    def __call__(self, candidates: Candidates, replica: Replica, budget: int, now: int) -> np.ndarray:
        """Return the ids to look up, the most wanted first."""


@dataclass(frozen=True)
class Never(RefreshPolicy):
    """WST: read nothing again."""

    def __call__(self, candidates: Candidates, replica: Replica, budget: int, now: int) -> np.ndarray:
        """Return no id."""
        del replica, budget, now
        return candidates.id[:0]


@dataclass(frozen=True)
class Top(RefreshPolicy):
    """AT-TSM: from the top of the list down.

    References
    ----------
    AcquaTop, section 5.2.1.
    """

    def __call__(self, candidates: Candidates, replica: Replica, budget: int, now: int) -> np.ndarray:
        """Return the best of the list."""
        del replica, now
        return candidates.ids(whole=self.whole)[:budget]


@dataclass(frozen=True)
class Border(RefreshPolicy):
    """AT-BSM: around the border between the k best and those behind, alternating, beginning just below it.

    References
    ----------
    AcquaTop, section 5.2.2. With an odd budget the text leaves open on which side the odd one is: the authors'
    sums come out with it below the border.
    """

    def __call__(self, candidates: Candidates, replica: Replica, budget: int, now: int) -> np.ndarray:
        """Return those nearest to the border."""
        del replica, now
        listed = candidates.ids(whole=self.whole)
        place = np.arange(len(listed))
        distance = np.where(place >= candidates.k, 2 * (place - candidates.k), 2 * (candidates.k - 1 - place) + 1)
        return listed[np.argsort(distance, kind="stable")[:budget]]


@dataclass(frozen=True)
class All(RefreshPolicy):
    """AT-ASM: the whole list, whatever the budget: the best result that the list allows.

    References
    ----------
    AcquaTop, section 5.2.3.
    """

    unlimited: bool = True

    def __call__(self, candidates: Candidates, replica: Replica, budget: int, now: int) -> np.ndarray:
        """Return the list."""
        del replica, budget, now
        return candidates.ids(whole=self.whole)


@dataclass(frozen=True)
class Oracle(All):
    """The truth: everything in the window is read, so answers are exact. What other policies are compared with."""

    whole: bool = True


@dataclass(frozen=True)
class Lru(RefreshPolicy):
    """AT-LRU and WSJ-LRU: the longest unread first."""

    def __call__(self, candidates: Candidates, replica: Replica, budget: int, now: int) -> np.ndarray:
        """Return the longest unread."""
        del now
        ids = candidates.ids(whole=self.whole)
        return ids[np.lexsort((-ids, replica.time[ids]))[:budget]]


@dataclass(frozen=True)
class Random(RefreshPolicy):
    """WSJ-RND: any of the window, the same at the same moment."""

    whole: bool = True

    def __call__(self, candidates: Candidates, replica: Replica, budget: int, now: int) -> np.ndarray:
        """Return a random choice."""
        del replica
        ids = candidates.ids(whole=self.whole)
        return np.random.default_rng([0, abs(now)]).permutation(ids)[:budget]


@dataclass(frozen=True)
class Wbm(RefreshPolicy):
    """AT-WBM and WSJ-WBM: of those past their best-before time, those that will be used and fresh for longest.

    The score is min(L, V): for how many slides the object stays in a window, and for how many its value would hold
    once read. `interval` has the mean time between changes by id; without it, the replica's estimate counts.

    References
    ----------
    AcquaTop, section 3.2, after ACQUA. Erratum: the text leaves the estimator of the change interval open. Best
    before is the last reading plus the interval; read again, it is the next multiple of the interval after now.
    """

    interval: Mapping[int, float] | None = field(default=None, compare=False)

    def __call__(self, candidates: Candidates, replica: Replica, budget: int, now: int) -> np.ndarray:
        """Return those with the highest min(L, V)."""
        pool = np.ones(len(candidates.id), np.bool_) if self.whole else candidates.listed
        ids, time = candidates.id[pool], candidates.time[pool]
        if self.interval is None:
            interval = candidates.slide / replica.watched_rate(ids)
        else:
            interval = np.array([self.interval.get(int(i), np.inf) for i in ids])
        with np.errstate(invalid="ignore"):
            steps = np.where(np.isfinite(interval), np.ceil((now - replica.time[ids]) / interval), 0)
            renewed = replica.time[ids] + (steps + 1) * interval
        return wbm(ids, time, replica.time[ids] + interval, renewed, (candidates.size, candidates.slide), now)[:budget]


def wbm(
    ids: np.ndarray, time: np.ndarray, best: np.ndarray, renewed: np.ndarray, window: tuple[int, int], now: int
) -> np.ndarray:
    """Return ids past their best-before time, by min(L, V), then the longest past it.

    Examples
    --------
    The paper's example (section 3.2): at 5, with windows of 5 every 2, A, B and E are past their time and score 1,
    1 and 3. The times of arrival are filled in.

    >>> wbm(np.arange(3), np.array([2, 2, 5]), np.array([4, 4, 4]), np.array([11, 10, 12]), (5, 2), 5).tolist()
    [2, 0, 1]
    """
    size, slide = window
    life = np.ceil((time + size - now) / slide)
    fresh = np.ceil((renewed - now) / slide)
    order = np.lexsort((best, -np.minimum(life, fresh)))
    return ids[order[best[order] <= now]]


@dataclass(frozen=True)
class Likely(RefreshPolicy):
    """Our own: spend each look-up where the answer is most likely to be wrong without it.

    From the replica's record (how often values of an age have changed, how often a key changes, what a change looks
    like) it draws worlds that may be true. It considers all candidates, on the list or not, and first takes those that
    most often are in the answer, by the replica or in truth, with another value than the replica's. Of these it leaves
    out, one by one, the look-ups whose absence costs the answer least, until the budget is met. The cost is the
    expected loss of nDCG@k and of precision@k together, so a value counts by its chance of having crossed a
    neighbour's score, and a crossing at the top of the answer by more than one below. It counts again for the next
    window, if the object is in it, by the chance that what is read now still holds then; look-ups that this window
    does not need go to the values of the next one that are most likely wrong.

    With a budget of 2 k and more AT-TSM and AT-BSM are one rule, and a good one: a look-up of theirs is then given up
    only for one that is worth clearly more, the more clearly the less values last. Where less than a quarter of them
    last a slide (or that is not known yet), all stale values are alike: then it is AT-TSM, and what the list leaves of
    the budget goes to the objects behind it.

    The two measures diverge where the answer is longer than the budget: nDCG@k is nearly all in its first few places,
    precision@k is lost at its end. `hit` sets the weight of one against the other.

    Cost: O(objects * worlds) an evaluation, and O(most * worlds * most) at the worst of the usual cases to choose:
    about 2 ms with 40 objects.

    Examples
    --------
    The best was read at this moment; the other may have passed it since.

    >>> import pyarrow as pa
    >>> from skyband.operators.lookup_join.replica import Replica
    >>> replica = Replica(("y",), unit=10)
    >>> replica.make_room(2)
    >>> for now, ids, values in ((0, [0, 1], [9, 8]), (10, [0, 1], [2, 4]), (20, [0], [5])):
    ...     _ = replica.update(np.array(ids), np.array(ids), pa.table({"y": values}), now)
    >>> found = Candidates.of(id=[0, 1], score=[5, 4], k=1, rescore=lambda drawn: drawn["y"])
    >>> Likely()(found, replica, 1, 20).tolist(), Top()(found, replica, 1, 20).tolist()
    ([1], [0])
    """

    worlds: int = 512
    hit: float = 16.72  # weight of precision against nDCG for k 1 and a budget of 1
    future: float = 2.0  # weight of the next window against this one
    later: float = 0.003  # worth of a value that the next window needs where this one does not
    doubt: float = 0.2  # how much more a look-up must be worth than one of AT-TSM's, where half of the values last
    least: float = 0.25  # the share of values that must last a slide for the record to tell more than the list
    most: int = 40
    seed: int = 0

    def compile(self) -> None:
        """Compile the kernel ahead."""
        from skyband.kernels.likely import spared

        one = np.ones(1)
        spared(np.zeros(1), np.zeros((1, 1)), one, one, 1, 1, self.hit, np.ones(1, np.bool_))

    def __call__(self, candidates: Candidates, replica: Replica, budget: int, now: int) -> np.ndarray:
        """Return those that the answer needs most."""
        ids, n = candidates.id, len(candidates.id)
        if n <= budget or candidates.rescore is None:
            return ids[:budget]
        lasts = replica.lasts()
        both = budget >= 2 * candidates.k  # AT-TSM and AT-BSM are one: all of the answer, and as many behind it
        if both and lasts < self.least:
            return ids[np.argsort(~candidates.listed, kind="stable")[:budget]]
        return self._choose(candidates, replica, budget, now, self.doubt * (1 - lasts) / lasts if both else 0.0)

    def _choose(self, candidates: Candidates, replica: Replica, budget: int, now: int, doubt: float) -> np.ndarray:
        from skyband.kernels.likely import spared

        ids, stale, n = candidates.id, candidates.score, len(candidates.id)
        assert candidates.rescore is not None
        rng = np.random.default_rng([self.seed, abs(now)])
        drawn = candidates.rescore(replica.draws(ids, self.worlds, rng))
        wrong = replica.stale(ids, now)
        gone = rng.random(drawn.shape) < wrong[:, None]
        worlds = np.where(gone & np.isfinite(drawn), drawn, stale[:, None])
        if candidates.tie is not None:  # equal scores are common, and it is known which of them ranks first
            step = np.argsort(np.argsort(candidates.tie)) * (1e-9 * (1 + np.abs(stale).max()) / n)
            worlds, stale = worlds + step[:, None], stale + step
        k, pool = min(candidates.k, n), np.arange(n)
        if n > max(self.most, budget):
            inside = worlds >= np.partition(worlds, n - k, axis=0)[n - k]
            inside[:k] = True
            often = (inside & (worlds != stale[:, None])).mean(axis=1)
            pool = np.sort(np.argsort(-often, kind="stable")[: max(self.most, budget)])
        stays = candidates.time[pool] + candidates.size > now + candidates.slide
        holds = stays * replica.lasting(ids[pool])
        listed = candidates.listed[pool]
        trust = 1 + doubt * (listed & (np.cumsum(listed) <= budget))  # in AT-TSM's choice
        weight = trust * (1 + self.future * holds)
        later = trust * self.later * holds * wrong[pool]
        keep = np.ones(len(pool), np.bool_)
        possible = np.ascontiguousarray(worlds[pool].T)
        # with more look-ups nDCG has less left to lose than precision; in a longer answer too, for its first few
        # places still are nearly all of it, while the border, where precision is lost, is further from them
        hit = min(self.hit / (k**0.25 * budget**1.5), 2.8)
        loss = spared(stale[pool], possible, weight, later, k, budget, hit / k, keep)
        chosen = np.flatnonzero(keep)
        return ids[pool[chosen[np.argsort(-loss[chosen], kind="stable")]]]


NAMED_POLICIES: dict[str, RefreshPolicy] = {
    "never": Never(),
    "top": Top(),
    "border": Border(),
    "all": All(),
    "at-lru": Lru(),
    "at-wbm": Wbm(),
    "wsj-rnd": Random(),
    "wsj-lru": Lru(whole=True),
    "wsj-wbm": Wbm(whole=True),
    "likely": Likely(),
}
assert NAMED_POLICIES.keys() == POLICIES.keys()


def resolve_policy(policy: str | Choose) -> Choose:
    """Return the policy of a name; a function is one already."""
    return NAMED_POLICIES[policy] if isinstance(policy, str) else policy
