"""How large a view may grow: kmax policies, as frozen values without state.

A policy is asked at every refill, and now and then between refills: after 1, 4, 13, 32 batches without a refill, then
whenever a fifth more have come. It gets what the view has measured and returns a kmax.
"""

from __future__ import annotations

import json
import math
import warnings
from bisect import bisect_left
from dataclasses import dataclass
from numbers import Integral
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

import numpy as np

from skyband.query.validation import check_integer, check_number, invalid
from skyband.view.drawdown import UNKNOWN, DrawdownLaw
from skyband.view.model import Costs, best_kmax, expected_interval

KmaxName = Literal["sqrt", "adaptive", "model"]

MAX_VIEW_ROWS = 1 << 26
"""Upper limit of `k`, `kmax` and `refill_at`."""

_UPDATES_PER_ROW = 100  # for each of the k rows, before a view may shrink because its drawdowns were small
_MIN_COUNT = 3  # good and bad updates that are assumed at least
_SIGMAS = 3  # good and bad updates that differ by less are taken to be equally likely
_NEGLIGIBLE = 1e-3  # share of the updates' cost below which fewer refills gain nothing
_RELEVANT_COST = 750.0  # cost of a change that concerns the view over one that does not: 230 ns (cache misses) to 0.3
_MIN_GAIN = 0.95  # of kmax: only a smaller one is worth a change
_SIZES = np.geomspace(1e-3, 16, 400)  # of spare rows that are compared, relative to kmax
_JENSEN = 1.83  # E[1 / Z] * E[Z] of the random walk with p = q


@dataclass(frozen=True)
class WorkloadStats:
    """What a view has measured since its last refill; a policy decides on it."""

    k: int  # with fewer rows the view is refilled: its k, or its `refill_at`
    kmax: int
    rows: int  # of the table
    size: int  # of the view
    min_size: int
    updates: int
    good: int
    bad: int
    refill_cost: float  # seconds of the last refill
    update_cost: float  # seconds of an update, a moving mean
    relevant: float = 0.01  # share of the updates that concern the view, a moving mean
    drawdown: DrawdownLaw = UNKNOWN  # as measured
    random_walk: DrawdownLaw = UNKNOWN  # the same, if the size never reverts to a mean

    def __getattr__(self, name: str) -> Any:
        """The fields by their names in version 0.1."""
        renamed = {"least": "min_size", "swing": "drawdown", "walk": "random_walk"}
        if name not in renamed:
            raise AttributeError(name)
        warnings.warn(f"{name} is now {renamed[name]}", DeprecationWarning, stacklevel=2)
        return getattr(self, renamed[name])

    @property
    def break_even(self) -> float:
        """The refill interval, in updates, at which refills and updates cost the same."""
        return self.refill_cost / max(self.update_cost, 1e-12)


class KmaxPolicy(Protocol):
    """Chooses kmax."""

    def initial_kmax(self, k: int, rows: int) -> int:
        """The first kmax, for a table of `rows` rows."""

    def kmax_on_refill(self, stats: WorkloadStats) -> int:
        """The kmax to refill to."""

    def kmax_between_refills(self, stats: WorkloadStats) -> tuple[int, float]:
        """The kmax after batches without a refill, and how many updates count as seen since the last one."""


@dataclass(frozen=True)
class Fixed:
    """Always the same kmax.

    Examples
    --------
    >>> Fixed(300).initial_kmax(100, 1_000_000)
    300
    """

    kmax: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "kmax", check_integer("kmax", self.kmax, 1, MAX_VIEW_ROWS))

    def initial_kmax(self, k: int, rows: int) -> int:  # noqa: ARG002 - KmaxPolicy
        """The kmax, at least k."""
        return max(k, self.kmax)

    def kmax_on_refill(self, stats: WorkloadStats) -> int:
        """The kmax, at least k."""
        return max(stats.k, self.kmax)

    def kmax_between_refills(self, stats: WorkloadStats) -> tuple[int, float]:
        """No change."""
        return stats.kmax, stats.updates


