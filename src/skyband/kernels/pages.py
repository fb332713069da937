"""Room for answers, as several kernels write them.

One class for each form: Numba tells tuples apart by their name and fields when it looks for compiled code, so a second
class of the same name and fields would be taken for the first, found wanting, and looked for anew at every call.
"""

from typing import NamedTuple

import numpy as np


class Page(NamedTuple):
    """After every row: for each list its step and end, where it begins, and its rows."""

    step: np.ndarray  # int64
    end: np.ndarray  # int64; for counting windows the same as `step`
    first: np.ndarray  # int64, one longer
    id: np.ndarray
    score: np.ndarray
    rank: np.ndarray


class Sheet(NamedTuple):
    """By window: for each list its step, end and group, and its number if there are several; and the same."""

    lists: np.ndarray  # int64, 3 or 4 rows
    first: np.ndarray  # int64, one longer
    id: np.ndarray
    score: np.ndarray
