"""Windows that slide: CPU time, memory and searches of an engine, and its response time at every slide."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from skyband.engines import Engine, Objects, QueryFamily, build
from skyband.errors import SourceError
from skyband.query import Sliding, TopK
from skyband_lab.bench import slide as suite
from skyband_lab.bench.cycles import BASELINES, Cycles
from skyband_lab.bench.workloads import STREAMS, TRADES, find, trades

if TYPE_CHECKING:
    from skyband_lab.reproduce.kinds import Settings

_LOOKS = 12  # so often it is counted what is kept
_SECOND = 1_000_000  # microseconds


def slide(settings: Settings, data: Path | None) -> dict[str, Any]:
    """One engine at one setting over one stream: what the slide suite measures, and what is kept on average."""
    setting = suite.Setting(settings["k"], settings["win"], settings["slide"])
    rows = max(settings["rows"], setting.win + _LOOKS * setting.slide, 2 * setting.win)
    score = scores(settings["stream"], rows, settings.get("seed", 0), data)
    case = suite.Case(setting, settings["stream"], settings["engine"])
    warm(settings["engine"])
    result = suite.measure(case, score, settings["budget"])
    running = suite.made(setting, settings["engine"])
    kept, nbytes = _looks(running, score, setting)
    found = {
        "us": result.seconds / result.rows * 1e6,
        "rows": result.rows,
        "filled": result.filled,
        "peak": result.candidates_peak,
        "kept": kept,
        "bytes": nbytes,
    }
    if isinstance(running, Cycles):
        found["searched"] = running.searched / max(running.slides, 1)
        found["listed"] = len(running.engine.best(0)[0])  # type: ignore[attr-defined]
    return found


def warm(engine: str) -> None:
    """Compile what `engine` needs."""
    running = suite.made(suite.Setting(3, 100, 10), engine)
    place = np.arange(1_000)
    running.advance(Objects(STREAMS["lognormal"](1_000, 0), place, place), np.array([1_000]))


def scores(name: str, rows: int, seed: int, data: Path | None) -> np.ndarray:
    """A stream by name: one of the suite's, or moving targets."""
    if name == "targets":
        return targets(rows, seed)
    return trades(rows, seed, data) if name == "trades" else STREAMS[name](rows, seed)


