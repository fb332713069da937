"""What a forgotten object may score: its row is gone, but its remote row and the range of its values are known."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from skyband.query.expression import Expression
from skyband.query.monotone import direction, is_required, split_filters

if TYPE_CHECKING:
    from skyband.join.board import Board


class Limits(NamedTuple):
    """The least and the greatest score of forgotten objects, one for each remote row; larger is better."""

    which: np.ndarray  # int64: place of the key
    part: np.ndarray  # int64: which of the key's remote rows
    low: np.ndarray  # NaN where there is no such limit
    high: np.ndarray  # inf where there is no such limit; NaN where the object has no score


class Extremes:
    """The least and the greatest stream values of forgotten objects, by the last window that holds them.

    The paper keeps the least value of all objects (min.scoreS) and resets it at every purge. Erratum: objects of older
    panes are still in the window then, so the values are kept by window.

    Cost: O(1) a forgotten object. Memory: two numbers an open window and column.
    """

    def __init__(self, board: Board) -> None:
        self._board = board
        by, schema, join = board.query.by, board.schema, board.join
        self.expression = isinstance(by, Expression)
        used = [n for n in by.columns if n in schema.names and n != join.on] if isinstance(by, Expression) else []
        self.columns = [name for name in used if _is_number(schema.field(name).type)]
        self.oldest = 0
        self.low, self.high = self._nothing(0), self._nothing(0)  # (columns, windows from the oldest on)
        self.bounded = False  # whether a greatest score is known
        self.conditional = self.filtered = False  # whether rows may be left out; whether for their remote values
        self._ways: dict[str, int | None] = {}
        self._required: list[str] = []  # remote columns without which there is no score
        self._open = np.zeros(len(self.columns), np.bool_)  # columns where a NULL leaves a score
        if not isinstance(by, Expression):
            return
        tree, conditions = split_filters(by.tree)
        self._ceiling = Expression(by.text, tree, by.columns)
        self._ways = {name: direction(tree, name) for name in used}
        known = all(self._ways[name] is not None for name in used)
        self.bounded = known and all(name in self.columns or self._ways[name] == 0 for name in used)
        self.conditional = bool(conditions)
        self.filtered = any(direction(c, name) != 0 for c in conditions for name in join.columns)
        self._required = [name for name in join.columns if is_required(by.tree, name)]
        self._open = np.array([not is_required(tree, name) for name in self.columns], np.bool_)

    def _nothing(self, windows: int) -> np.ndarray:
        return np.full((len(self.columns), windows), np.nan)

    def numbers(self, rows: pa.Table) -> np.ndarray:
        """The values of rows that the score uses: (rows, columns), NaN where there is none."""
        found = np.empty((rows.num_rows, len(self.columns)))
        for i, name in enumerate(self.columns):
            found[:, i] = rows[name].cast(pa.float64(), safe=False).to_numpy()
        return found

    def measure(self, last: np.ndarray, values: np.ndarray) -> None:
        """Take the values of objects that are forgotten now, and the last window that holds each."""
        for i, column in enumerate(values.T):
            low = high = column
            if self._open[i]:  # least() and greatest() pass over a NULL, as if it were an infinity
                low, high = (np.where(np.isnan(column), end, column) for end in (-np.inf, np.inf))
            self.add(i, last, low, high)

    def add(self, column: int, last: np.ndarray, low: np.ndarray | float, high: np.ndarray | float) -> None:
        """Take the least and the greatest values of one column."""
        open_ = last >= self.oldest
        low, high = (np.broadcast_to(ends, last.shape)[open_] for ends in (low, high))
        self._reach(int(last.max(initial=self.oldest)))
        np.fmin.at(self.low[column], last[open_] - self.oldest, low)
        np.fmax.at(self.high[column], last[open_] - self.oldest, high)

    def unknown(self, last: int) -> None:
        """Objects of windows up to `last` were forgotten, and may have had any values."""
        self._reach(last)
        self.low[:, : last - self.oldest + 1], self.high[:, : last - self.oldest + 1] = -np.inf, np.inf

    def _reach(self, last: int) -> None:
        more = last - self.oldest + 1 - self.low.shape[1]
        if more > 0:
            self.low, self.high = (np.append(ends, self._nothing(more), axis=1) for ends in (self.low, self.high))

    def expire(self, oldest: int) -> None:
        """Close all windows before `oldest`."""
        gone = max(oldest - self.oldest, 0)
        self.low, self.high, self.oldest = self.low[:, gone:], self.high[:, gone:], oldest

    def missing(self, place: np.ndarray) -> np.ndarray:
        """Which remote rows lack a value that every score needs; places below zero have no row."""
        remote = self._board.replica.take(place)
        found = place < 0 if self._required else np.zeros(len(place), np.bool_)
        if remote is not None:
            for name in self._required:
                found = found | remote[name].is_null(nan_is_null=True).to_numpy()
        return found

    def rows(self, keys: np.ndarray) -> pa.Table:
        """Rows with the key and nothing else, for objects whose own rows are gone."""
        schema, on = self._board.schema, self._board.join.on
        rows = pa.table({field.name: pa.nulls(len(keys), field.type) for field in schema})
        place = schema.get_field_index(on)
        return rows.set_column(place, schema.field(place), self._board.key_values(keys).cast(schema.field(place).type))

    def limits(self, keys: np.ndarray, last: np.ndarray) -> Limits:
        """What forgotten objects of these keys score with the remote rows that the replica has now.

        `last` is the last window that holds each; of objects that are rows, the last that holds one of them.
        """
        board = self._board
        which, part, place = board.replica.places(keys)
        missing = self.missing(place)
        if not self.expression:
            return Limits(which, part, np.full(len(which), np.nan), np.where(missing, np.nan, np.inf))
        self._reach(int(last.max()))
        low, high = self.low, self.high
        if board.join.each == "row":
            low, high = np.fmin.accumulate(low, axis=1), np.fmax.accumulate(high, axis=1)
        at = last[which] - self.oldest
        rows, up = self.rows(keys[which]), [self._ways[name] != -1 for name in self.columns]
        ends = []
        for great in (board.query.ascending, not board.query.ascending):
            values = [(high if rises == great else low)[i, at] for i, rises in enumerate(up)]
            ends.append(board.scored(self._with(rows, values), place, self._ceiling))
        worst, best = ends
        if self.bounded:  # where an end has no score, the other one says nothing of what lies between
            worst = np.where(np.isnan(best), np.nan, worst)
        best = np.where(np.isnan(best) | (not self.bounded), np.inf, best)
        return Limits(which, part, np.where(missing, np.nan, worst), np.where(missing, np.nan, best))

    def _with(self, rows: pa.Table, values: list[np.ndarray]) -> pa.Table:
        for name, value in zip(self.columns, values, strict=True):
            rows = rows.set_column(rows.schema.get_field_index(name), name, pa.array(value, from_pandas=True))
        return rows


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
