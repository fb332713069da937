"""What goes out: ranked lists, what changed between them, or each row once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from skyband.engines.checked import checked, held, parted, real, require

if TYPE_CHECKING:
    from skyband.engines import Answers
    from skyband.query import TopK

_HOLDS = {
    "reported": held("i8", "reported"),
    "ids": held("i8", "listed"),
    "scores": real("listed"),
    "last": held("i8", 2, "lists"),
}
CHANGES = ("delete", "update_preimage", "update_postimage", "insert")


@dataclass
class Lines:
    """Rows to put out, still as numbers: which list each belongs to, its rank, score and slot."""

    step: np.ndarray
    end: np.ndarray
    group: np.ndarray
    rank: np.ndarray
    score: np.ndarray
    slot: np.ndarray
    change: np.ndarray | None = None
    query: np.ndarray | None = None  # in a workload: the number of each line's query

    def __len__(self) -> int:
        return len(self.slot)

    @classmethod
    def none(cls, *, changes: bool = False) -> Lines:
        """No rows."""
        empty = np.empty(0, np.int64)
        return cls(empty, empty, empty, empty, np.empty(0), empty, empty if changes else None)


class Emitter:
    """Turns answers into lines, remembering what the query's `emit` needs to remember."""

    def __init__(self, query: TopK) -> None:
        self._emit = query.emit
        self._ranks = query.ranks
        self._reported = np.empty(0, np.int64)  # "arrivals": slots that went out and are still alive
        self._ids = np.empty(0, np.int64)  # "changes": each group's last list, one after the other
        self._scores = np.empty(0)
        self._last = np.zeros((2, 0), np.int64)

    def lines(self, answers: Answers, groups: int, watermark: int) -> Lines:
        """What of `answers` goes out. Lists that have become empty count only up to the watermark."""
        if self._emit == "changes":
            return self._changes(_without_empty(answers, watermark), groups)
        sizes = np.diff(answers.first)
        rank = answers.rank
        if rank is None:
            rank = np.arange(len(answers.id)) - np.repeat(answers.first[:-1], sizes) + 1
        lines = Lines(
            np.repeat(answers.step, sizes),
            np.repeat(answers.end, sizes),
            np.repeat(answers.group, sizes),
            rank,
            answers.score,
            answers.id,
        )
        return self._arrivals(lines) if self._emit == "arrivals" and answers.rank is None else lines

    def _arrivals(self, lines: Lines) -> Lines:
        slots, first = np.unique(lines.slot, return_index=True)
        new = ~np.isin(slots, self._reported, assume_unique=True)
        keep = np.sort(first[new])
        self._reported = np.union1d(self._reported, slots)
        return Lines(*(getattr(lines, f)[keep] for f in ("step", "end", "group", "rank", "score", "slot")))

    def _changes(self, answers: Answers, groups: int) -> Lines:
        from skyband.kernels.changes import changed

        new = groups - self._last.shape[1]
        if new > 0:
            self._last = np.concatenate([self._last, np.zeros((2, new), np.int64)], axis=1)
        ids = np.concatenate([self._ids, answers.id])
        scores = np.concatenate([self._scores, answers.score])
        which, kind, place, rank = changed(
            ids, scores, answers.first + len(self._ids), answers.group, self._last, self._ranks
        )
        lines = Lines(
            answers.step[which],
            answers.end[which],
            answers.group[which],
            rank,
            scores[place],
            ids[place],
            kind,
        )
        sizes = self._last[1] - self._last[0]
        keep = np.arange(sizes.sum()) + np.repeat(self._last[0] - np.cumsum(sizes) + sizes, sizes)
        self._ids, self._scores = ids[keep], scores[keep]
        ends = np.cumsum(sizes)
        self._last = np.stack([ends - sizes, ends])
        return lines

    def saved(self) -> dict[str, np.ndarray]:
        """What is remembered, as named arrays."""
        return {"reported": self._reported, "ids": self._ids, "scores": self._scores, "last": self._last}

    def load(self, saved: Mapping[str, np.ndarray], lists: int) -> None:
        """Go on from what was saved; there are so many lists side by side."""
        found = checked(saved, _HOLDS)
        self._reported, self._ids, self._scores = found["reported"], found["ids"], found["scores"]
        self._last = found["last"]
        require(self._last.shape[1] <= lists, "there are lists of groups that never came")
        parted(self._last, len(self._ids), "last", apart=False)

    def busy(self) -> np.ndarray:
        """Groups whose last list had rows, which may still have to be deleted."""
        return np.flatnonzero(self._last[1] > self._last[0])

    def regroup(self, keep: np.ndarray) -> None:
        """Forget all groups but these, which are numbered anew; those forgotten have an empty list."""
        known = keep[keep < self._last.shape[1]]
        rest = np.zeros((2, len(keep) - len(known)), np.int64)
        self._last = np.concatenate([self._last[:, known], rest], axis=1)

    def needed(self, alive: np.ndarray) -> np.ndarray:
        """The slots whose rows may still go out, given those that engines keep."""
        if len(self._reported):
            self._reported = self._reported[np.isin(self._reported, alive)]
        return np.concatenate([alive, self._ids]) if len(self._ids) else alive


def _without_empty(answers: Answers, watermark: int) -> Answers:
    """The answers without empty lists of windows that end after the watermark: the end deletes nothing."""
    keep = (np.diff(answers.first) > 0) | (answers.end <= watermark)
    if keep.all():
        return answers
    first = np.append(answers.first[:-1][keep], answers.first[-1])
    return answers._replace(step=answers.step[keep], end=answers.end[keep], group=answers.group[keep], first=first)


def change_names(kind: np.ndarray) -> pa.Array:
    """The `_change_type` column."""
    return pa.DictionaryArray.from_arrays(pa.array(kind.astype(np.int8)), pa.array(CHANGES)).cast(pa.string())