def targets(rows: int, seed: int = 0, vehicles: int = 500) -> np.ndarray:
    """Distances of vehicles from a station as they drive through an area: seen in turn, in random order.

    Stands for the GMTI set, which is not public: 100,000 sightings in 6 hours at up to 200 mph. A vehicle keeps its
    course for a while, then turns; at the edge of the area it turns back.

    Examples
    --------
    >>> targets(4, vehicles=2).shape
    (4,)
    """
    rng = np.random.default_rng(seed)
    rounds = -(-rows // vehicles)
    speed = rng.uniform(0.0, 200.0, vehicles) / 60  # miles a round
    turn = np.cumsum(rng.normal(0.0, 0.15, (rounds, vehicles)), axis=0) + rng.uniform(0, 2 * np.pi, vehicles)
    start = rng.uniform(0.0, 200.0, (2, vehicles))
    east, north = (np.cumsum(speed * part(turn), axis=0) for part in (np.cos, np.sin))
    x, y = (np.abs((place + low) % 400.0 - 200.0) for place, low in zip((east, north), start, strict=True))
    distance = np.hypot(x - 100.0, y - 100.0)
    seen: np.ndarray = rng.permuted(distance, axis=1).ravel()[:rows]
    return seen


def _looks(running: Engine, score: np.ndarray, setting: suite.Setting) -> tuple[float, int]:
    """Rows kept on average just before a window closes, and the bytes of all columns at the end."""
    number = np.arange(len(score))

    def give(low: int, high: int) -> None:
        running.advance(Objects(score[low:high], number[low:high], number[low:high]), np.array([high]))

    give(0, setting.win - 1)
    kept, at = [], setting.win - 1
    for _ in range(min(_LOOKS, (len(score) - setting.win) // setting.slide)):
        kept.append(len(running.candidates().id))
        give(at, at + setting.slide)
        at += setting.slide
    return float(np.mean(kept)), nbytes(running)


def nbytes(thing: Any, seen: set[int] | None = None) -> int:
    """The bytes of all arrays that an object holds, room to grow among them.

    Examples
    --------
    >>> nbytes([np.zeros(4), {"a": np.zeros(2)}])
    48
    """
    seen = set() if seen is None else seen
    if id(thing) in seen:
        return 0
    seen.add(id(thing))
    if isinstance(thing, np.ndarray):
        return thing.nbytes
    if isinstance(thing, dict):
        return sum(nbytes(one, seen) for one in thing.values())
    if isinstance(thing, (list, tuple)):
        return sum(nbytes(one, seen) for one in thing)
    return nbytes(vars(thing), seen) if hasattr(thing, "__dict__") and not isinstance(thing, type) else 0


def response(settings: Settings, data: Path | None) -> dict[str, Any]:
    """Milliseconds from the last arrival of a slide to its answer, all arrivals of the slide handled: figure 13."""
    size, step = settings["win"] * _SECOND, settings["slide"] * _SECOND
    windows, k = settings["windows"], settings["k"]
    score, at = _paced(settings["rate"], size + (windows + 1) * step, settings.get("seed", 0), data)
    running = _by_time(settings["engine"], k, size, step)
    warm(settings["engine"])
    for _ in range(2):  # the first time compiles
        running = _by_time(settings["engine"], k, size, step)
        spent = _each(running, score, at, size, step)
    arrived = np.diff(np.searchsorted(at, size + step * np.arange(len(spent) + 1)))
    ms = np.array(spent) * 1e3
    return {
        "windows": len(ms),
        "rows_least": int(arrived.min()),
        "rows_most": int(arrived.max()),
        "ms_min": float(ms.min()),
        "ms_max": float(ms.max()),
        "ms_mean": float(ms.mean()),
        "ms_std": float(ms.std()),
        "ms_variation": float(ms.std() / ms.mean()),
    }


def _by_time(engine: str, k: int, size: int, step: int) -> Engine:
    if engine in BASELINES:
        return Cycles(engine, k, size, step, by_time=True)
    return build(engine, QueryFamily.of(TopK(k=k, by="x", window=Sliding(f"{size} us", f"{step} us"), time="t")))


def _each(running: Engine, score: np.ndarray, at: np.ndarray, size: int, step: int) -> list[float]:
    """CPU seconds of every slide after the first full window."""
    number, end = np.arange(len(score)), size
    low, spent = 0, []
    while end <= at[-1]:
        high = int(np.searchsorted(at, end))
        began = time.process_time()
        running.advance(Objects(score[low:high], at[low:high], number[low:high]), end)
        if low:
            spent.append(time.process_time() - began)
        low, end = high, end + step
    return spent


def _paced(rate: float, span: int, seed: int, data: Path | None) -> tuple[np.ndarray, np.ndarray]:
    """Real trades with their real pauses, brought to `rate` a second on average; rounds of them until `span`."""
    import pyarrow.parquet as pq

    path = find(data)
    if path is None:
        raise SourceError(f"{TRADES} was found nowhere: name its folder by --data DIR or by SKYBAND_DATA")
    ts = pq.read_table(path, columns=["ts"])["ts"].to_numpy().astype("datetime64[us]").astype(np.int64)
    ts = np.sort(ts - ts.min())
    once = round(len(ts) / rate * _SECOND)
    paced = (ts * (once / max(int(ts[-1]), 1))).astype(np.int64)
    rounds = -(-span // once) + 1
    at = np.concatenate([paced + turn * once for turn in range(rounds)])
    at = at[: np.searchsorted(at, span) + 1]
    return trades(len(at), seed, data), at
