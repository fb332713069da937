"""How large a view may grow: kmax policies, as values.

A policy is asked when the view must be refilled, and now and then after a batch that needed no refill: when a fifth
more batches have come than at the last time, in all or since the last refill, for few of them tell anything that those
before did not. It sees what was counted and answers with a kmax. All of them are frozen and hold no state.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from skyband.errors import QueryError
from skyband.view.fields import whole_number
from skyband.view.swings import WALK, Swing

if TYPE_CHECKING:
    from skyband.view.model import Costs


_ENOUGH = 100  # updates for each of the k rows, before a view may shrink because it never fell far
_LEAST = 3  # so far any view may fall
_SIGMAS = 3  # good and bad updates that differ by less are taken to be equally likely
_NOTHING = 1e-3  # the part of its updates' cost at which refills are no matter, however large a view may be
_DEAR = 750.0  # changes that can be ignored cost as much as one that cannot: 0.3 ns, and 230 far from the nearest cache
_LESS = 0.95  # of kmax: a smaller one is worth the change
_SIZES = np.geomspace(1e-3, 16, 400)  # that are compared, as parts of kmax
_JENSEN = 1.83  # E[1 / Z] * E[Z] of the walk with p = q


class Seen(NamedTuple):
    """What a view has counted since its last refill."""

    k: int  # with fewer rows the table is asked: k of the view, or its `refill_at`
    kmax: int
    rows: int  # of the base table
    size: int  # of the view
    least: int  # smallest size of the view
    updates: int
    good: int
    bad: int
    refill_cost: float  # seconds of the last refill
    update_cost: float  # seconds of an update, the mean of late
    relevant: float = 0.01  # the part of the updates that concern the view, of late
    swing: Swing = WALK  # how far the size falls, how often
    walk: Swing = WALK  # the same if it walks at random, whatever it has done so far


class Policy(Protocol):
    """Chooses kmax."""

    def start(self, k: int, rows: int) -> int:
        """The first kmax, for a table of so many rows."""

    def refilled(self, seen: Seen) -> int:
        """The kmax to refill to."""

    def rested(self, seen: Seen) -> tuple[int, float]:
        """The kmax after batches without a refill, and how many updates now count as seen since the last one."""


@dataclass(frozen=True)
class Fixed:
    """Always the same kmax.

    Examples
    --------
    >>> Fixed(300).start(100, 1_000_000)
    300
    """

    kmax: int

    def __post_init__(self) -> None:
        whole_number("kmax", self.kmax)

    def start(self, k: int, rows: int) -> int:  # noqa: ARG002 - Policy
        """The kmax, at least k."""
        return max(k, self.kmax)

    def refilled(self, seen: Seen) -> int:
        """The kmax, at least k."""
        return max(seen.k, self.kmax)

    def rested(self, seen: Seen) -> tuple[int, float]:
        """No change."""
        return seen.kmax, seen.updates


@dataclass(frozen=True)
class Root:
    """k and a multiple of the root of the table's size: enough where rows come and go alike (theorem 1).

    Examples
    --------
    >>> Root().start(100, 1_000_000)
    1100
    """

    factor: float = 1.0

    def __post_init__(self) -> None:
        _check(self, factor=0.0)

    def start(self, k: int, rows: int) -> int:
        """K + factor * sqrt(rows)."""
        return k + math.ceil(self.factor * math.sqrt(rows))

    def refilled(self, seen: Seen) -> int:
        """The same for the table as it is now."""
        return self.start(seen.k, seen.rows)

    def rested(self, seen: Seen) -> tuple[int, float]:
        """No change."""
        return seen.kmax, seen.updates


@dataclass(frozen=True)
class Adaptive:
    """Figure 7 of the paper, aimed at refills that cost the part `share` of what updates cost.

    The refill interval is held near a goal Z0 = cost of a refill / (share * cost of an update). A refill earlier than
    Z0 / alpha enlarges kmax, by at most the part beta; none within alpha * Z0 updates takes the part gamma of what was
    never needed away. Where more rows leave than enter (p > q) no small view serves long: kmax stays below
    k + cap * sqrt(rows).

    With `watch` it need not wait so long: how far the size falls over stretches of all lengths tells how often it will
    fall how far, whether it walks at random or swings about a mean (`swings`). In a smaller view fewer rows come and
    go, and it falls less far, by the root of that. What a spare row costs is known too, from the part of the changes
    that concern the view. So kmax shrinks to where both together are expected to cost least; after a refill that came
    too early it is at least what a walk at random asks for. It starts with k + sqrt(rows) / 2, or more in
    a small table. The paper's own, at which refills cost as much as updates, is `Adaptive(share=1, watch=False)`.

    Examples
    --------
    >>> Adaptive().start(100, 1_000_000)
    600
    >>> seen = Seen(k=10, kmax=100, rows=1000, size=9, least=9, updates=50, good=5, bad=96,
    ...             refill_cost=1.0, update_cost=0.001)
    >>> printed = Adaptive(share=1, watch=False)
    >>> printed.refilled(seen), printed.rested(seen._replace(updates=4000, least=60))
    (150, (75, 1000.0))

    References
    ----------
    Yi et al., ICDE 2003, section 7 and figure 7. Ours are the cap, for section 4.5, the share and the watch.
    """

    alpha: float = 2.0
    beta: float = 0.5
    gamma: float = 0.5
    cap: float = 10.0
    share: float = 0.05
    watch: bool = True

    def __post_init__(self) -> None:
        _check(self, alpha=1.0, beta=0.0, gamma=0.0, cap=0.0, share=0.0)
        if self.gamma > 1:
            msg = f"gamma={self.gamma!r} takes away more than was spare: write a number of at most 1"
            raise QueryError(msg)

    def start(self, k: int, rows: int) -> int:
        """Half the root of the rows, or enough for rows that come and go each on its own, at most the root of the rows.

        The latter is n with n^2 = 72 (k + n): how far k + n such rows swing in 8,000 times as long as one stays
        (`Swings.laws`). The paper's own starts with rows^0.6.
        """
        if self.watch:
            root, own = math.sqrt(rows), 36 + math.sqrt(36**2 + 72 * k)
            return k + math.ceil(min(max(root / 2, own), root))
        return max(k, min(round(rows**0.6), max(rows, 1)))

    def refilled(self, seen: Seen) -> int:
        """Larger if the refill came too early."""
        goal = _interval(seen) / self.share
        kmax = seen.kmax
        if seen.updates < goal / self.alpha:
            kmax = math.ceil(min(goal / (self.alpha * max(seen.updates, 1)), 1 + self.beta) * kmax)
            if self.watch:
                kmax = max(kmax, seen.k + math.ceil(_spare(seen, seen.walk)))
        return max(seen.k, min(kmax, _most(seen, self.cap)))

    def rested(self, seen: Seen) -> tuple[int, float]:
        """Smaller if no refill came for long."""
        goal = _interval(seen) / self.share
        if self.watch and seen.updates >= _ENOUGH * seen.k:
            enough = seen.k + math.ceil(_spare(seen, seen.swing))
            if enough < _LESS * seen.kmax:
                return enough, seen.updates
        if seen.updates <= self.alpha * goal:
            return seen.kmax, seen.updates
        less = seen.kmax - int(self.gamma * max(seen.least - seen.k, 0))  # a whole table may have fewer than k rows
        return max(seen.k, less), (1 - self.gamma) * self.alpha * goal


@dataclass(frozen=True)
class Modelled:
    """The kmax at which the random-walk model expects the least cost, from the good and bad updates seen so far.

    Where more rows leave than enter (p > q) no small view serves long: kmax is then held at `cap` times the root
    of the table's size. Between refills it shrinks to where they cost the part `share` of what updates cost.

    Examples
    --------
    >>> seen = Seen(k=10, kmax=100, rows=10_000, size=9, least=9, updates=50_000, good=2_000, bad=2_000,
    ...             refill_cost=1.0, update_cost=0.0001)
    >>> 40 < Modelled().refilled(seen) < 400
    True

    References
    ----------
    Yi et al., ICDE 2003, sections 3.1 and 4.
    """

    cap: float = 10.0
    share: float = 0.05

    def __post_init__(self) -> None:
        _check(self, cap=0.0, share=0.0)

    def start(self, k: int, rows: int) -> int:
        """As `Root`, until something has been seen."""
        return Root().start(k, rows)

    def refilled(self, seen: Seen) -> int:
        """The kmax of the least expected cost."""
        from skyband.view.model import Costs, cheapest

        if seen.updates < 1 or not seen.bad:
            return seen.kmax
        p, q = _chances(seen)
        most = _most(seen, self.cap)
        most = min(most, seen.k + _rows_for(_interval(seen) / _NOTHING, p, q, most - seen.k))
        costs: Costs = Costs(refill=seen.refill_cost, update=max(seen.update_cost, 1e-12))
        return max(seen.k, cheapest(seen.k, most, p, q, costs))

    def rested(self, seen: Seen) -> tuple[int, float]:
        """Smaller where lemma 1 says that refills would still cost next to nothing."""
        from skyband.view.model import expected_interval

        less = int(0.8 * seen.kmax) - seen.k
        if less < 1 or seen.updates < _ENOUGH * seen.k:
            return seen.kmax, seen.updates
        goal, chances = _JENSEN * _interval(seen) / self.share, _chances(seen)
        if expected_interval(less, *chances) < goal:
            return seen.kmax, seen.updates
        return seen.k + _rows_for(goal, *chances, less), seen.updates


def _check(chosen: Policy, **above: float) -> None:
    """Refuse numbers that are not above these."""
    for field, least in above.items():
        value = getattr(chosen, field)
        if isinstance(value, bool) or not isinstance(value, int | float) or not least < value < math.inf:
            msg = f"{field}={value!r} is no part or multiple: write a number above {least:g}"
            raise QueryError(msg)


def _chances(seen: Seen) -> tuple[float, float]:
    """The chances p and q; equal where what was seen is no proof that they differ."""
    bad, good = max(seen.bad, _LEAST), max(seen.good, _LEAST)
    if abs(bad - good) < _SIGMAS * math.sqrt(bad + good):
        bad = good = max(bad, good)
    updates = max(seen.updates, bad + good)
    return bad / updates, good / updates


def _rows_for(goal: float, p: float, q: float, most: int) -> int:
    """The least n, up to `most`, whose expected interval reaches the goal (lemma 1)."""
    from skyband.view.model import expected_interval

    low, high = 1, max(most, 1)
    while low < high:
        middle = (low + high) // 2
        if expected_interval(middle, p, q) < goal:
            low = middle + 1
        else:
            high = middle
    return low


def _most(seen: Seen, cap: float) -> int:
    """No view is larger: k and `cap` times the root of the table's size, and never the whole table."""
    return max(seen.k, min(seen.k + math.ceil(cap * math.sqrt(seen.rows)), seen.rows))


