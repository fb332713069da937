"""Columns as kernels want them."""

from __future__ import annotations

import numpy as np


def fixed(column: np.ndarray) -> np.ndarray:
    """The column, not to be written to: whatever it comes from, a kernel is compiled for one kind of it alone.

    Examples
    --------
    >>> column = np.arange(3)
    >>> fixed(column).flags.writeable, column.flags.writeable
    (False, True)
    """
    if not column.flags.c_contiguous:
        column = np.ascontiguousarray(column)
    if column.flags.writeable:
        column = column.view()
        column.flags.writeable = False
    return column
