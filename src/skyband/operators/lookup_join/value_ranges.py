"""What a forgotten object may score: its row is gone, but its remote row and the range of its values are known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from skyband.engines.validation import MAX_WINDOWS_AHEAD, require
from skyband.query.expression import Expression
from skyband.query.monotone import direction, is_required, split_filters
from skyband.runtime.snapshot import table_of

if TYPE_CHECKING:
    from skyband.operators.lookup_join.remote_rows import RemoteRows
    from skyband.query import TopK
    from skyband.windows import WindowAssigner


class ScoreLimits(NamedTuple):
    """The least and the greatest score of forgotten objects, one for each remote row; larger is better."""

    which: np.ndarray  # int64: place of the key
    part: np.ndarray  # int64: which of the key's remote rows
    low: np.ndarray  # NaN where there is no such limit
    high: np.ndarray  # inf where there is no such limit; NaN where the object has no score


class ValueRanges:
    """The least and the greatest stream values of forgotten objects, by the last window that holds them.

    The paper keeps the least value of all objects (min.scoreS) and resets it at every purge. Erratum: objects of older
    panes are still in the window then, so the values are kept by window.

    Cost: O(1) a forgotten object. Memory: two numbers an open window and column.
    """

    def __init__(self, query: TopK, schema: pa.Schema, remote: RemoteRows) -> None:
        assert query.join is not None
        self._query, self._schema, self._remote = query, schema, remote
        self._each_row = query.join.each == "row"
        by, join = query.by, query.join
        self._expression = isinstance(by, Expression)
        used = [n for n in by.columns if n in schema.names and n != join.on] if isinstance(by, Expression) else []
        self.columns = [name for name in used if _is_number(schema.field(name).type)]
        self.oldest = 0
        self.low, self.high = self._nothing(0), self._nothing(0)  # (columns, windows from the oldest on)
        self.bounded = False  # whether a greatest score is known
        self.conditional = self.filtered = False  # whether rows may be left out; whether for their remote values
        self._directions: dict[str, int | None] = {}
        self._required: list[str] = []  # remote columns without which there is no score
        self._optional = np.zeros(len(self.columns), np.bool_)  # columns where a NULL leaves a score
        if not isinstance(by, Expression):
            return
        tree, conditions = split_filters(by.tree)
        self._unconditional = Expression(by.text, tree, by.columns)
        self._directions = {name: direction(tree, name) for name in used}
        known = all(self._directions[name] is not None for name in used)
        self.bounded = known and all(name in self.columns or self._directions[name] == 0 for name in used)
        self.conditional = bool(conditions)
        self.filtered = any(direction(c, name) != 0 for c in conditions for name in join.columns)
        self._required = [name for name in join.columns if is_required(by.tree, name)]
        self._optional = np.array([not is_required(tree, name) for name in self.columns], np.bool_)

    def _nothing(self, windows: int) -> np.ndarray:
        return np.full((len(self.columns), windows), np.nan)

    def numbers(self, rows: pa.Table) -> np.ndarray:
        """Return the values of rows that the score uses: (rows, columns), NaN where there is none."""
        found = np.empty((rows.num_rows, len(self.columns)))
        for i, name in enumerate(self.columns):
            found[:, i] = rows[name].cast(pa.float64(), safe=False).to_numpy()
        return found

    def add(self, last: np.ndarray, values: np.ndarray) -> None:
        """Take the values of objects that are forgotten now, and the last window that holds each."""
        for i, column in enumerate(values.T):
            low = high = column
            if self._optional[i]:  # least() and greatest() skip a NULL, as if it were an infinity
                low, high = (np.where(np.isnan(column), end, column) for end in (-np.inf, np.inf))
            self._widen(i, last, low, high)

    def _widen(self, column: int, last: np.ndarray, low: np.ndarray | float, high: np.ndarray | float) -> None:
        open_ = last >= self.oldest
        low, high = (np.broadcast_to(ends, last.shape)[open_] for ends in (low, high))
        self._make_room(int(last.max(initial=self.oldest)))
        np.fmin.at(self.low[column], last[open_] - self.oldest, low)
        np.fmax.at(self.high[column], last[open_] - self.oldest, high)

    def add_unknown(self, last: int) -> None:
        """Note that objects of windows up to `last` were forgotten that may have had any values."""
        self._make_room(last)
        self.low[:, : last - self.oldest + 1], self.high[:, : last - self.oldest + 1] = -np.inf, np.inf

    def _make_room(self, last: int) -> None:
        more = last - self.oldest + 1 - self.low.shape[1]
        if more > 0:
            self.low, self.high = (np.append(ends, self._nothing(more), axis=1) for ends in (self.low, self.high))

    def expire(self, oldest: int) -> None:
        """Close all windows before `oldest`."""
        gone = max(oldest - self.oldest, 0)
        self.low, self.high, self.oldest = self.low[:, gone:], self.high[:, gone:], oldest

    def lacks_value(self, place: np.ndarray) -> np.ndarray:
        """Return which remote rows lack a value that every score needs; places below zero have no row."""
        remote = self._remote.replica.take(place)
        found = place < 0 if self._required else np.zeros(len(place), np.bool_)
        if remote is not None:
            for name in self._required:
                found = found | remote[name].is_null(nan_is_null=True).to_numpy()
        return found

    def rows(self, keys: np.ndarray) -> pa.Table:
        """Return rows with the key and nothing else, for objects whose own rows are gone."""
        rows = pa.table({field.name: pa.nulls(len(keys), field.type) for field in self._schema})
        place = self._schema.get_field_index(self._remote.on)
        field = self._schema.field(place)
        return rows.set_column(place, field, self._remote.key_values(keys).cast(field.type))

    def limits(self, keys: np.ndarray, last: np.ndarray) -> ScoreLimits:
        """Return what forgotten objects of these keys may score with the remote rows that the replica has now.

        `last` is the last window that holds each; if every row is an object, the last that holds one of them.
        """
        which, part, place = self._remote.replica.places(keys)
        missing = self.lacks_value(place)
        if not self._expression:
            return ScoreLimits(which, part, np.full(len(which), np.nan), np.where(missing, np.nan, np.inf))
        self._make_room(int(last.max()))
        low, high = self.low, self.high
        if self._each_row:
            low, high = np.fmin.accumulate(low, axis=1), np.fmax.accumulate(high, axis=1)
        at = last[which] - self.oldest
        rows, up = self.rows(keys[which]), [self._directions[name] != -1 for name in self.columns]
        ends = []
        for great in (self._query.ascending, not self._query.ascending):
            values = [(high if rises == great else low)[i, at] for i, rises in enumerate(up)]
            ends.append(self._remote.score(self._query, self._with(rows, values), place, self._unconditional))
        worst, best = ends
        if self.bounded:  # where one end has no score, the other tells nothing of what lies between
            worst = np.where(np.isnan(best), np.nan, worst)
        best = np.where(np.isnan(best) | (not self.bounded), np.inf, best)
        return ScoreLimits(which, part, np.where(missing, np.nan, worst), np.where(missing, np.nan, best))

    def _with(self, rows: pa.Table, values: list[np.ndarray]) -> pa.Table:
        for name, value in zip(self.columns, values, strict=True):
            rows = rows.set_column(rows.schema.get_field_index(name), name, pa.array(value, from_pandas=True))
        return rows

    def snapshot(self, assigner: WindowAssigner) -> dict[str, Any]:
        """Return the ranges that are known as one table."""
        column, place = np.nonzero(~np.isnan(self.low))
        if not len(place):
            return {}
        columns = {
            "pane": assigner.start(place + self.oldest),
            "name": [self.columns[i] for i in column],
            "low": self.low[column, place],
            "high": self.high[column, place],
        }
        return {"value_ranges": pa.table(columns)}

    def restore(self, saved: Mapping[str, Any], oldest: int, assigner: WindowAssigner) -> None:
        """Go on from a snapshot."""
        self.expire(oldest)
        for row in table_of(saved, "value_ranges").to_pylist() if "value_ranges" in saved else []:
            window = int(assigner.last(row["pane"]))
            require(window - self.oldest < MAX_WINDOWS_AHEAD, "a window lies far away")
            self._widen(self.columns.index(row["name"]), np.array([window]), row["low"], row["high"])


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