def _spare(seen: Seen, law: Swing) -> float:
    """How many rows more than k are expected to cost least, if the size falls as this law says.

    Each spare row makes updates dearer by the same part, and refills come the later. A view of other size falls less or
    more far, by the root of its rows.

    Examples
    --------
    >>> seen = Seen(k=100, kmax=1100, rows=1_000_000, size=950, least=900, updates=10**8, good=10**4, bad=10**4,
    ...             refill_cost=0.1, update_cost=1e-9, relevant=0.0015)
    >>> cheap, calm, walk = seen._replace(refill_cost=0.001), Swing(90.0, 1e7), Swing(900.0, 1e9)
    >>> [round(_spare(one, law)) for one in (seen, cheap) for law in (calm, walk)]
    [105, 381, 53, 63]
    """
    dear = _DEAR * seen.relevant
    a_row = max(dear / (1 + dear) / seen.kmax, 1e-12)  # the part of an update's cost
    spare = np.maximum(_SIZES * seen.kmax, 1.0)
    cost = a_row * spare + _interval(seen) / law.interval(spare / np.sqrt((seen.k + spare) / seen.kmax))
    return float(spare[np.argmin(cost)])


def _interval(seen: Seen) -> float:
    """The refill interval at which refills and updates cost the same."""
    return seen.refill_cost / max(seen.update_cost, 1e-12)


