"""Runs an engine that knows no groups once for every group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from skyband.engines.protocol import Answers, Engine, EngineClass, Objects, Snapshot
from skyband.engines.validation import checked, held, numbered, require
from skyband.windows import WindowAssigner

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skyband.query import TopK

_NEVER = -(1 << 62)  # before all time
_HOLDS = {"awake": held("i8", "awake", low=0), "peak": held("i8", 1, low=0)}
_NOTHING = Objects(np.empty(0), np.empty(0, np.int64), np.empty(0, np.int64))


class PerGroup:
    """One engine for every group code; rows are dealt out, answers are put in one order.

    As exact as the engine. A group's engine is made when its first row comes; one that keeps nothing and
    has told its empty window is left alone until there is a row for it.

    Cost: one call for every group that has rows or keeps some. Memory: the engines'.

    Examples
    --------
    >>> import skyband as sb
    >>> query = sb.TopK(k=1, by="x", window=sb.Counting(2, 1), per="who")
    >>> rows = {"who": ["a", "b", "a", "a"], "x": [5, 7, 1, 2]}
    >>> best = sb.run(query, rows, engine="mintopk")
    >>> list(zip(best["who"].to_pylist(), best["score"].to_pylist()))
    [('a', 5.0), ('b', 7.0), ('a', 5.0), ('a', 2.0)]
    """

    def __init__(self, engine_class: EngineClass, query: TopK, resume: Mapping[str, np.ndarray] | None = None) -> None:
        self._engine_class = engine_class
        self._query = query
        self._engines: dict[int, Engine] = {}
        self._clock = WindowAssigner.of(query.window)
        self._upto = _NEVER
        self._kept: dict[int, int] = {}  # how many candidates each group has
        self._total = 0  # of all groups
        self._awake: set[int] = set()  # groups whose windows may still close with something to say
        self.peak = 0
        if resume is not None:
            self._restore(resume)

    def advance(self, arrivals: Objects, upto: int | np.ndarray, moved: np.ndarray | None = None) -> Answers:
        """Give every group its arrivals, then close its windows that end by `upto`.

        For counting windows `moved` are the groups whose `upto` is another than before; None: it may be any.
        """
        dealt = deal(arrivals)
        awake: set[int] = self._awake
        if isinstance(upto, np.ndarray):
            awake = awake if moved is None else awake.intersection(moved.tolist())
        else:
            before, self._upto = self._upto, max(self._upto, upto)
            clock = self._clock
            if before > _NEVER and (not clock.slide or clock.next_end(before) > upto):  # nothing closes
                awake = set()
        said: list[tuple[int, Answers]] = []
        for group in sorted(awake | dealt.keys()):
            engine = self._engines.get(group)
            if engine is None:
                engine = self._engines[group] = self._engine_class(self._query, None)
            till = upto[group : group + 1] if isinstance(upto, np.ndarray) else upto
            answers = engine.advance(dealt.get(group, _NOTHING), till)
            self._count(group, engine)
            self._heed(group, answers)
            said.append((group, answers))
        self.peak = max(self.peak, self._total, *(self._engines[group].peak for group, _ in said), 0)
        return _merged(said)

    def _count(self, group: int, engine: Engine) -> None:
        """Note how many candidates a group has."""
        before, self._kept[group] = self._kept.get(group, 0), len(engine.candidates().id)
        self._total += self._kept[group] - before

    def _catch_up(self) -> None:
        """Tell groups without rows how far time has come: after every row they keep what has left the window."""
        if self._clock.slide or self._clock.counts or self._upto == _NEVER:
            return
        for group in sorted(self._awake):
            engine = self._engines[group]
            self._heed(group, engine.advance(_NOTHING, self._upto))
            self._count(group, engine)

    @property
    def switches(self) -> list[Any]:
        """What engines that change their ways did, of all groups by time."""
        every = [switch for engine in self._engines.values() for switch in getattr(engine, "switches", ())]
        return sorted(every, key=lambda switch: switch.time)

    def busy(self) -> np.ndarray:
        """Groups whose windows may still close with something to say; with changes after every row, all groups."""
        self._catch_up()
        if self._clock.slide:
            return np.array(sorted(self._awake), np.int64)
        if self._query.emit == "changes":  # the steps of a group are counted
            return np.array(sorted(self._engines), np.int64)
        return np.array(sorted(group for group, kept in self._kept.items() if kept), np.int64)

    def regroup(self, keep: np.ndarray) -> None:
        """Forget all groups but these; they are numbered anew."""
        old = [int(group) for group in keep]
        self._engines = {new: self._engines[group] for new, group in enumerate(old) if group in self._engines}
        self._kept = {new: self._kept[group] for new, group in enumerate(old) if group in self._kept}
        self._awake = {new for new, group in enumerate(old) if group in self._awake}
        self._total = sum(self._kept.values())

    def candidates(self) -> Objects:
        """What every group keeps, group by group."""
        self._catch_up()
        groups = sorted(self._engines)
        kept = [self._engines[group].candidates() for group in groups]
        codes = np.repeat(np.array(groups, np.int32), [len(objects.id) for objects in kept])
        score, time, id = (np.concatenate([none[at] for none in (_NOTHING, *kept)]) for at in range(3))
        return Objects(score, time, id, codes)

    def snapshot(self) -> Snapshot:
        """Every group's snapshot, its names behind the group's number."""
        named = {
            f"{group}/{name}": array
            for group, engine in self._engines.items()
            for name, array in engine.snapshot().items()
        }
        return {
            **named,
            "awake": np.array(sorted(self._awake), np.int64),
            "peak": np.array([self.peak], np.int64),
        }

    def _restore(self, resume: Mapping[str, np.ndarray]) -> None:
        saved = checked(resume, _HOLDS)
        self._engines = {group: self._engine_class(self._query, part) for group, part in numbered(resume).items()}
        self._kept = {group: len(engine.candidates().id) for group, engine in self._engines.items()}
        self._total = sum(self._kept.values())
        self._awake = {int(group) for group in saved["awake"]}
        require(self._awake <= self._engines.keys(), "awake names a group of which nothing is saved")
        self.peak = int(saved["peak"][0])

    def _heed(self, group: int, answers: Answers) -> None:
        """Whether the group's windows can still close with something to say."""
        spoke = np.diff(answers.first)
        if self._kept[group] or (len(spoke) and spoke[-1] > 0):
            self._awake.add(group)
        elif len(spoke):  # its last list told the empty window
            self._awake.discard(group)


