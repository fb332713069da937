"""The base of engines driven by closing windows: calls a kernel until it has taken all arrivals."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

import numpy as np

from skyband.engines.groups import read_only
from skyband.engines.protocol import Answers, Objects, OneGroupEngine, Snapshot
from skyband.engines.validation import MAX_MAGNITUDE, object_columns, require, typed_column, validate
from skyband.errors import QueryError, SnapshotError
from skyband.kernels.answers import AnswerBuffer, concatenate
from skyband.kernels.columns import Columns
from skyband.kernels.slide import NO_NODE, NO_ROOM, Assigner, S
from skyband.windows import MIN_TIME, WindowAssigner

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skyband.engines.family import QueryFamily

_ROUND_ROWS = 1 << 24  # rows in the lists of one round, at most (or k)
_MAX_REFERENCES = 1 << 26  # to rows, that an engine allocates before the first row
_COLUMNS = {**object_columns(), "state": typed_column("i8", 3)}


class SlideEngine(OneGroupEngine):
    """An engine for one query that gathers rows between two closing windows.

    A subclass allocates what its kernel keeps, then calls `restore`.
    """

    def __init__(self, family: QueryFamily, state_size: int) -> None:
        self._query = family.query
        self._assigner = WindowAssigner.of(family.query.window)
        self._k = int(family.query.k)
        self._state = np.zeros(state_size, np.int64)
        self._state[[S.oldest, S.newest]] = MIN_TIME
        self._state[S.free] = -1
        self.peak = 0

    @property
    def _shape(self) -> Assigner:
        """The windows as kernels take them."""
        return Assigner(self._assigner.size, self._assigner.slide, self._assigner.origin)

    def advance(self, arrivals: Objects, upto: int | np.ndarray, moved: np.ndarray | None = None) -> Answers:  # noqa: ARG002
        """Take `arrivals`, then close every window that ends by `upto`."""
        end, state = int(np.asarray(upto).item()), self._state
        state[S.row] = 0
        rows = Columns(*(read_only(column) for column in arrivals[:3]))
        found = []
        why = NO_ROOM
        while why == NO_ROOM:
            windows = min(max(int(self._assigner.first(end)) - int(state[S.oldest]), 0) + 1, _ROUND_ROWS // self._k + 1)
            buffer = AnswerBuffer.allocate(windows, windows * self._k)
            state[[S.lists, S.rows]] = 0
            while (why := self._call_kernel(rows, end, buffer)) == NO_NODE:
                self._grow()
            found.append(buffer.written(int(state[S.lists]), int(state[S.rows])))
        self.peak = int(state[S.peak])
        step, _, _, _, first, id, score, _ = concatenate(found)
        return Answers(step, self._assigner.end(step), np.zeros(len(step), np.int32), first, id, score)

    @abstractmethod
    def _call_kernel(self, arrivals: Columns, end: int, buffer: AnswerBuffer) -> int:
        """Take arrivals from `state[S.row]` on; return why it came back."""

    @abstractmethod
    def _grow(self) -> None:
        """Allocate more of what the kernel ran out of."""

    def owes_empty_list(self) -> bool:
        """Return whether the last window had rows, so that an empty one must be reported."""
        return bool(self._state[S.nonempty])

    def snapshot(self) -> Snapshot:
        """Return the candidates and three numbers: the predicted lists follow from them (theorem 3.1)."""
        return {**self.candidates().snapshot(), "state": self._state[[S.oldest, S.nonempty, S.peak]]}

    def _restore(self, resume: Mapping[str, np.ndarray] | None) -> None:
        """Insert the candidates of a snapshot again, in their old order, into the windows that were open."""
        if resume is None:
            return
        saved = validate(resume, _COLUMNS)
        state, assigner = self._state, self._assigner
        oldest, spoke, peak = (int(n) for n in saved["state"])
        rows = Objects.restore(saved).take(np.argsort(saved["id"]))
        start, end = assigner.start(oldest), assigner.end(oldest)
        far = MAX_MAGNITUDE + assigner.size + assigner.slide
        require(oldest == MIN_TIME or -far <= start < end <= far, "its oldest window lies far away")
        require(spoke in (0, 1) and peak >= 0, "state has a value that it cannot have")
        state[S.oldest], state[S.nonempty] = oldest, spoke
        if len(rows.id):
            require((np.diff(rows.id) > 0) & (np.diff(rows.time) >= 0), "its rows are in no order of time and id")
            require((rows.time >= start) & (rows.time < end), "a row is in no open window")
            self.advance(rows, end - 1)
        if state[S.candidates] != len(rows.id):
            raise SnapshotError(
                f"{state[S.candidates]} of {len(rows.id)} saved rows matter: the snapshot is of another query"
            )
        self.peak = state[S.peak] = peak

    def _check_memory(self, engine: str, what: str, references: int) -> None:
        """Raise if what an engine allocates before the first row, which grows with k and the window, is too much."""
        if references > _MAX_REFERENCES:
            raise QueryError(
                f"engine={engine!r} keeps {what}: these must be at most {_MAX_REFERENCES:,}, got {references:,} "
                f"with k={self._k}, window={self._query.window!r}: write engine='sweep'"
            )
