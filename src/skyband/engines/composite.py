"""Engines made of engines: one for every group, or one for every query of a family."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from skyband.engines.family import QueryFamily
from skyband.engines.protocol import Answers, ChangingEngine, Engine, Objects, OneGroupEngine, Snapshot
from skyband.engines.validation import require, section, sections_by_group, typed_column, validate
from skyband.windows import MIN_TIME

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from skyband.engines.family import FamilyMember
    from skyband.engines.protocol import EngineClass
    from skyband.engines.sweep_each_row import SweepEachRow


_SINGLE = {"awake": typed_column("i8", "awake", low=0), "peak": typed_column("i8", 1, low=0)}
_SHARED = {"peak": typed_column("i8", low=0)}
_NOTHING = Objects.empty()


class PerGroup(Engine):
    """One engine for every group code: arrivals are split by group, answers are put in one order.

    As exact as the engine. A group's engine is made when its first row comes. One that keeps no rows and has reported
    its empty window is not called until there is a row for it.

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

    def __init__(
        self, engine_class: EngineClass, family: QueryFamily, resume: Mapping[str, np.ndarray] | None = None
    ) -> None:
        self._engine_class = engine_class
        self._family = family
        self._engines: dict[int, OneGroupEngine] = {}
        self._upto = MIN_TIME
        self._sizes: dict[int, int] = {}  # how many candidates each group has ...
        self._total = 0  # ... and all groups together
        self._active: set[int] = set()
        self.peak = 0
        if resume is not None:
            self._restore(resume)

    def advance(self, arrivals: Objects, upto: int | np.ndarray, moved: np.ndarray | None = None) -> Answers:
        """Give every group its arrivals, then close its windows that end by `upto`."""
        parts = split_by_group(arrivals)
        due = self._due(upto, moved)
        found = []
        for group in sorted(due | parts.keys()):
            if group not in self._engines:
                self._engines[group] = self._make(None)
            engine = self._engines[group]
            end = upto[group : group + 1] if isinstance(upto, np.ndarray) else upto
            answers = engine.advance(parts.get(group, _NOTHING), end)
            self._note(group)
            self.peak = max(self.peak, engine.peak)
            found.append(answers._replace(group=np.full(len(answers.step), group, np.int32)))
        self.peak = max(self.peak, self._total)
        return Answers.concat(found).in_order() if found else Answers.empty(queries=not self._family.is_single)

    def _make(self, resume: Mapping[str, np.ndarray] | None) -> OneGroupEngine:
        return cast("OneGroupEngine", self._engine_class(self._family, resume))

    def _due(self, upto: int | np.ndarray, moved: np.ndarray | None) -> set[int]:
        """Return the groups in which something may happen without a row."""
        if isinstance(upto, np.ndarray):
            return self._active if moved is None else self._active.intersection(moved.tolist())
        before, self._upto = self._upto, max(self._upto, upto)
        clocks = (member.clock for member in self._family.members)
        closes = before == MIN_TIME or any(clock.slide and clock.next_end(before) <= upto for clock in clocks)
        return self._active if closes else set()

    def _note(self, group: int) -> None:
        """Note how many candidates a group has, and whether it is active."""
        engine = self._engines[group]
        before, self._sizes[group] = self._sizes.get(group, 0), len(engine.candidates().id)
        self._total += self._sizes[group] - before
        if self._sizes[group] or engine.owes_empty_list():
            self._active.add(group)
        else:
            self._active.discard(group)

    def _expire(self) -> None:
        """Let groups without arrivals drop what has left the window, which after every row they do only with a row."""
        window = self._family.query.window
        if window.kind == "row" and self._upto > MIN_TIME:
            for group in sorted(self._active):
                self._engines[group].advance(_NOTHING, self._upto)
                self._note(group)

    @property
    def switches(self) -> list[Any]:
        """The changes of method of all groups' engines, by time."""
        every = [switch for engine in self._engines.values() for switch in getattr(engine, "switches", ())]
        return sorted(every, key=lambda switch: switch.time)

    def active_groups(self) -> np.ndarray:
        """Return the groups that keep rows or owe an empty list; all groups if the rows of each are counted."""
        self._expire()
        counted = self._family.query.window.kind == "row" and self._family.query.emit == "changes"
        return np.array(sorted(self._engines if counted else self._active), np.int64)

    def keep_groups(self, keep: np.ndarray) -> None:
        """Forget all groups except these, and number them from 0 on."""
        old = dict(enumerate(keep.tolist()))
        self._engines = {new: self._engines[group] for new, group in old.items() if group in self._engines}
        self._sizes = {new: self._sizes[group] for new, group in old.items() if group in self._sizes}
        self._active = {new for new, group in old.items() if group in self._active}
        self._total = sum(self._sizes.values())

    def change(self, family: QueryFamily, moved: np.ndarray, positions: np.ndarray | None = None) -> None:
        """Continue with other members in every group."""
        self._family = family
        for engine in self._engines.values():
            cast("ChangingEngine", engine).change(family, moved, positions)

    def candidates(self) -> Objects:
        """Return the candidates of all groups, group by group."""
        self._expire()
        kept = {group: self._engines[group].candidates() for group in sorted(self._engines)}
        codes = np.repeat(np.array(list(kept), np.int32), [len(rows.id) for rows in kept.values()])
        return Objects.concat(kept.values())._replace(group=codes)

    def snapshot(self) -> Snapshot:
        """Return every group's snapshot, with the group's code before each name."""
        named = {
            f"{group}/{name}": array
            for group, engine in self._engines.items()
            for name, array in engine.snapshot().items()
        }
        if not self._family.is_single:
            return {**named, "peak": np.array(self.peak)}
        return {**named, "awake": np.array(sorted(self._active), np.int64), "peak": np.array([self.peak], np.int64)}

    def _restore(self, resume: Mapping[str, np.ndarray]) -> None:
        saved = validate(resume, _SINGLE if self._family.is_single else _SHARED)
        self._engines = {group: self._make(part) for group, part in sections_by_group(resume).items()}
        for group in self._engines:
            self._note(group)
        if "awake" in saved:  # not all engines for one query store whether they owe an empty list
            self._active = set(saved["awake"].tolist())
            require(self._active <= self._engines.keys(), "awake names a group of which nothing is saved")
        self.peak = int(saved["peak"].item())


