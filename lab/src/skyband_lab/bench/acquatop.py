"""The AcquaTop paper's experiments: the authors' evening of mentions, joined with followers that change."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from skyband.errors import SourceError
from skyband.query import Budget, Calls, Join, Refresh, Sliding, TopK
from skyband.tables import History
from skyband_lab.bench.workloads import find

if TYPE_CHECKING:
    from skyband.operators.lookup_join.policies import Candidates
    from skyband.operators.lookup_join.replica import Replica

START = 1420574422643  # ms: the first window begins
SIZE, SLIDE, WINDOWS = 100_000, 60_000, 150
RANGES = {"ch20": (0, 26), "ch40": (0, 31), "ch80": (2, 31)}  # of dfc over the authors' whole sets
SEEDS = (1, 2, 3, 4, 5)
SPAN = {
    "since": timedelta(milliseconds=START),
    "until": timedelta(milliseconds=START + (WINDOWS - 1) * SLIDE + SIZE),
}
"""The 150 windows of the experiments."""


@dataclass(frozen=True)
class Evening:
    """The stream, the remote side over time, and what the replica starts with."""

    mentions: pa.Table  # ts, user
    past: pa.Table  # user, at, dfc
    initial: pa.Table  # user, ts, dfc
    low: float
    high: float
    rates: dict[int, float]  # changes a minute by user, as the authors' WBM had them

    def query(self, k: int, spare: int, budget: int | Budget, policy: object = "likely") -> TopK:
        """The paper's query (section 6.1): 0.7 of the mentions and 0.3 of the followers won, both normalised."""
        join = Join(
            History(self.past, key="user", time="at", unit="ms"),
            on="user",
            columns=["dfc"],
            aggregates={"mn": "count(*)"},
            initial=self.initial,
            refresh=Refresh(policy, budget, "1 minute", spare=spare),  # type: ignore[arg-type]
            calls=Calls(batch=1000),
        )
        return TopK(
            k=k,
            by=f"0.7 * (mn - 1) + 0.3 * (dfc - {self.low}) / ({self.high} - {self.low})",
            window=Sliding("100 seconds", "60 seconds", origin=timedelta(milliseconds=START)),
            time="ts",
            unit="ms",
            join=join,
        )


def find_folder(data: Path | None = None) -> Path:
    """Return `data`, else the folder `acquatop` in the one that SKYBAND_DATA names."""
    found = data or find(name="acquatop/mentions.parquet")
    if found is None:
        raise SourceError(
            "the AcquaTop data was not found: set --data to its folder, or SKYBAND_DATA to the folder above it"
        )
    return found if data else found.parent


def load(folder: Path, name: str, seed: int | None = None) -> Evening:
    """One of the sets: "ch20", "ch40", "ch80" of the authors; with a seed one that was made anew, also "ch05", "ch10".

    A user counts once a slide: the first mention stands for all, as in the authors' cut of the stream.
    """
    mentions = _read(folder / "mentions.parquet", ["ts_ms", "user_id"]).sort_by([("ts_ms", "ascending")])
    ts, user = mentions["ts_ms"].to_numpy(), mentions["user_id"].to_numpy()
    _, first = np.unique(np.stack([(ts - START) // SLIDE, user]), axis=1, return_index=True)
    first = np.sort(first)
    stream = pa.table({"ts": ts[first], "user": user[first]})
    stream = stream.filter(pa.array(stream["ts"].to_numpy() < START + (WINDOWS - 1) * SLIDE + SIZE))
    past, initial, (low, high) = _authors(folder, name) if seed is None else _made(folder, name, seed)
    rates = _read(folder / "wbm_change_rates.parquet", ["user_id", "change_rate"]).to_pydict()
    return Evening(stream, past, initial, low, high, dict(zip(rates["user_id"], rates["change_rate"], strict=True)))


def _authors(folder: Path, name: str) -> tuple[pa.Table, pa.Table, tuple[float, float]]:
    if name not in RANGES:
        raise SourceError(
            f"set={name!r} is none of the authors' sets: write one of {', '.join(RANGES)}, or give a seed"
        )
    values = _read(folder / f"ds_{name}.parquet", ["eval_time_ms", "user_id", "dfc"])
    past = pa.table({"user": values["user_id"], "at": pc.subtract(values["eval_time_ms"], 1), "dfc": values["dfc"]})
    start = _read(folder / "ds_initial_replica.parquet", ["dataset", "user_id", "dfc_initial", "first_snapshot_ts_ms"])
    start = start.filter(pc.equal(start["dataset"], f"ds_{name}"))
    columns = {"user": start["user_id"], "ts": start["first_snapshot_ts_ms"], "dfc": start["dfc_initial"]}
    return past, pa.table(columns), RANGES[name]


def _made(folder: Path, name: str, seed: int) -> tuple[pa.Table, pa.Table, tuple[float, float]]:
    values = _read(folder / f"regen_ds_{name}.parquet", ["seed", "ts_ms", "user_id", "dfc"])
    seeds = sorted(pc.unique(values["seed"]).to_pylist())
    if seed not in seeds:
        raise SourceError(f"seed={seed!r} made no set: write one of {', '.join(map(str, seeds))}")
    values = values.filter(pc.equal(values["seed"], seed)).sort_by([("ts_ms", "ascending")])
    past = pa.table({"user": values["user_id"], "at": values["ts_ms"], "dfc": values["dfc"]})
    _, first = np.unique(past["user"].to_numpy(), return_index=True)
    start = past.take(pa.array(first)).rename_columns(["user", "ts", "dfc"])
    dfc = past["dfc"].to_numpy()
    return past, start, (float(dfc.min()), float(dfc.max()))


def _read(path: Path, columns: list[str]) -> pa.Table:
    if not path.is_file():
        raise SourceError(f"{path.name} is not in {path.parent.name!r}: give the folder of the AcquaTop data (--data)")
    return pq.read_table(path, columns=columns)


class WidthInSeconds:
    """WSJ-WBM as the authors' program has it, for comparison with their sums: it deviates from the text.

    It adds the window's width in seconds to times in milliseconds, so that the remaining life of an object is 0 or
    -1 slides; its change interval is a whole number of minutes; and it fills the budget with those not yet past
    their time.
    """

    __name__ = "wsj-wbm"
    whole = True
    unlimited = False

    def __init__(self, evening: Evening) -> None:
        self._rates = evening.rates
        users = evening.initial["user"].to_pylist()  # numbered first, so the replica's ids follow this order
        self._users = list(dict.fromkeys(users))

    def __call__(self, candidates: Candidates, replica: Replica, budget: int, now: int) -> np.ndarray:
        """Its choice."""
        scored = []
        for id_, time in zip(candidates.id.tolist(), candidates.time.tolist(), strict=True):
            rate = self._rates.get(self._users[id_])
            if rate is None:
                continue
            read, moment = int(replica.time[id_]) / 1000, now / 1000
            step = int(1 / rate) * SLIDE if rate > 0 else np.inf
            due = read + step
            score = 0.0
            if due <= moment:
                following = read + np.ceil((moment - read) / step) * step + SLIDE / rate
                score = min(
                    int((time / 1000 + SIZE / 1000 - moment) / SLIDE), int(np.ceil((following - moment) / SLIDE))
                )
            scored.append((due > moment, -score, due, id_))
        return np.array([id_ for *_, id_ in sorted(scored)[:budget]], np.int64)
