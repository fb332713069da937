"""Questions to the table: asked now, or in the background while changes go on."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.errors import TableError
    from skyband.view.changes import Batch

_RETRY = 1.0  # seconds after a failed refill, where the table names none


class Question(NamedTuple):
    """How many rows, from where on, and the kmax that the view is to have with them."""

    wanted: int
    below: tuple[float, object] | None
    kmax: int
    bound: tuple[float, int] | None  # of the view when it asked: the answer goes on from there, and from nowhere else


class Answer(NamedTuple):
    """The rows that the table gave, and the seconds it took."""

    rows: pa.Table
    seconds: float


Ask = Callable[[int, "tuple[float, object] | None"], "tuple[pa.Table, float]"]
"""Asks the table for so many rows below a rank: the rows and the seconds."""


@dataclass
class Pending:
    """A question that has not been answered yet, and the changes since it was asked."""

    question: Question
    answer: Future[tuple[pa.Table, float]]
    since: list[Batch] = field(default_factory=list)


class Asker:
    """Asks one question at a time, and waits a while after one that failed."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._again = 0.0  # when the table may be asked again
        self._executor: ThreadPoolExecutor | None = None
        self.pending: Pending | None = None

    @property
    def ready(self) -> bool:
        """Whether the table may be asked now."""
        return self.pending is None and time.monotonic() >= self._again

    def hurry(self) -> None:
        """Ask again at once, whatever happened before."""
        self._again = 0.0

    def now(self, question: Question) -> Answer:
        """Ask and wait. Raises TableError."""
        return Answer(*self._ask(question.wanted, question.below))

    def later(self, question: Question) -> None:
        """Ask in the background."""
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, thread_name_prefix="skyband-view")
        self.pending = Pending(question, self._executor.submit(self._ask, question.wanted, question.below))

    def answered(self) -> tuple[Pending, Answer] | None:
        """The question in the background with its answer, once, if it has come. Raises TableError."""
        pending = self.pending
        if pending is None or not pending.answer.done():
            return None
        self.pending = None
        return pending, Answer(*pending.answer.result())

    def rest(self, error: TableError) -> None:
        """Leave the table alone for a while after an error."""
        self._again = time.monotonic() + (_RETRY if error.retry_after is None else error.retry_after)
