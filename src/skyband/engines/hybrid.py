"""PA while the stream looks random, RAPF while it does not."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from skyband.engines.arrival_engine import NO_LIST, ArrivalEngine, PruningRule, buffer_span
from skyband.engines.protocol import Answers, Objects, OneGroupEngine, Snapshot
from skyband.engines.validation import require, section, typed_column, validate
from skyband.kernels.chance import NO_ORDER, crowd, looked
from skyband.windows import WindowAssigner

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skyband.engines.family import QueryFamily

_DEVIATIONS = 4.0  # standard deviations that make order: one block in 16,000 by chance
_MIN_SCORES = 32  # below which no test is conclusive
_SAMPLE = 16  # scores of each block that stand for it in the test over the whole window
_REASONS = ("neighbours are alike", "scores rise or fall over the window", "a whole window looked random")  # by number
_NO_BLOCK = -(1 << 61)
_COLUMNS = {
    **{f"{part}/score": typed_column("f8", part) for part in ("recent", "sample")},
    **{f"{part}/{name}": typed_column("i8", part) for part in ("recent", "sample") for name in ("time", "id")},
    "told": typed_column("i8", "told"),
    "state": typed_column("i8", 5),
    "switches": typed_column("i8", "switches", 4),
}
_NOTHING = Objects.empty()


class Switch(NamedTuple):
    """A change of engine: when, to which, why; and from which moment on answers are exact, None: never."""

    time: int  # microseconds or position of the first row under the new engine
    engine: str
    why: str
    exact_from: int | None


class Hybrid(OneGroupEngine):
    """Run PA while a test on the last rows sees no order in them, RAPF while it does.

    Whenever the buffer has been refilled, two tests look at it: do its scores stay near each other (runs about the
    median), do scores rise or fall over the window (rank correlation of a sample)? If so, RAPF goes on with
    PA's objects and the whole buffer. Back to PA when a new PA beside it has seen a whole window and no order.

    What is promised:

    - Until a switch to RAPF, PA's bounds, which hold for random order.
    - The switch loses nothing. From its row on the answers are the exact k best of all that PA still had, of the whole
      buffer and of what follows. A row can be missing only if PA itself had dropped it before the buffer began.
    - Such rows have left the window by `Switch.exact_from`, at the latest one window after order was seen: from then
      on answers are exact. From the start if order is seen in the first buffer. The longer the buffer (at most half
      the window), the sooner.
    - From the switch back on, PA's bounds again, from the first row: the PA that takes over has seen a whole window.

    `switches`, the counts of a run (`stats.switches`) and the log "skyband" say when, to which engine, why, and from
    when on answers are exact.

    Cost: that of the engine at work, and O(1) a row for the tests; both engines' for a window before PA returns.
    Memory: that of the engine at work, and the buffer.

    Examples
    --------
    >>> import skyband as sb
    >>> query = sb.TopK(k=1, by="x", window=sb.Counting(1000), emit="arrivals")
    >>> falling = {"x": list(range(5000, 0, -1))}
    >>> len(sb.run(query, falling, engine="probabilistic")), len(sb.run(query, falling, engine="hybrid"))
    (..., 4001)

    References
    ----------
    Pripuzic et al., TODS 2015, end of section 4.1.3, where it is left for future work.
    """

    def __init__(  # noqa: PLR0913 - one name for each option
        self,
        family: QueryFamily,
        resume: Mapping[str, np.ndarray] | None = None,
        *,
        buffer: object = None,
        gamma: float = 0.2,
        sigma: float = 0.001,
        limit: int | None = None,
        additional: int = 10,
    ) -> None:
        query = family.query
        self._family, self._size, self._span = family, WindowAssigner.of(query.window).size, buffer_span(query, buffer)
        self._random = PruningRule.probabilistic(query, limit, additional, sigma)
        self._ordered = PruningRule.relaxed(query.k, gamma)
        self._filter = PruningRule.probabilistic_filter(query, self._span, sigma=sigma)
        self._running, self._exact = self._pa(), False  # the engine at work; True: it is RAPF
        self._successor: ArrivalEngine | None = None  # the PA that is to take over, and since when it runs
        self._since = 0
        self._block, self._began = _NO_BLOCK, _NO_BLOCK  # the block of the last row, and of the first
        self._recent = _NOTHING  # the buffer
        self._reported = np.empty(0, np.int64)  # ids in it that have been reported
        self._sample = _NOTHING  # of the window
        self.switches: list[Switch] = []
        self.peak = 0
        if resume is not None:
            self._restore(resume)

    def advance(self, arrivals: Objects, upto: int | np.ndarray, moved: np.ndarray | None = None) -> Answers:  # noqa: ARG002
        """Test all blocks, which takes no engine; then give the engines what lies between two switches."""
        block = arrivals.time // self._span
        edges = np.flatnonzero(block[1:] != block[:-1]) + 1
        if len(block) and self._block == _NO_BLOCK:
            self._block = self._began = int(block[0])
        elif len(block) and block[0] != self._block:
            edges = np.concatenate([[0], edges])
        found = self._test_blocks(_scored(arrivals), block[edges])
        found_answers, low = [], 0
        for edge, begins, why in zip(edges.tolist(), block[edges].tolist(), found.tolist(), strict=True):
            if self._continues(begins, why):
                self._block = begins
                continue
            if low < edge:
                found_answers.append(self._advance(arrivals.take(slice(low, edge)), arrivals.time[edge : edge + 1]))
            self._switch(begins, why)
            low, self._block = edge, begins
        found_answers.append(self._advance(arrivals.take(slice(low, None)), upto))
        return Answers.concat(found_answers)

    def owes_empty_list(self) -> bool:
        """Return whether the last list of the engine at work had rows."""
        return self._running.owes_empty_list()

    def candidates(self) -> Objects:
        """Return what the engine at work keeps, and while it is PA, the buffer."""
        kept = self._running.band_rows()[0] if not self._exact else self._running.candidates()
        if not self._exact:
            kept = _union(kept, self._recent)
        kept = kept.take(kept.time > self._running.now - self._size)
        self.peak = max(self.peak, len(kept.id))
        return kept

    def kept_counts(self) -> tuple[int, int]:
        """Return how many references to objects lists have, and how many objects are in lists and buffer."""
        parts = [self._running] if self._successor is None else [self._running, self._successor]
        ids = np.concatenate([self._recent.id, *(np.r_[part.band_rows()[0].id, part.buffer.id] for part in parts)])
        return sum(part.kept_counts()[0] for part in parts), len(np.unique(ids))

    def snapshot(self) -> Snapshot:
        """Return the engines, the buffer, the sample and the switches."""
        saved = {f"running/{name}": array for name, array in self._running.snapshot().items()}
        if self._successor is not None:
            saved |= {f"beside/{name}": array for name, array in self._successor.snapshot().items()}
        saved |= {**self._recent.snapshot("recent/"), **self._sample.snapshot("sample/")}
        saved["told"] = self._reported
        saved["state"] = np.array([self._exact, self._since, self._block, self._began, self.peak], np.int64)
        happened = [
            (s.time, s.engine == "rapf", _REASONS.index(s.why), _NO_BLOCK if s.exact_from is None else s.exact_from)
            for s in self.switches
        ]
        saved["switches"] = np.array(happened, np.int64).reshape(-1, 4)
        return saved

    def _restore(self, resume: Mapping[str, np.ndarray]) -> None:
        saved = validate(resume, _COLUMNS)
        exact, self._since, self._block, self._began, self.peak = (int(n) for n in saved["state"])
        self._exact = bool(exact)
        running, beside = section(resume, "running/"), section(resume, "beside/")
        self._running = self._rapf(running) if exact else self._pa(running)
        self._successor = self._pa(beside) if beside else None
        self._recent, self._sample = (Objects.restore(saved, prefix) for prefix in ("recent/", "sample/"))
        require(np.diff(self._recent.time) >= 0, "its buffer is in no order of time")
        require((saved["switches"][:, 2] >= 0) & (saved["switches"][:, 2] < len(_REASONS)), "a switch has no reason")
        self._reported = saved["told"]
        self.switches = [
            Switch(time, "rapf" if to else "probabilistic", _REASONS[why], None if since == _NO_BLOCK else since)
            for time, to, why, since in saved["switches"].tolist()
        ]

    def _pa(self, resume: Mapping[str, np.ndarray] | None = None) -> ArrivalEngine:
        return ArrivalEngine(self._family, self._random, NO_LIST, resume=resume)

    def _rapf(self, resume: Mapping[str, np.ndarray] | None = None) -> ArrivalEngine:
        return ArrivalEngine(self._family, self._ordered, self._filter, span=self._span, resume=resume)

    def _advance(self, part: Objects, upto: int | np.ndarray) -> Answers:
        """Give rows to the engines, and keep the last of them."""
        answers = self._running.advance(part, upto)
        if self._successor is not None:
            self._successor.advance(part, upto)
        scored = _scored(part)
        if len(scored.id):
            if not self._exact:
                buffered = crowd(np.concatenate([self._recent.time, scored.time]), self._span)
                self.peak = max(self.peak, self._running.peak + int(buffered))
            begins = scored.time[-1] - self._span + 1
            self._recent = Objects.concat(
                rows.take(slice(_count_before(rows, begins), None)) for rows in (self._recent, scored)
            )
            reported = np.concatenate([self._reported, answers.id]) if answers.rank is not None else self._reported
            self._reported = reported[reported >= self._recent.id[0]]
        self.peak = max(self.peak, self._running.peak)
        return answers

    def _test_blocks(self, scored: Objects, begins: np.ndarray) -> np.ndarray:
        """Return which order each block shows that ended before one of these begins; the first began in the buffer."""
        if not len(begins):
            return begins
        rows = Objects.concat([self._recent, scored.take(slice(_count_before(scored, begins[0] * self._span)))])
        first = self._test_complete_blocks(rows, np.array([self._block]), begins[:1])
        return np.concatenate([first, self._test_complete_blocks(scored, begins[:-1], begins[1:])])

    def _test_complete_blocks(self, rows: Objects, ended: np.ndarray, begins: np.ndarray) -> np.ndarray:
        """Return the same for blocks of which all rows are given."""
        block = np.searchsorted(rows.time, np.stack([ended, ended + 1]) * self._span)
        length = block[1] - block[0]
        count = np.minimum(length, _SAMPLE)
        place = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        step = np.repeat(length - 1, count), np.repeat(np.maximum(count - 1, 1), count)
        sample = Objects.concat([self._sample, rows.take(np.repeat(block[0], count) + place * step[0] // step[1])])
        high = len(self._sample.id) + np.cumsum(count)
        low = np.minimum(np.searchsorted(sample.time, begins * self._span - self._size), high)
        if len(begins):
            self._sample = sample.take(slice(int(low[-1]), None))
        return looked(rows.score, block, sample.score, np.stack([low, high]), _MIN_SCORES, _DEVIATIONS)

    def _continues(self, begins: int, why: int) -> bool:
        """Return whether nothing changes with the block that begins."""
        if why != NO_ORDER:
            return self._exact and self._successor is None
        return not self._exact or (self._successor is not None and (begins - self._since) * self._span < self._size)

    def _switch(self, begins: int, why: int) -> None:
        """Switch to the other engine, or prepare to."""
        if why != NO_ORDER:
            self._successor = None
            if not self._exact:
                self._switch_to_rapf(self._block, begins, why)
        elif self._successor is None:
            self._successor, self._since = self._pa(), begins
            self._successor.take_over(_NOTHING, np.empty(0, np.int64), _NOTHING, self._running)
        else:
            self._switch_to_pa(begins)

    def _switch_to_rapf(self, ended: int, block: int, why: int) -> None:
        """Let RAPF take over PA's objects and all of the buffer."""
        objects, reported = self._running.band_rows()
        kept = _union(objects, self._recent)
        reported = np.isin(kept.id, np.concatenate([objects.id[reported > 0], self._reported]))
        exact = self._rapf()
        exact.take_over(kept, reported.astype(np.int64), self._recent, self._running)
        self._running, self._exact = exact, True
        since = ended * self._span + (self._size - 1 if ended != self._began else 0)
        self._log(Switch(block * self._span, "rapf", _REASONS[why], since))

    def _switch_to_pa(self, block: int) -> None:
        """Let the PA that runs beside RAPF take over; what RAPF has pruned can never be reported again."""
        assert self._successor is not None
        objects, _ = self._successor.band_rows()
        known, reported = self._running.band_rows()
        buffer = self._running.buffer
        new = np.concatenate([known.id[reported == 0], buffer.id[~np.isnan(buffer.wait)]])
        self._successor.set_reported(~np.isin(objects.id, new))
        self._running, self._exact, self._successor = self._successor, False, None
        self._log(Switch(block * self._span, "probabilistic", _REASONS[2], None))

    def _log(self, switch: Switch) -> None:
        self.switches.append(switch)
        logging.getLogger("skyband").info("hybrid: %s from %d on: %s", switch.engine, switch.time, switch.why)


def _scored(rows: Objects) -> Objects:
    """Return the rows with a score: mostly all."""
    none = np.isnan(rows.score)
    return rows.take(~none) if none.any() else rows


def _count_before(rows: Objects, time: int) -> int:
    """Return how many rows come before a time."""
    return int(np.searchsorted(rows.time, time))


def _union(one: Objects, other: Objects) -> Objects:
    """Return the objects of both, each once, best first."""
    return Objects.concat([one, other.take(~np.isin(other.id, one.id))]).by_rank()
