"""What was read of the remote side, when, and how its values have been seen to change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.engines.validation import require, section, typed_column, validate
from skyband.errors import TableError

NOT_READ = -(1 << 62)
"""The time of a key that was never read."""

_RESIDUALS = 512  # changes that are remembered as examples of what a change looks like
_PRIOR = 1.0  # weight of the assumption that a value changes once in a slide
_AGES = np.array([0.5, 1.5, 2.5, 3.5, 5.5, 8.5, 13.5, 21.5, 34.5])  # slides, between which look-ups are counted by age
_AGE_WEIGHT = 8.0  # look-ups of an age that count as much as the estimate from all ages
_KEY_WEIGHT = 8.0  # a key's own record counts half after it was watched for as long as eight changes usually take
_ARRAYS = ("time", "first", "count", "exposure", "changes", "by_age", "moments", "residuals")
_COLUMNS = {
    "time": typed_column("i8", "keys"),
    "first": typed_column("i8", "keys", low=-1),
    "count": typed_column("i8", "keys", low=0),
    "exposure": typed_column("f8", "keys", low=0, high=np.inf),
    "changes": typed_column("f8", "keys", low=0, high=np.inf),
    "by_age": typed_column("f8", len(_AGES) + 1, 3),
    "moments": typed_column("f8", "columns", 5),
    "residuals": typed_column("f8", "columns", _RESIDUALS),
    "residuals_seen": typed_column("i8", 1, low=0),
}


class ReplicaUpdate(NamedTuple):
    """What an update did, by key."""

    changed: np.ndarray  # keys that have another value now, or were read for the first time
    same: np.ndarray


class Replica:
    """Remote rows by the number of their key, with the time at which each key was read.

    A key may have no remote row (absent), one, or several. From every look-up the replica learns how likely a value is
    to have changed at some age, and what a changed value looks like: new = mean + rho * (old - mean) + a residual seen
    before. rho is near 0 where values are drawn anew and near 1 where they drift.

    Cost: O(look-ups) an update. Memory: the rows read, and O(1) a key.
    """

    def __init__(self, columns: tuple[str, ...], unit: int, types: pa.Schema | None = None) -> None:
        self.columns = columns
        self.rows: pa.Table | None = None if types is None else types.empty_table()
        self._typed = types is not None  # the query names the types, so they stay
        self._unit = unit  # of age: one slide
        self.time = np.empty(0, np.int64)
        self.first = np.empty(0, np.int64)  # where a key's rows begin; -1: it has none
        self.count = np.empty(0, np.int64)
        self._new: list[pa.Table] = []
        self.value: dict[str, np.ndarray] = {}  # numbers of the first row of each key
        self.exposure = np.empty(0)  # for how long a key was watched, in slides
        self.changes = np.empty(0)  # how often it was seen to have changed
        self.by_age = np.zeros((len(_AGES) + 1, 3))  # look-ups by age: how many, how many had changed, their summed age
        self.moments = np.zeros((len(columns), 5))  # of each column: n, mean, M2, cov(old, new), var(old)
        self.residuals = np.zeros((len(columns), _RESIDUALS))
        self.residuals_seen = 0
        self._usual_rate: float | None = None  # None: something was learned since it was computed

    def __len__(self) -> int:
        return int((self.time > NOT_READ).sum())

    # ------------------------------------------------------------ rows by key

    def make_room(self, keys: int) -> None:
        """Have room for so many keys."""
        more = keys - len(self.time)
        if more <= 0:
            return
        for name, empty in (("time", NOT_READ), ("first", -1), ("count", 0), ("exposure", 0.0), ("changes", 0.0)):
            column = getattr(self, name)
            setattr(self, name, np.concatenate([column, np.full(more, empty, column.dtype)]))
        for name in self.value:
            self.value[name] = np.concatenate([self.value[name], np.full(more, np.nan)])

    @property
    def schema(self) -> pa.Schema | None:
        """The types of the remote columns, once they are known."""
        return self.rows.schema if self.rows is not None else self._new[0].schema if self._new else None

    def unread(self, keys: np.ndarray) -> np.ndarray:
        """Return which keys were never read."""
        return self.time[keys] == NOT_READ

    def table(self) -> pa.Table | None:
        """Return all rows that were read, outdated ones among them."""
        if self._new:
            parts = ([] if self.rows is None else [self.rows]) + self._new
            self.rows, self._new = pa.concat_tables(parts).combine_chunks(), []
        return self.rows

    def take(self, places: np.ndarray) -> pa.Table | None:
        """Return the remote columns at these places, NULL where a place is below zero; None if nothing was read."""
        rows = self.table()
        if rows is None:
            return None
        return rows.take(pa.array(places, mask=places < 0)) if (places < 0).any() else rows.take(pa.array(places))

    def places(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the remote rows of keys: of each the place of its key in `keys`, its number in the key, and its place.

        A key without a remote row has one at place -1.
        """
        count = np.maximum(self.count[keys], 1)
        which = np.repeat(np.arange(len(keys)), count)
        part = np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count)
        first = self.first[keys][which]
        return which, part, np.where(first < 0, -1, first + part)

    # ------------------------------------------------------------ types

    def fix_types(self, rows: pa.Table | None) -> None:
        """Take the types of the first rows that come."""
        if self.schema is None and rows is not None:
            self.rows = rows.select(self.columns).schema.empty_table()

    def _wider(self, old: pa.DataType, new: pa.DataType) -> pa.DataType:
        """Return the type of a column after a value of another type: integers may turn out to be floats."""
        if pa.types.is_null(old):
            return new
        turns = not self._typed and pa.types.is_integer(old) and pa.types.is_floating(new)
        return pa.float64() if turns else old

    def conform(self, rows: pa.Table) -> pa.Table:
        """Return the remote columns of `rows` in the types first seen, or raise a TableError."""
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
            raise TableError(f"remote rows must fit the types of those before: {str(error).splitlines()[0]}") from error

    # ------------------------------------------------------------ updates

    def update(self, keys: np.ndarray, row_keys: np.ndarray, rows: pa.Table, now: int | np.ndarray) -> ReplicaUpdate:
        """Take what was read of `keys` (distinct) at `now`: `rows` and the key of each. Keys without one are absent."""
        rows = self.conform(rows)
        order = np.argsort(row_keys, kind="stable")
        row_keys, rows = row_keys[order], rows.take(pa.array(order))
        table = self.table()
        base = 0 if table is None else table.num_rows
        first = np.searchsorted(row_keys, keys)
        count = np.searchsorted(row_keys, keys, side="right") - first
        changed = ~self._alike(table, keys, rows, first, count)
        self._learn(keys, changed, rows, np.where(count > 0, first, -1), now)
        moved = changed & (count > 0)
        self._new.append(rows)
        self.first[keys[moved]] = base + first[moved]
        self.first[keys[changed & (count == 0)]] = -1
        self.count[keys] = count
        self.time[keys] = now
        self._drop_outdated()
        return ReplicaUpdate(keys[changed], keys[~changed])

    def _alike(
        self, table: pa.Table | None, keys: np.ndarray, rows: pa.Table, first: np.ndarray, count: np.ndarray
    ) -> np.ndarray:
        """Return which keys have the rows that they had."""
        alike = (self.time[keys] > NOT_READ) & (self.count[keys] == count)
        which = np.flatnonzero(alike & (count > 0))
        if table is None or not len(which):
            return alike
        sizes = count[which]
        step = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        old = table.take(pa.array(np.repeat(self.first[keys[which]], sizes) + step))
        new = rows.take(pa.array(np.repeat(first[which], sizes) + step))
        equal = np.ones(len(step), np.bool_)
        for a, b in zip(old.columns, new.columns, strict=True):
            if pa.types.is_null(a.type):
                continue
            both = pc.and_(pc.is_null(a), pc.is_null(b))
            equal &= pc.fill_null(pc.or_kleene(pc.equal(a, b), both), fill_value=False).to_numpy(zero_copy_only=False)
        alike[which] = np.logical_and.reduceat(equal, np.cumsum(sizes) - sizes)
        return alike

    def evict(self, size: int, needed: np.ndarray) -> np.ndarray:
        """Forget the longest unread keys, those not `needed` first, until `size` are left; return those."""
        there = np.flatnonzero(self.time > NOT_READ)
        surplus = len(there) - size
        if surplus <= 0:
            return there[:0]
        gone = there[np.lexsort((self.time[there], np.isin(there, needed)))[:surplus]]
        self.time[gone], self.first[gone], self.count[gone] = NOT_READ, -1, 0
        self._drop_outdated()
        return gone

    def _drop_outdated(self) -> None:
        """Drop rows that belong to no key any more, if they are most of all."""
        table = self.table()
        used = int(self.count[self.first >= 0].sum())
        if table is None or table.num_rows < 2 * used + 64:
            return
        keys = np.flatnonzero(self.first >= 0)
        sizes = self.count[keys]
        starts = np.cumsum(sizes) - sizes
        step = np.arange(sizes.sum()) - np.repeat(starts, sizes)
        self.rows = table.take(pa.array(np.repeat(self.first[keys], sizes) + step)).combine_chunks()
        self.first[keys] = starts

    def keep(self, keys: np.ndarray) -> None:
        """Forget all keys but these, which get the numbers from 0 on."""
        for name in ("time", "first", "count", "exposure", "changes"):
            setattr(self, name, getattr(self, name)[keys])
        self.value = {name: column[keys] for name, column in self.value.items()}

    # ------------------------------------------------------------ how values change

    def _learn(
        self, keys: np.ndarray, changed: np.ndarray, rows: pa.Table, first: np.ndarray, now: int | np.ndarray
    ) -> None:
        known = self.time[keys] > NOT_READ
        age = np.maximum(now - self.time[keys], 0) / self._unit
        self._watch(keys[known], age[known], changed[known], self._chance(keys[known]))
        found = np.stack([np.ones(known.sum()), changed[known], age[known]], axis=1)
        np.add.at(self.by_age, np.searchsorted(_AGES, age[known]), found)
        self._usual_rate = None
        for i, name in enumerate(self.columns):
            kind = rows.schema.field(name).type
            if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
                continue
            number = rows[name].cast(pa.float64(), safe=False).to_numpy()
            new = (
                np.where(first >= 0, number[np.maximum(first, 0)], np.nan)
                if len(number)
                else np.full(len(keys), np.nan)
            )
            value = self.value.setdefault(name, np.full(len(self.time), np.nan))
            self._model(i, value[keys], new, changed)
            value[keys] = new

    def _chance(self, keys: np.ndarray) -> np.ndarray:
        """Return how likely a new value is to equal the old one by chance."""
        chance = np.ones(len(keys)) if self.value and self.residuals_seen else np.zeros(len(keys))
        size = min(self.residuals_seen, _RESIDUALS)
        for i, name in enumerate(self.columns):
            if name in self.value and size:
                old = self.value[name][keys][:, None]
                new = self._expected(i, old) + self.residuals[i, :size]
                with np.errstate(invalid="ignore"):
                    chance *= (np.abs(new - old) <= 1e-9 * (1 + np.abs(old))).mean(axis=1)
        return chance

    def _watch(self, keys: np.ndarray, age: np.ndarray, changed: np.ndarray, chance: np.ndarray) -> None:
        """Update the record of keys by one step of EM: a change seen at some age happened at the time expected for it.

        A value that looks the same may have changed and come out alike by chance, the more so the older it was.
        """
        rate = self.rate(keys)
        left = np.exp(-rate * age)
        with np.errstate(invalid="ignore", divide="ignore"):
            inside = np.where(left < 1 - 1e-9, 1 / rate - age * left / (1 - left), age / 2)
            stayed = np.where(changed, 0.0, np.nan_to_num(left / (left + (1 - left) * chance), nan=1.0))
        np.add.at(self.exposure, keys, stayed * age + (1 - stayed) * inside)
        np.add.at(self.changes, keys, 1 - stayed)

    def _model(self, i: int, old: np.ndarray, new: np.ndarray, changed: np.ndarray) -> None:
        """Learn what new values of a column look like."""
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
            residual = x - mean - (rho * (before - mean) if np.isfinite(before) else 0.0)
            self.residuals[i, self.residuals_seen % _RESIDUALS] = residual
            self.residuals_seen += i == len(self.columns) - 1 or len(self.columns) == 1
        self.moments[i] = n, mean, spread, cov, var

    def rate(self, keys: np.ndarray) -> np.ndarray:
        """Return how often keys change in a slide: by the record of each, drawn towards that of all."""
        return self._relative_rate(keys) * self.usual_rate()

    def watched_rate(self, keys: np.ndarray) -> np.ndarray:
        """Return the same as `rate`, from how long keys were watched: a few unchanged values prove little."""
        return self._relative_rate(keys) * self._mean_rate()

    def _mean_rate(self) -> float:
        """Return the changes in a slide of all that was watched."""
        return float((self.changes.sum() + _PRIOR) / (self.exposure.sum() + _PRIOR))

    def _relative_rate(self, keys: np.ndarray) -> np.ndarray:
        """Return how many times as often as usual each key changes."""
        return (self.changes[keys] + _KEY_WEIGHT) / (self.exposure[keys] * self._mean_rate() + _KEY_WEIGHT)

    def usual_rate(self) -> float:
        """Return the changes in a slide that best explain how many look-ups of each age found another value."""
        if self._usual_rate is None:
            self._usual_rate = self._likeliest_rate()
        return self._usual_rate

    def _likeliest_rate(self) -> float:
        many, changed, ages = self.by_age[self.by_age[:, 0] > 0].T
        if not len(many) or not ages.any():
            return 1.0
        age = np.maximum(ages / many, 1e-3)
        low, high = np.log(1e-4), np.log(1e2)
        for _ in range(40):  # bisect to where the likelihood, which has one peak, stops rising
            middle = (low + high) / 2
            left = np.exp(-np.exp(middle) * age)
            rises = (changed * age * left / np.maximum(1 - left, 1e-12) - (many - changed) * age).sum() > 0
            low, high = (middle, high) if rises else (low, middle)
        return float(np.exp(low))

    def stale(self, keys: np.ndarray, now: int) -> np.ndarray:
        """Return the chance that the value of each key has changed: by look-ups of its age, and by its own record.

        For ages with few look-ups the estimate from all ages counts. Keys that never change keep the chance of old
        values below one, which one rate for all would not. A value read at this moment holds.
        """
        age = np.where(self.time[keys] == NOT_READ, 1e9, np.maximum(now - self.time[keys], 0) / self._unit)
        return np.where(age > 0, 1 - self._unchanged(age) ** self._relative_rate(keys), 0.0)

    def lasting(self, keys: np.ndarray) -> np.ndarray:
        """Return the chance that what is read of each key now still holds a slide later."""
        return self._unchanged(np.ones(len(keys))) ** self._relative_rate(keys)

    def lasts(self) -> float:
        """Return the share of values that last a slide; near 0 until there were about a hundred look-ups."""
        seen = self.by_age[:, 0].sum()
        return float(self._unchanged(np.ones(1))[0] * seen / (seen + 100))

    def _unchanged(self, age: np.ndarray) -> np.ndarray:
        """Return the share of values of an age, in slides, that are found unchanged."""
        place = np.searchsorted(_AGES, age)
        usual = 1 - np.exp(-self.usual_rate() * age)
        changed = (self.by_age[place, 1] + _AGE_WEIGHT * usual) / (self.by_age[place, 0] + _AGE_WEIGHT)
        return np.maximum(1 - changed, 1e-12)

    def draws(self, keys: np.ndarray, worlds: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Draw values that these keys may have if they have changed: column name to (keys, worlds)."""
        drawn = {}
        pick = rng.integers(max(min(self.residuals_seen, _RESIDUALS), 1), size=(len(keys), worlds))
        for i, name in enumerate(self.columns):
            if name in self.value:
                drawn[name] = self._expected(i, self.value[name][keys][:, None]) + self.residuals[i][pick]
        return drawn

    def _expected(self, i: int, old: np.ndarray) -> np.ndarray:
        """Return the expected new value of a column, given the old one."""
        n, mean, spread, cov, var = self.moments[i]
        rho = _rho(cov, var, spread / max(n, 1))
        return mean + rho * np.where(np.isfinite(old), old - mean, 0.0)

    # ------------------------------------------------------------ snapshots

    def snapshot(self) -> dict[str, Any]:
        """Return all that is known, as named arrays and one table."""
        saved: dict[str, Any] = {name: getattr(self, name) for name in _ARRAYS}
        saved["residuals_seen"] = np.array([self.residuals_seen])
        saved |= {f"value/{name}": column for name, column in self.value.items()}
        table = self.table()
        return saved if table is None else {**saved, "rows": table}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Go on from a snapshot."""
        values = [name for name in saved if name.startswith("value/")]
        found = validate(
            saved, {**_COLUMNS, **{name: typed_column("f8", "keys") for name in values}}, columns=len(self.columns)
        )
        rows = saved.get("rows")
        self.rows, self._new = (rows if isinstance(rows, pa.Table) else None), []
        require(self.rows is None or set(self.columns) <= set(self.rows.column_names), "the replica lacks a column")
        read, first, count = (0 if self.rows is None else self.rows.num_rows), found["first"], found["count"]
        require((first < 0) | ((count > 0) & (first <= read - count)), "a key has rows that were never read")
        require((first >= 0) | (count == 0), "a key has rows that are not in the replica")
        known = {name.removeprefix("value/") for name in values}
        require(known <= set(self.columns), "the replica has values of a column that is not joined")
        for name in _ARRAYS:
            setattr(self, name, found[name])
        self.residuals_seen, self._usual_rate = int(found["residuals_seen"][0]), None
        self.value = section(found, "value/")


def _rho(cov: float, var: float, spread: float) -> float:
    """Return how far a new value follows the old one; little evidence counts as none."""
    rho = min(max(cov / (var + 10 * spread), -1.0), 1.0) if var + spread > 0 else 0.0
    return rho if abs(rho) > 0.2 else 0.0
