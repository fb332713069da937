"""Answers of many queries: ranked lists that also say whose they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Answers(NamedTuple):
    """Ranked lists, one after the other, as engines for one query give them, and the number of each list's query.

    Lists come ordered by end, then by query, group and step.
    """

    step: np.ndarray  # int64
    end: np.ndarray  # int64
    group: np.ndarray  # int32
    first: np.ndarray  # int64, one longer
    id: np.ndarray  # int64
    score: np.ndarray  # float64
    query: np.ndarray  # int64
    rank: np.ndarray | None = None  # as in the answers of one query: the lists are partial


def ordered(answers: Answers) -> Answers:
    """The same lists ordered by end, query, group and step."""
    if len(answers.step) < 2:
        return answers
    order = np.lexsort((answers.step, answers.group, answers.query, answers.end))
    return chosen(answers, order)


def chosen(answers: Answers, lists: np.ndarray) -> Answers:
    """These lists, in this order."""
    sizes = np.diff(answers.first)[lists]
    first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    place = np.arange(first[-1]) + np.repeat(answers.first[:-1][lists] - first[:-1], sizes)
    step, end, group, query = (column[lists] for column in (answers.step, answers.end, answers.group, answers.query))
    rank = None if answers.rank is None else answers.rank[place]
    return Answers(step, end, group, first, answers.id[place], answers.score[place], query, rank)


def together(parts: Sequence[Answers]) -> Answers:
    """All lists as one, ordered by end, query, group and step."""
    if len(parts) == 1:
        return ordered(parts[0])
    none = Answers(*(np.empty(0, t) for t in ("i8", "i8", "i4", "i8", "i8", "f8", "i8")))
    columns = [np.concatenate(c) for c in zip(none[:7], *(p[:7] for p in parts), strict=True)]
    sizes = np.concatenate([none.first, *(np.diff(p.first) for p in parts)])
    columns[3] = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    ranks = [p.rank for p in parts if p.rank is not None]
    return ordered(Answers(*columns)._replace(rank=np.concatenate(ranks) if ranks else None))