@dataclass(frozen=True)
class Sqrt:
    """k plus a multiple of the square root of the table's size: enough if as many rows enter as leave (theorem 1).

    Examples
    --------
    >>> Sqrt().initial_kmax(100, 1_000_000)
    1100
    """

    factor: float = 1.0

    def __post_init__(self) -> None:
        check_number("factor", self.factor, above=0)

    def initial_kmax(self, k: int, rows: int) -> int:
        """Return k + factor * sqrt(rows)."""
        return k + math.ceil(self.factor * math.sqrt(rows))

    def kmax_on_refill(self, stats: WorkloadStats) -> int:
        """The same as the first kmax."""
        return self.initial_kmax(stats.k, stats.rows)

    def kmax_between_refills(self, stats: WorkloadStats) -> tuple[int, float]:
        """No change."""
        return stats.kmax, stats.updates


@dataclass(frozen=True)
class Adaptive:
    """Figure 7 of the paper, with a target for what refills may cost, and a forecast of drawdowns.

    The refill interval is kept near a goal Z0 = cost of a refill / (share * cost of an update). A refill before
    Z0 / alpha updates enlarges kmax, by at most the factor 1 + beta. No refill within alpha * Z0 updates removes the
    share gamma of the rows that were never needed. If more rows leave than enter (p > q), no small view lasts long:
    kmax stays at most k + cap * sqrt(rows).

    With `watch`, kmax shrinks sooner: the drawdowns measured so far forecast how often a smaller view is refilled, and
    the share of changes that concern the view gives the cost of a spare row. kmax becomes that of the least expected
    sum. After a refill that came too early, it is at least what a random walk needs. It starts with k + sqrt(rows) / 2,
    or more for a small table. `Adaptive(share=1, watch=False)` is the algorithm as printed.

    Examples
    --------
    >>> from dataclasses import replace
    >>> Adaptive().initial_kmax(100, 1_000_000)
    600
    >>> early = WorkloadStats(k=10, kmax=100, rows=1000, size=9, min_size=9, updates=50, good=5, bad=96,
    ...                       refill_cost=1.0, update_cost=0.001)
    >>> late = replace(early, updates=4000, min_size=60)
    >>> printed = Adaptive(share=1, watch=False)
    >>> printed.kmax_on_refill(early), printed.kmax_between_refills(late)
    (150, (75, 1000.0))

    References
    ----------
    Yi et al., ICDE 2003, section 7 and figure 7. Not in the paper: the cap (for section 4.5), `share` and `watch`.
    """

    alpha: float = 2.0
    beta: float = 0.5
    gamma: float = 0.5
    cap: float = 10.0
    share: float = 0.05
    watch: bool = True

    def __post_init__(self) -> None:
        check_number("alpha", self.alpha, above=1)
        for name in ("beta", "gamma", "cap", "share"):
            check_number(name, getattr(self, name), above=0)
        if self.gamma > 1:
            raise invalid("gamma", "be at most 1", self.gamma)

    def initial_kmax(self, k: int, rows: int) -> int:
        """Half the square root of the rows, or enough for independent rows, at most the square root of the rows.

        The second is the n with n^2 = 72 (k + n): the drawdown of k + n independent rows within 8,000 times the time
        one of them stays (`DrawdownTracker.fit`). The paper's algorithm starts with rows^0.6.
        """
        if self.watch:
            root, independent = math.sqrt(rows), 36 + math.sqrt(36**2 + 72 * k)
            return k + math.ceil(min(max(root / 2, independent), root))
        return max(k, min(round(rows**0.6), max(rows, 1)))

    def kmax_on_refill(self, stats: WorkloadStats) -> int:
        """Enlarge kmax if the refill came too early."""
        goal = stats.break_even / self.share
        kmax = stats.kmax
        if stats.updates < goal / self.alpha:
            kmax = math.ceil(min(goal / (self.alpha * max(stats.updates, 1)), 1 + self.beta) * kmax)
            if self.watch:
                kmax = max(kmax, stats.k + math.ceil(_spare(stats, stats.random_walk)))
        return max(stats.k, min(kmax, _max_kmax(stats, self.cap)))

    def kmax_between_refills(self, stats: WorkloadStats) -> tuple[int, float]:
        """Shrink kmax if no refill came for long."""
        goal = stats.break_even / self.share
        if self.watch and stats.updates >= _UPDATES_PER_ROW * stats.k:
            cheapest = stats.k + math.ceil(_spare(stats, stats.drawdown))
            if cheapest < _MIN_GAIN * stats.kmax:
                return cheapest, stats.updates
        if stats.updates <= self.alpha * goal:
            return stats.kmax, stats.updates
        unneeded = max(stats.min_size - stats.k, 0)  # a view of a whole table may have fewer than k rows
        return max(stats.k, stats.kmax - int(self.gamma * unneeded)), (1 - self.gamma) * self.alpha * goal


