"""Groups that come and go: the columns that hold one value for each group, and where each group's rows stand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def enlarged(marks: Any, bands: Any, groups: int, fresh: Mapping[str, Any]) -> tuple[Any, Any]:
    """Marks and bands with room for so many groups; new ones begin with the marks in `fresh` and without rows."""
    new = groups - len(marks.done)
    if new <= 0:
        return marks, bands
    columns = (np.concatenate([old, np.full(new, fresh[name], old.dtype)]) for name, old in marks._asdict().items())
    empty = np.full((2, new), len(bands.score), np.int64)
    return type(marks)(*columns), bands._replace(first=np.concatenate([bands.first, empty], axis=1))


def busy(marks: Any, bands: Any) -> np.ndarray:
    """Groups that keep rows, or have yet to say that their window has become empty."""
    return np.flatnonzero((bands.first[1] > bands.first[0]) | marks.shown)


def regrouped(marks: Any, bands: Any, keep: np.ndarray) -> tuple[Any, Any]:
    """Marks and bands of these groups alone, numbered anew."""
    known = keep[keep < len(marks.done)]
    first = np.ascontiguousarray(bands.first[:, known])
    return type(marks)(*(column[known] for column in marks)), bands._replace(first=first)
