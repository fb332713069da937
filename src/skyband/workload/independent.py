"""Every query of a family on an engine of its own: the plain way, and what sharing is measured against."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np

from skyband.engines import build
from skyband.engines.protocol import Engine, GroupedEngine, Objects, Snapshot
from skyband.engines.validation import under
from skyband.workload.answers import Answers, chosen, together
from skyband.workload.family import AFTER, NEVER

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from skyband.engines.sweep_each_row import SweepEachRow
    from skyband.query import TopK
    from skyband.workload.family import Family, Member


_NOTHING = Objects(np.empty(0), np.empty(0, np.int64), np.empty(0, np.int64))


class Independent:
    """Runs an engine for one query once for every member. As exact as that engine.

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

    def __init__(self, engine: str, family: Family, resume: Mapping[str, np.ndarray] | None = None) -> None:
        self.peak = 0
        self._members = family.members
        self._whole = bounded = _bounded(family)
        self._reported: list[tuple[int, np.ndarray]] = []
        self._engines: list[Engine] = []
        for at, member in enumerate(family.members):
            part = None
            if resume is not None:
                part = under(resume, f"{at}/")
            # of part of the windows, whole lists: which rows are new is for the emitter to find out
            self._engines.append(build(engine, alone(family, member, whole=bounded), part))

    def advance(self, arrivals: Objects, upto: int | np.ndarray, moved: np.ndarray | None = None) -> Answers:
        """Give every engine all arrivals."""
        said = []
        for member, engine in zip(self._members, self._engines, strict=True):
            if moved is None:
                answers = engine.advance(arrivals, upto)
            else:
                answers = cast("GroupedEngine", engine).advance(arrivals, upto, moved)
            part = Answers(*answers[:6], np.full(len(answers.step), member.number), answers.rank)
            if member.low > NEVER or member.high < AFTER:
                start = part.end - member.clock.size
                part = chosen(part, np.flatnonzero((start >= member.low) & (start < member.high)))
            said.append(part)
        self.peak = sum(engine.peak for engine in self._engines)
        return together(said)

    def change(self, family: Family, moved: np.ndarray, positions: np.ndarray | None = None) -> None:  # noqa: ARG002
        """Go on with other members. One that comes begins with what an engine of its number keeps.

        Only `SweepEachRow` can go on with another k or other bounds; with other engines members may only leave.
        """
        old, before = self._members, self._engines
        whole = self._whole or _bounded(family)
        if whole and not self._whole and family.query.emit == "arrivals":  # from now on the emitter must know them
            pairs = zip(old, before, strict=True)
            self._reported = [(member.number, cast("SweepEachRow", engine).reported()) for member, engine in pairs]
        source = {int(place): at for at, place in enumerate(moved) if place >= 0}
        self._engines = []
        for place, member in enumerate(family.members):
            at = source.get(place, _source(old, member))
            same = place in source and whole == self._whole and member.k == old[at].k
            engine = before[at]
            if not same:
                engine = cast("SweepEachRow", engine).with_query(alone(family, member, whole=whole))
            self._engines.append(engine)
        self._members, self._whole = family.members, whole

    def take_reported(self) -> list[tuple[int, np.ndarray]]:
        """The rows that engines have reported as arrivals, by the number of the query, once they no longer keep track.

        Given out once, after the `change` from which on engines give whole lists.
        """
        found, self._reported = self._reported, []
        return found

    def candidates(self) -> Objects:
        """What any engine keeps, once."""
        kept = [_NOTHING, *(engine.candidates() for engine in self._engines)]
        ids, place = np.unique(np.concatenate([k.id for k in kept]), return_index=True)
        score, time = (np.concatenate([k[at] for k in kept])[place] for at in (0, 1))
        groups = [np.zeros(len(k.id), np.int32) if k.group is None else k.group for k in kept]
        group = np.concatenate(groups)[place]
        order = np.lexsort((-ids, -score, group))
        return Objects(score[order], time[order], ids[order], group[order])

    def snapshot(self) -> Snapshot:
        """Every engine's snapshot, its names behind the member's place."""
        return {
            f"{at}/{name}": array
            for at, engine in enumerate(self._engines)
            for name, array in engine.snapshot().items()
        }

    def busy(self) -> np.ndarray:
        """Groups that are busy in any engine."""
        found = [_NOTHING.id, *(cast("GroupedEngine", engine).busy() for engine in self._engines)]
        return np.unique(np.concatenate(found)).astype(np.int64)

    def regroup(self, keep: np.ndarray) -> None:
        """Forget all groups but these."""
        for engine in self._engines:
            cast("GroupedEngine", engine).regroup(keep)


def _source(old: Sequence[Member], member: Member) -> int:
    """The place of the member whose engine `member` goes on from: one that answers all its windows, or the last."""
    mine = [at for at, other in enumerate(old) if other.number == member.number]
    full = [at for at in mine if old[at].low <= member.low and member.high <= old[at].high and member.k <= old[at].k]
    return (full or mine)[-1]


def _bounded(family: Family) -> bool:
    """Whether some windows of some member are not answered."""
    return any(member.low > NEVER or member.high < AFTER for member in family.members)


def alone(family: Family, member: Member, *, whole: bool = False) -> TopK:
    """The query of one member; `whole`: all of each of its lists."""
    query = replace(family.query, k=member.k, window=member.window, name=member.name)
    return replace(query, emit="answers", ranks=False) if whole else query
