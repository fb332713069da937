"""Columns as kernels take them."""

from __future__ import annotations

import numpy as np


def read_only(column: np.ndarray) -> np.ndarray:
    """Return a contiguous, read-only view of the column, so that Numba compiles a kernel for one type only.

    Examples
    --------
    >>> column = np.arange(3)
    >>> read_only(column).flags.writeable, column.flags.writeable
    (False, True)
    """
    if not column.flags.c_contiguous:
        column = np.ascontiguousarray(column)
    if column.flags.writeable:
        column = column.view()
        column.flags.writeable = False
    return column