@dataclass(frozen=True)
class CostModel:
    """The kmax of the least expected cost by the random-walk model, from the good and bad updates so far.

    If more rows leave than enter (p > q), no small view lasts long: kmax is at most k + cap * sqrt(rows). Between
    refills it shrinks until refills are expected to cost the share `share` of what updates cost.

    Examples
    --------
    >>> stats = WorkloadStats(k=10, kmax=100, rows=10_000, size=9, min_size=9, updates=50_000, good=2_000, bad=2_000,
    ...                       refill_cost=1.0, update_cost=0.0001)
    >>> 40 < CostModel().kmax_on_refill(stats) < 400
    True

    References
    ----------
    Yi et al., ICDE 2003, sections 3.1 and 4.
    """

    cap: float = 10.0
    share: float = 0.05

    def __post_init__(self) -> None:
        check_number("cap", self.cap, above=0)
        check_number("share", self.share, above=0)

    def initial_kmax(self, k: int, rows: int) -> int:
        """The same as `Sqrt`."""
        return Sqrt().initial_kmax(k, rows)

    def kmax_on_refill(self, stats: WorkloadStats) -> int:
        """The kmax of the least expected cost."""
        if stats.updates < 1 or not stats.bad:
            return stats.kmax
        p, q = _probabilities(stats)
        limit = _max_kmax(stats, self.cap)
        limit = min(limit, stats.k + _rows_for_interval(stats.break_even / _NEGLIGIBLE, p, q, limit - stats.k))
        costs = Costs(refill=stats.refill_cost, update=max(stats.update_cost, 1e-12))
        return max(stats.k, best_kmax(stats.k, limit, p, q, costs))

    def kmax_between_refills(self, stats: WorkloadStats) -> tuple[int, float]:
        """Shrink kmax if lemma 1 expects rare refills of a smaller view."""
        smaller = int(0.8 * stats.kmax) - stats.k
        if smaller < 1 or stats.updates < _UPDATES_PER_ROW * stats.k:
            return stats.kmax, stats.updates
        goal, (p, q) = _JENSEN * stats.break_even / self.share, _probabilities(stats)
        if expected_interval(smaller, p, q) < goal:
            return stats.kmax, stats.updates
        return stats.k + _rows_for_interval(goal, p, q, smaller), stats.updates


def _probabilities(stats: WorkloadStats) -> tuple[float, float]:
    """The probabilities p and q of bad and good updates; equal unless the counts differ significantly."""
    bad, good = max(stats.bad, _MIN_COUNT), max(stats.good, _MIN_COUNT)
    if abs(bad - good) < _SIGMAS * math.sqrt(bad + good):
        bad = good = max(bad, good)
    updates = max(stats.updates, bad + good)
    return bad / updates, good / updates


def _rows_for_interval(goal: float, p: float, q: float, limit: int) -> int:
    """The least n, up to `limit`, whose expected interval reaches the goal (lemma 1)."""
    candidates = range(1, max(limit, 1))
    return 1 + bisect_left(candidates, goal, key=lambda n: expected_interval(n, p, q))


def _max_kmax(stats: WorkloadStats, cap: float) -> int:
    """The limit k + cap * sqrt(rows), at most the whole table."""
    return max(stats.k, min(stats.k + math.ceil(cap * math.sqrt(stats.rows)), stats.rows))


