"""Values over the window, by key: kept by pane, so that every window to come has its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from skyband.engines.validation import checked, held, require

if TYPE_CHECKING:
    from skyband.query.aggregate import Aggregate

_HOLDS = {
    "at": held("i8", "panes"),
    "sizes": held("i8", "panes", low=0),
    **{name: held("i8", "keys") for name in ("key", "slot", "time")},
    "parts": held("f8", "aggregates", 4, "keys"),
}
_PARTS = ("count", "sum", "min", "max")


@dataclass
class Pane:
    """The rows of one pane, added up by key."""

    at: int
    key: np.ndarray  # rising
    slot: np.ndarray  # each key's newest row
    time: np.ndarray
    parts: np.ndarray  # (aggregates, 4, keys): count, sum, min and max of the values


class Counts:
    """A pane's sums for each pane that an open window still needs.

    A score with a value over the window differs from window to window, which the Super-MTK+N list does not foresee.
    So nothing is forgotten here: all keys of the window are kept, and every window to come gets its own scores.
    Exact, and no larger than the keys of the window times the panes in which they came.

    Cost: O(1) a row, O(keys * panes) a window.
    """

    def __init__(self, aggregates: tuple[Aggregate, ...]) -> None:
        self._aggregates = aggregates
        self.panes: list[Pane] = []

    def __len__(self) -> int:
        return len(np.unique(np.concatenate([p.key for p in self.panes]))) if self.panes else 0

    def add(self, at: int, key: np.ndarray, values: list[np.ndarray], newest: tuple[np.ndarray, ...]) -> None:
        """Take a pane: the key and value of every row, and of each key's newest row the key, slot and time."""
        from skyband.kernels.topkn import gathered

        keys, slot, time = newest
        order = np.argsort(keys)
        keys, slot, time = keys[order], slot[order], time[order]
        place = np.searchsorted(keys, key)
        parts = np.empty((len(values), 4, len(keys)))
        for i, value in enumerate(values):
            count, total = np.zeros(len(keys)), np.zeros(len(keys))
            low, high = np.full(len(keys), np.inf), np.full(len(keys), -np.inf)
            gathered(place, value, count, total, low, high)
            parts[i] = count, total, low, high
        self.panes.append(Pane(at, keys, slot, time, parts))

    def forget(self, start: int) -> None:
        """Drop the panes before `start`."""
        self.panes = [pane for pane in self.panes if pane.at >= start]

    def window(self, start: int, end: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[np.ndarray]]:
        """Of each key in [start, end): the key, its newest slot and time, and the values over the window."""
        panes = [pane for pane in self.panes if start <= pane.at < end]
        if not panes:
            empty = np.empty(0, np.int64)
            return empty, empty, empty, [np.empty(0) for _ in self._aggregates]
        keys, place = np.unique(np.concatenate([p.key for p in panes]), return_inverse=True)
        slot, time = np.full(len(keys), -1), np.full(len(keys), -(1 << 62))
        parts = np.zeros((len(self._aggregates), 4, len(keys)))
        parts[:, 2], parts[:, 3] = np.inf, -np.inf
        first = 0
        for pane in panes:  # in the order of time, so that sums come out the same however the rows were cut
            here = place[first : first + len(pane.key)]
            first += len(pane.key)
            slot[here], time[here] = pane.slot, pane.time
            parts[:, :2, here] += pane.parts[:, :2]
            parts[:, 2, here] = np.minimum(parts[:, 2, here], pane.parts[:, 2])
            parts[:, 3, here] = np.maximum(parts[:, 3, here], pane.parts[:, 3])
        return keys, slot, time, [_value(a.function, p) for a, p in zip(self._aggregates, parts, strict=True)]

    def slots(self) -> np.ndarray:
        """The rows that answers may still name."""
        return np.concatenate([p.slot for p in self.panes]) if self.panes else np.empty(0, np.int64)

    def saved(self) -> dict[str, np.ndarray]:
        """All panes, one after the other."""
        sizes = [len(p.key) for p in self.panes]
        whole = {
            "at": np.array([p.at for p in self.panes], np.int64),
            "sizes": np.array(sizes, np.int64),
        }
        for name in ("key", "slot", "time"):
            whole[name] = np.concatenate([getattr(p, name) for p in self.panes] or [np.empty(0, np.int64)])
        shape = (len(self._aggregates), 4, 0)
        whole["parts"] = np.concatenate([p.parts for p in self.panes] or [np.empty(shape)], axis=2)
        return whole

    def load(self, saved: Mapping[str, np.ndarray]) -> None:
        """Go on from what was saved."""
        saved = checked(saved, _HOLDS, aggregates=len(self._aggregates))
        sizes = saved["sizes"]
        require(sizes <= len(saved["key"]), "a pane has more keys than there are")
        require(sizes.sum() == len(saved["key"]), "its panes have other keys than there are")
        require(np.diff(saved["at"]) >= 0, "its panes are in no order")
        count = saved["parts"][:, 0]
        require((count >= 0) & (count < 1 << 53) & (count == np.floor(count)), "a count is no whole number")
        cuts = np.cumsum(saved["sizes"])[:-1]
        columns = [np.split(saved[name], cuts) for name in ("key", "slot", "time")]
        parts = np.split(saved["parts"], cuts, axis=2)
        self.panes = []
        for i, at in enumerate(saved["at"]):
            key, slot, time = (column[i] for column in columns)
            self.panes.append(Pane(int(at), key, slot, time, parts[i]))


def _value(function: str, parts: np.ndarray) -> np.ndarray:
    count, total, low, high = parts
    if function == "count":
        return count
    value = {"sum": total, "min": low, "max": high}.get(function)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(count > 0, total / count if value is None else value, np.nan)