def split_by_group(arrivals: Objects) -> dict[int, Objects]:
    """Return the rows of each group, in their order."""
    if arrivals.group is None:
        return {0: arrivals} if len(arrivals.id) else {}
    order = np.argsort(arrivals.group, kind="stable")
    groups, first = np.unique(arrivals.group[order], return_index=True)
    rows = np.split(order, first[1:]) if len(groups) else []
    return {group: arrivals.take(part)._replace(group=None) for group, part in zip(groups.tolist(), rows, strict=True)}


class Independent(Engine):
    """One engine for every member. As exact as the engine.

    Cost and memory: the sum of the engines'.

    Examples
    --------
    >>> import skyband as sb
    >>> queries = [sb.TopK(k=k, by="x", window=sb.Counting(2, 2)) for k in (1, 2)]
    >>> sb.run(queries, {"x": [5, 1]}, engine="mintopk")["score"].to_pylist()
    [5.0, 5.0, 1.0]
    """

    peak: int
    """The sum of the engines' peaks."""

    def __init__(
        self, engine_class: EngineClass, family: QueryFamily, resume: Mapping[str, np.ndarray] | None = None
    ) -> None:
        self.peak = 0
        self._members = family.members
        self._complete = _is_bounded(family)  # engines return complete lists, the emitter finds out which rows are new
        self._reported: list[tuple[int, np.ndarray]] = []
        self._engines = [
            engine_class(
                single_family(family, member, complete=self._complete),
                None if resume is None else section(resume, f"{at}/"),
            )
            for at, member in enumerate(family.members)
        ]

    def advance(self, arrivals: Objects, upto: int | np.ndarray, moved: np.ndarray | None = None) -> Answers:
        """Give every engine all arrivals."""
        found = []
        for member, engine in zip(self._members, self._engines, strict=True):
            answers = engine.advance(arrivals, upto, moved)
            answers = answers._replace(query=np.full(len(answers.step), member.number))
            if member.is_bounded:
                start = answers.end - member.clock.size
                answers = answers.take(np.flatnonzero((start >= member.low) & (start < member.high)))
            found.append(answers)
        self.peak = sum(engine.peak for engine in self._engines)
        return Answers.concat(found).in_order() if found else Answers.empty(queries=True)

    def change(self, family: QueryFamily, moved: np.ndarray, positions: np.ndarray | None = None) -> None:  # noqa: ARG002
        """Continue with other members. A new one starts with what an engine of its number keeps.

        Only `SweepEachRow` can continue with another k or other bounds; with other engines members may only leave.
        """
        old, before = self._members, self._engines
        complete = self._complete or _is_bounded(family)
        if complete and not self._complete and family.query.emit == "arrivals":
            pairs = zip(old, before, strict=True)
            self._reported = [(member.number, cast("SweepEachRow", engine).reported()) for member, engine in pairs]
        source = {int(place): at for at, place in enumerate(moved) if place >= 0}
        self._engines = []
        for place, member in enumerate(family.members):
            at = source.get(place, _source(old, member))
            same = place in source and complete == self._complete and member.k == old[at].k
            engine = before[at]
            if not same:
                engine = cast("SweepEachRow", engine).with_family(single_family(family, member, complete=complete))
            self._engines.append(engine)
        self._members, self._complete = family.members, complete

    def take_reported(self) -> list[tuple[int, np.ndarray]]:
        """Return, once, the rows that engines reported as arrivals before they began to return complete lists.

        By the number of the query; not empty only after the `change` with which that began.
        """
        found, self._reported = self._reported, []
        return found

    def candidates(self) -> Objects:
        """Return the candidates of all engines, each row once."""
        kept = [Objects.empty(), *(engine.candidates() for engine in self._engines)]
        ids, place = np.unique(np.concatenate([k.id for k in kept]), return_index=True)
        score, time = (np.concatenate([k[at] for k in kept])[place] for at in (0, 1))
        groups = [np.zeros(len(k.id), np.int32) if k.group is None else k.group for k in kept]
        group = np.concatenate(groups)[place]
        order = np.lexsort((-ids, -score, group))
        return Objects(score[order], time[order], ids[order], group[order])

    def snapshot(self) -> Snapshot:
        """Return every engine's snapshot, with the member's place before each name."""
        return {
            f"{at}/{name}": array
            for at, engine in enumerate(self._engines)
            for name, array in engine.snapshot().items()
        }

    def active_groups(self) -> np.ndarray:
        """Return the groups that are active in any engine."""
        found = [np.empty(0, np.int64), *(engine.active_groups() for engine in self._engines)]
        return np.unique(np.concatenate(found))

    def keep_groups(self, keep: np.ndarray) -> None:
        """Forget all groups except these in every engine."""
        for engine in self._engines:
            engine.keep_groups(keep)


def _source(old: Sequence[FamilyMember], member: FamilyMember) -> int:
    """Find the member whose engine `member` continues from: one that answers all its windows, or the last."""
    mine = [at for at, other in enumerate(old) if other.number == member.number]
    full = [at for at in mine if old[at].low <= member.low and member.high <= old[at].high and member.k <= old[at].k]
    return (full or mine)[-1]


def _is_bounded(family: QueryFamily) -> bool:
    return any(member.is_bounded for member in family.members)


def single_family(family: QueryFamily, member: FamilyMember, *, complete: bool = False) -> QueryFamily:
    """Return the family of one member alone; with `complete`, one that returns complete lists."""
    query = family.member_query(member)
    return QueryFamily.of(replace(query, emit="answers", ranks=False) if complete else query)