def _spare(stats: WorkloadStats, law: DrawdownLaw) -> float:
    """The number of rows beyond k with the least expected cost under a law of drawdowns.

    Each spare row adds the same share to the cost of an update, and makes refills rarer. Drawdowns of a view of another
    size change with the square root of its rows.

    Examples
    --------
    >>> dear = WorkloadStats(k=100, kmax=1100, rows=1_000_000, size=950, min_size=900, updates=10**8, good=10**4,
    ...                      bad=10**4, refill_cost=0.1, update_cost=1e-9, relevant=0.0015)
    >>> from dataclasses import replace
    >>> cheap = replace(dear, refill_cost=0.001)
    >>> reverting, random_walk = DrawdownLaw(90.0, 1e7), DrawdownLaw(900.0, 1e9)
    >>> [round(_spare(stats, law)) for stats in (dear, cheap) for law in (reverting, random_walk)]
    [105, 381, 53, 63]
    """
    relevant = _RELEVANT_COST * stats.relevant
    cost_of_row = max(relevant / (1 + relevant) / stats.kmax, 1e-12)  # as a share of an update's cost
    spare = np.maximum(_SIZES * stats.kmax, 1.0)
    drawdown = spare / np.sqrt((stats.k + spare) / stats.kmax)
    cost = cost_of_row * spare + stats.break_even / law.interval(drawdown)
    return float(spare[np.argmin(cost)])


_BY_NAME = {"sqrt": Sqrt, "adaptive": Adaptive, "model": CostModel}
_STORED: dict[str, Any] = {"Fixed": Fixed, "Root": Sqrt, "Adaptive": Adaptive, "Modelled": CostModel}  # in snapshots


def policy_to_json(policy: KmaxPolicy) -> str | None:
    """One of the policies above as text; None for a user's own.

    Examples
    --------
    >>> policy_to_json(Sqrt()), policy_from_json(policy_to_json(Sqrt(2.0)))
    ('{"kind": "Root", "factor": 1.0}', Sqrt(factor=2.0))
    """
    for kind, stored in _STORED.items():
        if type(policy) is stored:
            return json.dumps({"kind": kind, **vars(policy)})
    return None


def policy_from_json(text: str) -> KmaxPolicy:
    """The policy that `policy_to_json` wrote."""
    fields = json.loads(text)
    return _STORED[fields.pop("kind")](**fields)


_RENAMED_METHODS = {"start": "initial_kmax", "refilled": "kmax_on_refill", "rested": "kmax_between_refills"}


def kmax_policy(kmax: int | KmaxName | KmaxPolicy, k: int) -> KmaxPolicy:
    """Return the policy that `kmax=` stands for.

    Examples
    --------
    >>> kmax_policy("sqrt", 10), kmax_policy(200, 10)
    (Sqrt(factor=1.0), Fixed(kmax=200))
    """
    if isinstance(kmax, str) and kmax in _BY_NAME:
        return _BY_NAME[kmax]()
    if isinstance(kmax, Integral) and not isinstance(kmax, bool):
        return Fixed(check_integer("kmax", kmax, k, MAX_VIEW_ROWS))
    methods = {
        new: getattr(kmax, old, None) or getattr(kmax, new, None) for old, new in _RENAMED_METHODS.items()
    }  # a subclass may override a method by its old name
    if isinstance(kmax, type) or None in methods.values():
        names = ", ".join(map(repr, _BY_NAME))
        raise invalid("kmax", f"be a number of rows, one of {names}, or a policy of skyband.view.policy", kmax)
    renamed = [f"{old} is now {new}" for old, new in _RENAMED_METHODS.items() if hasattr(kmax, old)]
    if not renamed:
        return cast("KmaxPolicy", kmax)
    warnings.warn(f"rename the methods of kmax={kmax!r}: {', '.join(renamed)}", DeprecationWarning, stacklevel=4)
    return cast("KmaxPolicy", SimpleNamespace(**methods))


_RENAMED_CLASSES = {"Root": "Sqrt", "Modelled": "CostModel", "Policy": "KmaxPolicy", "Seen": "WorkloadStats"}


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """The classes by their names in version 0.1."""
        if name not in _RENAMED_CLASSES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        warnings.warn(f"{name} is now {_RENAMED_CLASSES[name]}", DeprecationWarning, stacklevel=2)
        return globals()[_RENAMED_CLASSES[name]]
