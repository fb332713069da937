"""Joins with remote data that changes, on the AcquaTop paper's own evening: its data, and the policies on it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from skyband.api import compare
from skyband.errors import SourceError
from skyband.query.join import POLICIES
from skyband_lab.bench.acquatop import SIZE, SLIDE, SPAN, START, WINDOWS, load
from skyband_lab.bench.join import replay
from skyband_lab.bench.workloads import find

if TYPE_CHECKING:
    from skyband_lab.reproduce.kinds import Settings

OURS = "likely (ours)"
_EVERY = 5  # windows between two points of a curve


def _folder(data: Path | None) -> Path:
    found = find(data, "acquatop/mentions.parquet")
    if found is None:
        raise SourceError(
            "acquatop/mentions.parquet was found nowhere: name the folder above it by --data DIR or by SKYBAND_DATA"
        )
    return found.parent


def policies(settings: Settings, data: Path | None) -> dict[str, Any]:
    """All policies side by side on one set: nDCG@k and precision@k a window, a line each."""
    windows, ready = settings["windows"], replay(_folder(data), settings["set"], settings["seed"])
    lines = []
    for way in settings["policies"]:
        sums = ready.run(way, settings["k"], settings["spare"], settings["budget"], windows)
        lines.append(
            {
                "policy": POLICIES.get(way) or OURS,
                "ndcg": sums.ndcg / windows,
                "precision": sums.precision / windows,
                "windows_seen": windows,
                "lookups": sums.lookups,
            }
        )
    return {"lines": lines}


def tracked(settings: Settings, data: Path | None) -> dict[str, Any]:
    """The same through the engine itself, with the errors over time."""
    evening = load(_folder(data), settings["set"], settings["seed"])
    query = evening.query(settings["k"], settings["spare"], settings["budget"])
    end = START + (settings["windows"] - 1) * SLIDE + SIZE
    mentions = evening.mentions.filter(pc.less(evening.mentions["ts"], end))
    span = {**SPAN, "until": timedelta(milliseconds=end)}
    lines = []
    for one in compare(query, mentions, list(settings["policies"]), **span).to_pylist():
        at = list(range(_EVERY - 1, len(one["ndcg_error"]), _EVERY))
        lines.append(
            {
                "policy": POLICIES.get(one["policy"]) or OURS,
                "ndcg": one["ndcg"] / one["windows"],
                "precision": one["precision"] / one["windows"],
                "windows_seen": one["windows"],
                "lookups": one["lookups"],
                "window": [i + 1 for i in at],
                "ndcg_error": [one["ndcg_error"][i] for i in at],
                "precision_error": [one["precision_error"][i] for i in at],
            }
        )
    return {"lines": lines}


def changes(settings: Settings, data: Path | None) -> dict[str, Any]:
    """How many users an invocation finds changed, and how many changes a user has: table 3 and figure 10."""
    path = _folder(data) / f"regen_ds_{settings['set']}.parquet"
    table = pq.read_table(path, columns=["seed", "ts_ms", "invocation", "user_id", "dfc"])
    table = table.filter(pc.equal(table["seed"], settings["seed"])).sort_by(
        [("user_id", "ascending"), ("ts_ms", "ascending")]
    )
    user, dfc, invocation = (table[name].to_numpy() for name in ("user_id", "dfc", "invocation"))
    changed = np.zeros(len(user), bool)
    changed[1:] = (user[1:] == user[:-1]) & (dfc[1:] != dfc[:-1])
    first = np.unique(user, return_index=True)[1]
    later = np.ones(len(user), bool)
    later[first] = False  # nothing to compare with
    number, place = np.unique(invocation, return_inverse=True)
    per = np.bincount(place, changed, len(number))[np.bincount(place, later, len(number)) > 0]
    each = np.add.reduceat(changed.astype(np.int64), first)
    low, high = np.quantile(per, [0.25, 0.75])
    spread = (each - each.mean()) / max(each.std(), 1e-12)
    top = max(int(each.max()), 1)
    count, edge = np.histogram(each, bins=min(top + 1, 20))
    return {
        "average": float(per.mean()),
        "median": float(np.median(per)),
        "first_quartile": float(low),
        "third_quartile": float(high),
        "invocations": len(per),
        "users": len(each),
        "changes_of_a_user": float(each.mean()),
        "skewness": float((spread**3).mean()),
        "excess_kurtosis": float((spread**4).mean() - 3),
        "changes": edge[:-1].tolist(),
        "users_with": count.tolist(),
    }


def mentions(settings: Settings, data: Path | None) -> dict[str, Any]:
    """Mentions of users and in windows: figure 9. A user counts once in each of a window's two slides, as with them."""
    del settings
    window = pq.read_table(_folder(data) / "windows.parquet", columns=["iteration", "user_id", "mn"])
    number, mn = window["iteration"].to_numpy(), window["mn"].to_numpy()
    in_window = np.bincount(number, mn)[1 : WINDOWS + 1]
    users = np.bincount(number)[1 : WINDOWS + 1]
    user = pq.read_table(_folder(data) / "mentions.parquet", columns=["user_id"])["user_id"].to_numpy()
    each = np.sort(np.unique(user, return_counts=True)[1])[::-1]
    return {
        "least": int(in_window.min()),
        "middle": float(np.median(in_window)),
        "most": int(in_window.max()),
        "users_mean": float(users.mean()),
        "users": len(each),
        "share_of_top_tenth": float(each[: len(each) // 10].sum() / each.sum()),
        "window": list(range(1, WINDOWS + 1, 3)),
        "mentions": in_window[::3].tolist(),
        "rank": list(range(1, len(each) + 1, 8)),
        "mentions_of_rank": each[::8].tolist(),
    }
