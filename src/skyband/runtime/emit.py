"""What goes out: ranked lists, what changed between them, or each row once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from skyband.engines.groups import GroupedRows, grown_capacity
from skyband.engines.validation import checked, held, parted, real, require

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
class EmittedRows:
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
    def none(cls, *, changes: bool = False) -> EmittedRows:
        """No rows."""
        empty = np.empty(0, np.int64)
        return cls(empty, empty, empty, empty, np.empty(0), empty, empty if changes else None)


class _Lists(NamedTuple):
    """The last list of each group."""

    ids: np.ndarray
    scores: np.ndarray
    first: np.ndarray


class Reported:
    """Numbers that have been reported.

    They are kept in sorted runs, each at most half as long as the one before. Cost: O(log) a number.

    Examples
    --------
    >>> reported = Reported()
    >>> reported.add(np.array([3, 5])).tolist(), reported.add(np.array([4, 5])).tolist()
    ([True, True], [True, False])
    """

    def __init__(self, sorted_numbers: np.ndarray | None = None) -> None:
        self._runs = [] if sorted_numbers is None or not len(sorted_numbers) else [sorted_numbers]

    def __len__(self) -> int:
        return sum(map(len, self._runs))

    def add(self, numbers: np.ndarray) -> np.ndarray:
        """Take rising numbers; which of them are new."""
        new = np.ones(len(numbers), np.bool_)
        for run in self._runs:
            place = np.minimum(np.searchsorted(run, numbers), len(run) - 1)
            new &= run[place] != numbers
        if new.any():
            self._runs.append(numbers[new])
        while len(self._runs) > 1 and 2 * len(self._runs[-1]) > len(self._runs[-2]):
            last = self._runs.pop()
            self._runs[-1] = np.sort(np.concatenate([self._runs[-1], last]), kind="stable")
        return new

    def numbers(self) -> np.ndarray:
        """All of them, rising."""
        return np.sort(np.concatenate([np.empty(0, np.int64), *self._runs]))


class Emitter:
    """Turns answers into lines, remembering what the query's `emit` needs to remember.

    Cost: O(rows of the answers), whatever the number of groups.
    """

    def __init__(self, query: TopK) -> None:
        self._emit = query.emit
        self._ranks = query.ranks
        self._reported = Reported()  # "arrivals": slots that went out and are still alive
        self._known = 0  # "changes": groups that there is a last list of; there may be room for more
        self._last = GroupedRows(_Lists(np.empty(0, np.int64), np.empty(0), np.zeros((2, 0), np.int64)))

    def lines(self, answers: Answers, groups: int, watermark: int) -> EmittedRows:
        """What of `answers` goes out. Lists that have become empty count only up to the watermark."""
        if self._emit == "changes":
            return self._changes(_without_empty(answers, watermark), groups)
        sizes = np.diff(answers.first)
        rank = answers.rank
        if rank is None:
            rank = np.arange(len(answers.id)) - np.repeat(answers.first[:-1], sizes) + 1
        lines = EmittedRows(
            np.repeat(answers.step, sizes),
            np.repeat(answers.end, sizes),
            np.repeat(answers.group, sizes),
            rank,
            answers.score,
            answers.id,
        )
        return self._arrivals(lines) if self._emit == "arrivals" and answers.rank is None else lines

    def _arrivals(self, lines: EmittedRows) -> EmittedRows:
        slots, first = np.unique(lines.slot, return_index=True)
        keep = np.sort(first[self._reported.add(slots)])
        return EmittedRows(*(getattr(lines, f)[keep] for f in ("step", "end", "group", "rank", "score", "slot")))

    def _changes(self, answers: Answers, groups: int) -> EmittedRows:
        from skyband.kernels.diff import diff

        self._make_room(groups)
        begin = self._last.append(answers.id, answers.score)
        ids, scores = self._last.columns()
        which, kind, place, rank = diff(
            ids, scores, answers.first + begin, answers.group, self._last.first, self._ranks
        )
        return EmittedRows(
            answers.step[which],
            answers.end[which],
            answers.group[which],
            rank,
            scores[place],
            ids[place],
            kind,
        )

    def _make_room(self, groups: int) -> None:
        """Room for the lists of so many groups."""
        if groups > self._last.capacity:
            self._last.enlarge(grown_capacity(groups, self._last.capacity))
        self._known = max(self._known, groups)

    def saved(self) -> dict[str, np.ndarray]:
        """What is remembered, as named arrays."""
        ids, scores, last = self._last.all_rows()
        return {
            "reported": self._reported.numbers(),
            "ids": ids.copy(),
            "scores": scores.copy(),
            "last": last[:, : self._known].copy(),
        }

    def load(self, saved: Mapping[str, np.ndarray], lists: int) -> None:
        """Go on from what was saved; there are so many lists side by side."""
        found = checked(saved, _HOLDS)
        require(found["last"].shape[1] <= lists, "there are lists of groups that never came")
        parted(found["last"], len(found["ids"]), "last", apart=False)
        self._reported = Reported(np.sort(found["reported"]))
        self._last = GroupedRows(_Lists(found["ids"], found["scores"], found["last"]))
        self._known = self._last.capacity

    def busy(self) -> np.ndarray:
        """Groups whose last list had rows, which may still have to be deleted."""
        return np.flatnonzero(self._last.first[1] > self._last.first[0])

    def regroup(self, keep: np.ndarray) -> None:
        """Forget all groups but these, which are numbered anew; those forgotten have an empty list."""
        known = keep[keep < self._known]
        self._last.keep_groups(known)
        self._known = len(known)

    def needed(self, alive: np.ndarray) -> np.ndarray:
        """The slots whose rows may still go out, given those that engines keep."""
        if len(self._reported):
            numbers = self._reported.numbers()
            self._reported = Reported(numbers[np.isin(numbers, alive)])
        listed = self._last.all_rows().ids
        return np.concatenate([alive, listed]) if len(listed) else alive


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