_KINDS: dict[str, Any] = {kind.__name__: kind for kind in (Fixed, Root, Adaptive, Modelled)}
_NAMED = {"sqrt": Root, "adaptive": Adaptive, "model": Modelled}


def written(chosen: Policy) -> str | None:
    """One of our policies as a text; None for others.

    Examples
    --------
    >>> written(Root()), read(written(Root(2.0)))
    ('{"kind": "Root", "factor": 1.0}', Root(factor=2.0))
    """
    kind = type(chosen).__name__
    return json.dumps({"kind": kind, **vars(chosen)}) if _KINDS.get(kind) is type(chosen) else None


def read(text: str) -> Policy:
    """The policy that was `written`."""
    found = json.loads(text)
    return _KINDS[found.pop("kind")](**found)


def policy(kmax: int | str | Policy, k: int) -> Policy:
    """The policy that `kmax=` names.

    Examples
    --------
    >>> policy("sqrt", 10), policy(200, 10)
    (Root(factor=1.0), Fixed(kmax=200))
    """
    if isinstance(kmax, str):
        if kmax not in _NAMED:
            msg = f"kmax={kmax!r} is unknown: write a number of rows, {', '.join(map(repr, _NAMED))}, or a policy"
            raise QueryError(msg)
        return _NAMED[kmax]()
    if isinstance(kmax, int | np.integer) and not isinstance(kmax, bool):
        return Fixed(whole_number("kmax", kmax, k))
    if isinstance(kmax, type) or not all(hasattr(kmax, name) for name in ("start", "refilled", "rested")):
        msg = f"kmax={kmax!r} is no policy: write a number of rows, {', '.join(map(repr, _NAMED))}, or a policy"
        raise QueryError(msg)
    return kmax  # type: ignore[return-value]  # checked above
