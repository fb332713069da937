"""Answers of the loops over many queries."""

from __future__ import annotations

import numpy as np

from skyband.engines.protocol import Answers
from skyband.kernels.answers import AnswerBuffer, concatenate

COLUMNS = ("end", "query", "rank")
"""Columns of an answer buffer that the loops write."""


def bound(pages: list[AnswerBuffer], *, whole: bool) -> Answers:
    """All pages as one."""
    step, end, _, query, first, id, score, rank = concatenate(pages)
    return Answers(step, end, query.astype(np.int32), first, id, score, None if whole else rank)
