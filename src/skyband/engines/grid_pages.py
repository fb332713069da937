"""Pages that the loops over many queries write on, and the answers bound from them."""

from __future__ import annotations

import numpy as np

from skyband.engines.protocol import Answers
from skyband.kernels.watching import Page


def page_of(rows: int, lists: int) -> Page:
    """Room for what is told."""
    step, end, query, id, rank = (np.empty(n, np.int64) for n in (lists, lists, lists, rows, rows))
    return Page(step, end, query, np.zeros(lists + 1, np.int64), id, np.empty(rows), rank)


def written(page: Page, lists: int, rows: int) -> Page:
    """What of a page was written."""
    step, end, query, first, id, score, rank = page
    step, end, query = (column[:lists].copy() for column in (step, end, query))
    id, score, rank = (column[:rows].copy() for column in (id, score, rank))
    return Page(step, end, query, first[: lists + 1].copy(), id, score, rank)


def bound(pages: list[Page], *, whole: bool) -> Answers:
    """All pages as one."""
    step, end, query, id, score, rank = (np.concatenate([p[at] for p in pages]) for at in (0, 1, 2, 4, 5, 6))
    first = np.concatenate([[0], np.cumsum(np.concatenate([np.diff(p.first) for p in pages]))]).astype(np.int64)
    return Answers(step, end, query.astype(np.int32), first, id, score, None if whole else rank)
