"""What a refresh policy may choose from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

Rescore = Callable[[Mapping[str, np.ndarray]], np.ndarray]
"""From remote columns, each (objects, worlds), to the scores that the objects would have with them."""


@dataclass(frozen=True)
class Candidates:
    """The objects of the window that closes, by remote key, the best first by what the replica says.

    Examples
    --------
    >>> c = Candidates.of(id=[7, 3], score=[2.0, 1.0], k=1)
    >>> c.id[c.listed].tolist()
    [7, 3]
    """

    id: np.ndarray  # int64: the key's number in the replica
    score: np.ndarray  # by the replica
    listed: np.ndarray  # whether it is among the k + spare best of this window or of one to come
    time: np.ndarray  # int64: when its newest row came
    rows: np.ndarray  # int64: how many objects hang on it
    k: int
    size: int = 1  # of the window
    slide: int = 1
    rescore: Rescore | None = None
    tie: np.ndarray | None = None  # of equal scores the larger goes first

    @classmethod
    def of(cls, *, id: object, score: object, k: int, **more: object) -> Candidates:
        """Candidates with all else left at what is usual."""
        ids = np.asarray(id, np.int64)
        usual = {
            "listed": np.ones(len(ids), np.bool_),
            "time": np.zeros(len(ids), np.int64),
            "rows": np.ones(len(ids), np.int64),
        }
        return cls(ids, np.asarray(score, np.float64), k=k, **{**usual, **more})  # type: ignore[arg-type]