def deal(arrivals: Objects) -> dict[int, Objects]:
    """The rows of each group, in their order."""
    if arrivals.group is None:
        return {0: arrivals} if len(arrivals.id) else {}
    by_group = np.argsort(arrivals.group, kind="stable")
    groups, first = np.unique(arrivals.group[by_group], return_index=True)
    parts = np.split(by_group, first[1:]) if len(groups) else []
    return {
        int(group): Objects(arrivals.score[rows], arrivals.time[rows], arrivals.id[rows])
        for group, rows in zip(groups, parts, strict=True)
    }


def _merged(said: list[tuple[int, Answers]]) -> Answers:
    """All lists as one, by end, group and step."""
    none = Answers(*(np.empty(0, t) for t in ("i8", "i8", "i4", "i8", "i8", "f8")))
    step, end, _, _, id, score = (np.concatenate(c) for c in zip(none[:6], *(a[:6] for _, a in said), strict=True))
    ranks = [a.rank for _, a in said if a.rank is not None]
    group = np.repeat(np.array([g for g, _ in said], np.int32), [len(a.step) for _, a in said])
    sizes = np.concatenate([none.first, *(np.diff(a.first) for _, a in said)])
    order = np.lexsort((step, group, end))
    begins = (np.cumsum(sizes) - sizes)[order]
    sizes = sizes[order]
    first = np.concatenate([[0], np.cumsum(sizes)])
    rows = np.repeat(begins - first[:-1], sizes) + np.arange(first[-1])
    rank = np.concatenate(ranks)[rows] if ranks else None
    return Answers(step[order], end[order], group[order], first, id[rows], score[rows], rank)
