"""Runs one engine for every query of a family: no sharing, and what sharing is measured against."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np

from skyband.engines.family import QueryFamily
from skyband.engines.protocol import Answers, Engine, Objects, Snapshot
from skyband.engines.validation import section

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from skyband.engines.family import FamilyMember
    from skyband.engines.protocol import EngineClass
    from skyband.engines.sweep_each_row import SweepEachRow


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
