"""Runs an engine for many queries that knows no groups once for every group."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from skyband.engines.checked import checked, held, numbered
from skyband.engines.pergroup import deal
from skyband.engines.protocol import Objects, Snapshot
from skyband.workload.answers import Answers, together

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
        self.peak = 0
        if resume is not None:
            self._engines = {group: engine_class(family, part) for group, part in numbered(resume).items()}
            self.peak = int(checked(resume, {"peak": held("i8", low=0)})["peak"])

    def advance(self, arrivals: Objects, upto: int | np.ndarray) -> Answers:
        """Give every group its arrivals, then close its windows that end by `upto`."""
        dealt, said = deal(arrivals), []
        for group in sorted(self._engines.keys() | dealt.keys()):
            engine = self._engines.get(group)
            if engine is None:
                engine = self._engines[group] = self._engine_class(self._family, None)
            till = upto[group : group + 1] if isinstance(upto, np.ndarray) else upto
            answers = engine.advance(dealt.get(group, _NOTHING), till)
            said.append(answers._replace(group=np.full(len(answers.step), group, np.int32)))
        self.peak = max(self.peak, sum(len(engine.candidates().id) for engine in self._engines.values()))
        return together(said)

    def busy(self) -> np.ndarray:
        """Groups that keep rows, or have yet to say that a window has become empty."""
        return np.array([group for group, engine in sorted(self._engines.items()) if len(engine.busy())], np.int64)

    def regroup(self, keep: np.ndarray) -> None:
        """Forget all groups but these; they are numbered anew."""
        old = [int(group) for group in keep]
        self._engines = {new: self._engines[group] for new, group in enumerate(old) if group in self._engines}

    def change(self, family: Family, moved: np.ndarray, positions: np.ndarray | None = None) -> None:  # noqa: ARG002
        """Go on with other members in every group, where the engine can."""
        self._family = family
        for engine in self._engines.values():
            cast("ChangingEngine", engine).change(family, moved, None)

    def candidates(self) -> Objects:
        """What every group keeps, group by group."""
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
