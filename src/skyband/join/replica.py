"""What was read of the remote side, when, and how it has been seen to change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.engines.validation import checked, held, require, under
from skyband.errors import TableError

NEVER = -(1 << 62)
"""The time of what was never read."""

_RING = 512  # changes that are remembered as examples of what a change looks like
_PRIOR = 1.0  # weight of the belief that a value changes once in a slide
_AGES = np.array([0.5, 1.5, 2.5, 3.5, 5.5, 8.5, 13.5, 21.5, 34.5])  # slides, between which look-ups are counted by age
_WEIGHT = 8.0  # look-ups of an age that count as much as what all ages tell
_PLAIN = ("time", "first", "count", "exposure", "changes", "aged", "moments", "ring")
_HOLDS = {
    "time": held("i8", "keys"),
    "first": held("i8", "keys", low=-1),
    "count": held("i8", "keys", low=0),
    "exposure": held("f8", "keys", low=0, high=np.inf),
    "changes": held("f8", "keys", low=0, high=np.inf),
    "aged": held("f8", len(_AGES) + 1, 3),
    "moments": held("f8", "columns", 5),
    "ring": held("f8", "columns", _RING),
    "ringed": held("i8", 1, low=0),
}


class Read(NamedTuple):
    """What an update did, by code."""

    changed: np.ndarray  # codes whose value is another now, or that were read for the first time
    same: np.ndarray


class Replica:
    """Remote rows by key code, with the age of every entry.

    A key may have no remote row (absent), one, or several. From every look-up it learns how likely a value is to
    have changed at some age, and what a changed value looks like: new = mean + rho * (old - mean) + one of the
    deviations seen before. rho is near 0 where values are drawn anew and near 1 where they drift.

    Cost: O(look-ups) an update. Memory: the rows read, O(1) a key besides.
    """

    def __init__(self, columns: tuple[str, ...], unit: int, types: pa.Schema | None = None) -> None:
        self.columns = columns
        self.rows: pa.Table | None = None if types is None else types.empty_table()
        self._said = types is not None  # the query names the types, so they stay
        self._unit = unit  # of age: one slide
        self.time = np.empty(0, np.int64)
        self.first = np.empty(0, np.int64)  # where a key's rows begin; -1: none
        self.count = np.empty(0, np.int64)
        self._new: list[pa.Table] = []
        self.value: dict[str, np.ndarray] = {}  # numbers of the first row of a key
        self.exposure = np.empty(0)  # how long a key was watched, in slides
        self.changes = np.empty(0)  # how often it was seen to have changed
        self.aged = np.zeros((len(_AGES) + 1, 3))  # look-ups by age: how many, how many had changed, their summed age
        self.moments = np.zeros((len(columns), 5))  # of each column: n, mean, M2, cov(old, new), var(old)
        self.ring = np.zeros((len(columns), _RING))
        self.ringed = 0
        self._usual: float | None = None  # the usual rate, until more is learned

    def __len__(self) -> int:
        return int((self.time > NEVER).sum())

    def grow(self, keys: int) -> None:
        """Room for `keys` codes."""
        more = keys - len(self.time)
        if more <= 0:
            return
        for name, empty in (("time", NEVER), ("first", -1), ("count", 0), ("exposure", 0.0), ("changes", 0.0)):
            column = getattr(self, name)
            setattr(self, name, np.concatenate([column, np.full(more, empty, column.dtype)]))
        for name in self.value:
            self.value[name] = np.concatenate([self.value[name], np.full(more, np.nan)])

    @property
    def schema(self) -> pa.Schema | None:
        """The types of the remote columns, once they are known."""
        return self.rows.schema if self.rows is not None else self._new[0].schema if self._new else None

    def unread(self, codes: np.ndarray) -> np.ndarray:
        """Which of these codes were never read."""
        return self.time[codes] == NEVER

    def table(self) -> pa.Table | None:
        """All rows that were read, the useless ones among them."""
        if self._new:
            parts = ([] if self.rows is None else [self.rows]) + self._new
            self.rows, self._new = pa.concat_tables(parts).combine_chunks(), []
        return self.rows

    def take(self, places: np.ndarray) -> pa.Table | None:
        """The remote columns at these places, NULL where a place is below zero."""
        rows = self.table()
        if rows is None:
            return None
        return rows.take(pa.array(places, mask=places < 0)) if (places < 0).any() else rows.take(pa.array(places))

    def places(self, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The remote rows of codes: for each the place of its code, its number within the code, and where it is.

        A code without a remote row has one that is nowhere (-1).
        """
        count = np.maximum(self.count[codes], 1)
        which = np.repeat(np.arange(len(codes)), count)
        part = np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count)
        first = self.first[codes][which]
        return which, part, np.where(first < 0, -1, first + part)

    def settle(self, rows: pa.Table | None) -> None:
        """Let the first rows that come say what types the columns have."""
        if self.schema is None and rows is not None:
            self.rows = rows.select(self.columns).schema.empty_table()

    def _wider(self, old: pa.DataType, new: pa.DataType) -> pa.DataType:
        """What a column is after a value of another type: whole numbers may turn out to be none."""
        if pa.types.is_null(old):
            return new
        turns = not self._said and pa.types.is_integer(old) and pa.types.is_floating(new)
        return pa.float64() if turns else old

    def conform(self, rows: pa.Table) -> pa.Table:
        """`rows` in the types first seen, or a TableError."""
        try:
            chosen = rows.select(self.columns)
            known = self.schema
            if known is None or chosen.schema.types == known.types:
                return chosen
            better = [self._wider(old, new) for old, new in zip(known.types, chosen.schema.types, strict=True)]
            if better != known.types:
                known = pa.schema(list(zip(self.columns, better, strict=True)))
                table = self.table()
                self.rows = None if table is None else table.cast(known)
            return chosen.cast(known)
        except (KeyError, pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            msg = f"the remote rows do not fit those before: {str(error).splitlines()[0]}"
            raise TableError(msg) from error

    def update(self, codes: np.ndarray, row_codes: np.ndarray, rows: pa.Table, now: int | np.ndarray) -> Read:
        """Take what was read of `codes` (distinct) at `now`: `rows`, and the code of each; the others are absent."""
        rows = self.conform(rows)
        order = np.argsort(row_codes, kind="stable")
        row_codes, rows = row_codes[order], rows.take(pa.array(order))
        table = self.table()
        base = 0 if table is None else table.num_rows
        first = np.searchsorted(row_codes, codes)
        count = np.searchsorted(row_codes, codes, side="right") - first
        changed = ~self._alike(table, codes, rows, first, count)
        self._learn(codes, changed, rows, np.where(count > 0, first, -1), now)
        moved = changed & (count > 0)
        self._new.append(rows)
        self.first[codes[moved]] = base + first[moved]
        self.first[codes[changed & (count == 0)]] = -1
        self.count[codes] = count
        self.time[codes] = now
        self._tidy()
        return Read(codes[changed], codes[~changed])

    def _alike(
        self, table: pa.Table | None, codes: np.ndarray, rows: pa.Table, first: np.ndarray, count: np.ndarray
    ) -> np.ndarray:
        """Whether each code's rows are what they were."""
        alike = (self.time[codes] > NEVER) & (self.count[codes] == count)
        which = np.flatnonzero(alike & (count > 0))
        if table is None or not len(which):
            return alike
        sizes = count[which]
        step = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        old = table.take(pa.array(np.repeat(self.first[codes[which]], sizes) + step))
        new = rows.take(pa.array(np.repeat(first[which], sizes) + step))
        equal = np.ones(len(step), np.bool_)
        for a, b in zip(old.columns, new.columns, strict=True):
            if pa.types.is_null(a.type):
                continue
            both = pc.and_(pc.is_null(a), pc.is_null(b))
            equal &= pc.fill_null(pc.or_kleene(pc.equal(a, b), both), fill_value=False).to_numpy(zero_copy_only=False)
        alike[which] = np.logical_and.reduceat(equal, np.cumsum(sizes) - sizes)
        return alike

    def _learn(
        self, codes: np.ndarray, changed: np.ndarray, rows: pa.Table, first: np.ndarray, now: int | np.ndarray
    ) -> None:
        known = self.time[codes] > NEVER
        age = np.maximum(now - self.time[codes], 0) / self._unit
        self._watch(codes[known], age[known], changed[known], self._chance(codes[known]))
        told = np.stack([np.ones(known.sum()), changed[known], age[known]], axis=1)
        np.add.at(self.aged, np.searchsorted(_AGES, age[known]), told)
        self._usual = None
        for i, name in enumerate(self.columns):
            kind = rows.schema.field(name).type
            if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
                continue
            number = rows[name].cast(pa.float64(), safe=False).to_numpy()
            new = (
                np.where(first >= 0, number[np.maximum(first, 0)], np.nan)
                if len(number)
                else np.full(len(codes), np.nan)
            )
            value = self.value.setdefault(name, np.full(len(self.time), np.nan))
            self._model(i, value[codes], new, changed)
            value[codes] = new

    def _chance(self, codes: np.ndarray) -> np.ndarray:
        """How likely a new value is to equal the old one by chance."""
        chance = np.ones(len(codes)) if self.value and self.ringed else np.zeros(len(codes))
        size = min(self.ringed, _RING)
        for i, name in enumerate(self.columns):
            if name in self.value and size:
                old = self.value[name][codes][:, None]
                new = self._level(i, old) + self.ring[i, :size]
                with np.errstate(invalid="ignore"):
                    chance *= (np.abs(new - old) <= 1e-9 * (1 + np.abs(old))).mean(axis=1)
        return chance

    def _watch(self, codes: np.ndarray, age: np.ndarray, changed: np.ndarray, chance: np.ndarray) -> None:
        """One step of EM: a change seen at some age happened at its expected time within it.

        What looks the same may have changed and come out alike by chance, the more so the older it was.
        """
        rate = self.rate(codes)
        left = np.exp(-rate * age)
        with np.errstate(invalid="ignore", divide="ignore"):
            inside = np.where(left < 1 - 1e-9, 1 / rate - age * left / (1 - left), age / 2)
            stayed = np.where(changed, 0.0, np.nan_to_num(left / (left + (1 - left) * chance), nan=1.0))
        np.add.at(self.exposure, codes, stayed * age + (1 - stayed) * inside)
        np.add.at(self.changes, codes, 1 - stayed)

    def _model(self, i: int, old: np.ndarray, new: np.ndarray, changed: np.ndarray) -> None:
        """Learn what a column's new values look like."""
        good = changed & np.isfinite(new)
        n, mean, spread, cov, var = self.moments[i]
        for x, before in zip(new[good], old[good], strict=True):
            n += 1
            delta = x - mean
            mean += delta / n
            spread += delta * (x - mean)
            if np.isfinite(before):
                cov += (before - mean) * (x - mean)
                var += (before - mean) ** 2
            rho = _rho(cov, var, spread / n)
            self.ring[i, self.ringed % _RING] = x - mean - (rho * (before - mean) if np.isfinite(before) else 0.0)
            self.ringed += i == len(self.columns) - 1 or len(self.columns) == 1
        self.moments[i] = n, mean, spread, cov, var

    def rate(self, codes: np.ndarray) -> np.ndarray:
        """Changes a slide of these codes: what was seen of each, drawn towards what was seen of all."""
        return self._temper(codes) * self.usual_rate()

    def watched_rate(self, codes: np.ndarray) -> np.ndarray:
        """As `rate`, from how long the codes were watched: a few look-ups that found nothing new are no proof."""
        return self._temper(codes) * self._total()

    def _total(self) -> float:
        """Changes a slide of all that was watched."""
        return float((self.changes.sum() + _PRIOR) / (self.exposure.sum() + _PRIOR))

    def _temper(self, codes: np.ndarray) -> np.ndarray:
        """How much more often than usual each code changes."""
        weight = 8.0  # a key's own record counts half after eight changes' worth of watching
        return (self.changes[codes] + weight) / (self.exposure[codes] * self._total() + weight)

    def usual_rate(self) -> float:
        """Changes a slide that explain best how many look-ups of each age found another value."""
        if self._usual is None:
            self._usual = self._explains()
        return self._usual

    def _explains(self) -> float:
        many, changed, sums = self.aged[self.aged[:, 0] > 0].T
        if not len(many) or not sums.any():
            return 1.0
        age = np.maximum(sums / many, 1e-3)
        low, high = np.log(1e-4), np.log(1e2)
        for _ in range(40):  # where the likelihood, which has one peak, stops rising
            middle = (low + high) / 2
            left = np.exp(-np.exp(middle) * age)
            rises = (changed * age * left / np.maximum(1 - left, 1e-12) - (many - changed) * age).sum() > 0
            low, high = (middle, high) if rises else (low, middle)
        return float(np.exp(low))

    def stale(self, codes: np.ndarray, now: int) -> np.ndarray:
        """The chance that each code's value is another by now: what look-ups of its age have found, and its own record.

        Where few were of that age, what all of them tell. Keys that never change keep the chance of old values
        below one, which one rate for all would not. What was read at this moment holds.
        """
        age = np.where(self.time[codes] == NEVER, 1e9, np.maximum(now - self.time[codes], 0) / self._unit)
        return np.where(age > 0, 1 - self._same(age) ** self._temper(codes), 0.0)

    def lasting(self, codes: np.ndarray) -> np.ndarray:
        """The chance that what is read of each code now is still right a slide later."""
        return self._same(np.ones(len(codes))) ** self._temper(codes)

    def lasts(self) -> float:
        """The share of values that last a slide, taken for none until a hundred look-ups have told."""
        told = self.aged[:, 0].sum()
        return float(self._same(np.ones(1))[0] * told / (told + 100))

    def _same(self, age: np.ndarray) -> np.ndarray:
        """The share of values of an age, in slides, that are found as they were."""
        place = np.searchsorted(_AGES, age)
        usual = 1 - np.exp(-self.usual_rate() * age)
        return np.maximum(1 - (self.aged[place, 1] + _WEIGHT * usual) / (self.aged[place, 0] + _WEIGHT), 1e-12)

    def draws(self, codes: np.ndarray, worlds: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """New values that these codes may have if they have changed: column name to (codes, worlds)."""
        drawn = {}
        pick = rng.integers(max(min(self.ringed, _RING), 1), size=(len(codes), worlds))
        for i, name in enumerate(self.columns):
            if name not in self.value:
                continue
            drawn[name] = self._level(i, self.value[name][codes][:, None]) + self.ring[i][pick]
        return drawn

    def _level(self, i: int, old: np.ndarray) -> np.ndarray:
        """Where a column's new value is to be expected, given the old one."""
        n, mean, spread, cov, var = self.moments[i]
        rho = _rho(cov, var, spread / max(n, 1))
        return mean + rho * np.where(np.isfinite(old), old - mean, 0.0)

    def evict(self, size: int, needed: np.ndarray) -> np.ndarray:
        """Forget the longest unread keys, those that no open window needs first, until `size` are left; who went."""
        there = np.flatnonzero(self.time > NEVER)
        surplus = len(there) - size
        if surplus <= 0:
            return there[:0]
        gone = there[np.lexsort((self.time[there], np.isin(there, needed)))[:surplus]]
        self.time[gone], self.first[gone], self.count[gone] = NEVER, -1, 0
        self._tidy()
        return gone

    def _tidy(self) -> None:
        """Drop rows that are no longer any key's, when they are most of all."""
        table = self.table()
        used = int(self.count[self.first >= 0].sum())
        if table is None or table.num_rows < 2 * used + 64:
            return
        codes = np.flatnonzero(self.first >= 0)
        sizes = self.count[codes]
        starts = np.cumsum(sizes) - sizes
        step = np.arange(sizes.sum()) - np.repeat(starts, sizes)
        self.rows = table.take(pa.array(np.repeat(self.first[codes], sizes) + step)).combine_chunks()
        self.first[codes] = starts

    def renumber(self, codes: np.ndarray) -> None:
        """Keep these codes, and number them from 0 on."""
        for name in ("time", "first", "count", "exposure", "changes"):
            setattr(self, name, getattr(self, name)[codes])
        self.value = {name: column[codes] for name, column in self.value.items()}

    def saved(self) -> dict[str, np.ndarray | pa.Table]:
        """All that is known, as named arrays and one table."""
        saved: dict[str, np.ndarray | pa.Table] = {name: getattr(self, name) for name in _PLAIN}
        saved["ringed"] = np.array([self.ringed])
        saved |= {f"value/{name}": column for name, column in self.value.items()}
        table = self.table()
        return saved if table is None else {**saved, "remote": table}

    def load(self, saved: Mapping[str, np.ndarray | pa.Table]) -> None:
        """Go on from what was saved."""
        values = [name for name in saved if name.startswith("value/")]
        holds = {**_HOLDS, **{name: held("f8", "keys") for name in values}}
        found = checked(saved, holds, columns=len(self.columns))
        rows = saved.get("remote")
        self.rows, self._new = (rows if isinstance(rows, pa.Table) else None), []
        require(self.rows is None or set(self.columns) <= set(self.rows.column_names), "its rows lack a column")
        read, first, count = (0 if self.rows is None else self.rows.num_rows), found["first"], found["count"]
        require((first < 0) | ((count > 0) & (first <= read - count)), "a key has rows that were never read")
        require((first >= 0) | (count == 0), "a key has rows that are nowhere")
        require({name.removeprefix("value/") for name in values} <= set(self.columns), "it has values of no column")
        for name in _PLAIN:
            setattr(self, name, found[name])
        self.ringed, self._usual = int(found["ringed"][0]), None
        self.value = under(found, "value/")


def _rho(cov: float, var: float, spread: float) -> float:
    """How far a new value follows the old one; little evidence counts as none."""
    rho = min(max(cov / (var + 10 * spread), -1.0), 1.0) if var + spread > 0 else 0.0
    return rho if abs(rho) > 0.2 else 0.0
