"""Runs an engine for many queries that knows no groups once for every group."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from skyband.engines.per_group import deal
from skyband.engines.protocol import Objects, Snapshot
from skyband.engines.validation import checked, held, numbered
from skyband.workload.answers import Answers, together
from skyband.workload.family import NEVER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skyband.workload.family import Family
    from skyband.workload.protocol import ChangingEngine, SharedEngine, SharedEngineClass

_NOTHING = Objects(np.empty(0), np.empty(0, np.int64), np.empty(0, np.int64))


class SharedPerGroup:
    """One engine for every group code; rows are dealt out, answers are put in one order."""

    def __init__(
        self, engine_class: SharedEngineClass, family: Family, resume: Mapping[str, np.ndarray] | None = None
    ) -> None:
        self._engine_class = engine_class
        self._family = family
        self._engines: dict[int, SharedEngine] = {}
        self._upto = NEVER
        self.peak = 0
        if resume is not None:
            self._engines = {group: engine_class(family, part) for group, part in numbered(resume).items()}
            self.peak = int(checked(resume, {"peak": held("i8", low=0)})["peak"])
        self._kept = {group: len(engine.candidates().id) for group, engine in self._engines.items()}
        self._total = sum(self._kept.values())

    def advance(self, arrivals: Objects, upto: int | np.ndarray, moved: np.ndarray | None = None) -> Answers:
        """Give every group its arrivals, then close its windows that end by `upto`.

        For counting windows `moved` are the groups whose `upto` is another than before; None: it may be any.
        """
        dealt, said = deal(arrivals), []
        others = set(self._engines)
        if isinstance(upto, np.ndarray) and moved is not None:
            others.intersection_update(moved.tolist())
        elif not isinstance(upto, np.ndarray) and not self._closes(upto):
            others = set()
        for group in sorted(others | dealt.keys()):
            engine = self._engines.get(group)
            if engine is None:
                engine = self._engines[group] = self._engine_class(self._family, None)
            till = upto[group : group + 1] if isinstance(upto, np.ndarray) else upto
            answers = engine.advance(dealt.get(group, _NOTHING), till)
            self._count(group, engine)
            said.append(answers._replace(group=np.full(len(answers.step), group, np.int32)))
        self.peak = max(self.peak, self._total)
        return together(said)

    def _closes(self, upto: int) -> bool:
        """Whether a window of any query may end by `upto` that had not ended before."""
        before, self._upto = self._upto, max(self._upto, upto)
        clocks = [member.clock for member in self._family.members]
        return before == NEVER or any(clock.slide and clock.next_end(before) <= upto for clock in clocks)

    def _count(self, group: int, engine: SharedEngine) -> None:
        """Note how many candidates a group has."""
        before, self._kept[group] = self._kept.get(group, 0), len(engine.candidates().id)
        self._total += self._kept[group] - before

    def _catch_up(self) -> None:
        """Tell groups without rows how far time has come: after every row they keep what has left the window."""
        window = self._family.query.window
        if window.kind == "row" and not window.counts and self._upto > NEVER:
            for group, engine in self._engines.items():
                engine.advance(_NOTHING, self._upto)
                self._count(group, engine)

    def busy(self) -> np.ndarray:
        """Groups that keep rows, or have yet to say that a window has become empty."""
        self._catch_up()
        return np.array([group for group, engine in sorted(self._engines.items()) if len(engine.busy())], np.int64)

    def regroup(self, keep: np.ndarray) -> None:
        """Forget all groups but these; they are numbered anew."""
        old = [int(group) for group in keep]
        self._engines = {new: self._engines[group] for new, group in enumerate(old) if group in self._engines}
        self._kept = {new: self._kept[group] for new, group in enumerate(old) if group in self._kept}
        self._total = sum(self._kept.values())

    def change(self, family: Family, moved: np.ndarray, positions: np.ndarray | None = None) -> None:  # noqa: ARG002
        """Go on with other members in every group, where the engine can."""
        self._family = family
        for engine in self._engines.values():
            cast("ChangingEngine", engine).change(family, moved, None)

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
        return {**named, "peak": np.array(self.peak)}
