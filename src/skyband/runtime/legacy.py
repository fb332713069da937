"""Snapshots of formats 1 and 2 as format 3 has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from skyband.engines.validation import section
from skyband.runtime.arrow import concat_rows
from skyband.runtime.ids import id_numbers
from skyband.runtime.snapshot import refusing, table_of
from skyband.windows import MIN_TIME

if TYPE_CHECKING:
    from skyband.runtime.protocols import OperatorSpec

_NONE = np.empty(0, np.int64)
_QUERIES = 1 << 20  # reported rows and their query are one number since format 3, see `emit`


@refusing()
def upgrade(saved: Mapping[str, Any], engine: str, spec: OperatorSpec) -> dict[str, Any]:
    """Return a snapshot of an earlier format in the columns of today; `engine` is what its header names."""
    kinds = {"totals": _upgrade_leaderboard, "view": _upgrade_view, "topkn": _upgrade_join}
    found = kinds.get(engine, _upgrade_ranking)(saved)
    found["0/counters"] = np.append(found["0/counters"], np.zeros(len(spec.own_counters), np.int64))
    if "rows" in found and spec.ordered and spec.scored:  # group columns are not stored with the rows
        rows = found["rows"]
        found["rows"] = rows.select([name for name in rows.column_names if name not in spec.result().per])
    return found


def _stream(watermark: int, newest: int, upcoming: int, ahead: int) -> np.ndarray:
    return np.array([watermark, newest, upcoming, 1, ahead, 0, 0, 0], np.int64)


def _runner(saved: Mapping[str, Any], *, late: int, upcoming: int, step: int = 0) -> dict[str, Any]:
    """Return what all operators have in common."""
    found: dict[str, Any] = {
        "counters": np.array([0, late, 0, 0], np.int64),
        "positions": saved.get("counts", _NONE),
        "sequence": np.array([upcoming, step], np.int64),
        "sequence/number": _NONE,
        "sequence/row_id": _NONE,
    }
    return found | {name: saved[name] for name in ("groups", "groups/last") if name in saved}


def _emit(ids: np.ndarray, scores: np.ndarray, last: np.ndarray, **more: np.ndarray) -> dict[str, np.ndarray]:
    shape = np.array([1, last.shape[1]], np.int64)
    return {"reported": _NONE, "ids": ids, "scores": scores, "rows": ids, "last": last, "shape": shape, **more}


def _prefixed(prefix: str, columns: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{prefix}/{name}": value for name, value in columns.items()}


def _upgrade_ranking(saved: Mapping[str, Any]) -> dict[str, Any]:
    watermark, newest, late, ahead, upcoming = saved["line"].tolist()
    emit = section(saved, "emit/")
    more = {"reported": emit["reported"] if "shape" in emit else emit["reported"] * _QUERIES}
    more |= {"shape": emit["shape"]} if "shape" in emit else {}
    runner = _runner(saved, late=late, upcoming=upcoming)
    runner |= _prefixed("emit", _emit(emit["ids"], emit["scores"], emit["last"], **more))
    runner |= _prefixed("operator/engine", section(saved, "engine/"))
    runner["operator/reached"] = np.array([watermark, newest], np.int64)
    if "members" in saved:
        runner["operator/members"] = saved["members"]
    tables, row_ids = ([table_of(saved, "rows")] if "rows" in saved else []), saved["slots"]
    if "waiting" in saved:
        waiting, columns = table_of(saved, "waiting"), section(saved, "waiting/")
        fresh = np.arange(upcoming, upcoming + waiting.num_rows)
        tables.append(waiting)
        row_ids, upcoming = np.concatenate([row_ids, fresh]), upcoming + waiting.num_rows
        runner |= _prefixed("buffer", {"tie" if n == "id" else n: c for n, c in columns.items()} | {"row_id": fresh})
    found = {"stream": _stream(watermark, newest, upcoming, ahead), "row_ids": row_ids, **_prefixed("0", runner)}
    return found | ({"rows": concat_rows(tables)} if tables else {})


_REPLICA = {"aged": "by_age", "ring": "residuals", "ringed": "residuals_seen", "remote": "rows"}
_LIST = {
    "seen": "newest_time",
    "extremes": "value_ranges",
    "forgotten": "forgotten",
    "ranked": "had_score",
    **{f"list/{name}": f"listed/{name}" for name in ("score", "key", "part", "last", "upper")},
    "list/kind": "listed/status",
    "list/lost": "listed/best_forgotten",
    "list/at": "listed/reached",
    **{f"counts/{name}": f"panes/{name}" for name in ("sizes", "key", "time")},
    "counts/at": "panes/start",
    "counts/parts": "panes/values",
}
_LIST_IDS = {"list/slot": "listed/id", "counts/slot": "panes/id"}


def _upgrade_join(saved: Mapping[str, Any]) -> dict[str, Any]:
    watermark, newest, late, ahead, position, begun, budget, blocked_until = saved["line"].tolist()
    reached = max(watermark, position) if position else watermark
    operator = {name: value for name, value in saved.items() if name == "keys" or name.startswith("groups/")}
    operator |= {"state": np.array([begun, budget, blocked_until, reached], np.int64), "lists": saved["boards"]}
    operator |= {f"replica/{_REPLICA.get(n, n)}": value for n, value in section(saved, "replica/").items()}
    if "pushed" in saved:
        operator |= {"changes": saved["pushed"], "changes/time": saved["pushed/time"]}
    upcoming, tables, row_ids = 0, [], [_NONE]
    for number in range(len(saved["boards"])):  # each had its own rows
        board = section(saved, f"board/{number}/")
        operator |= _prefixed(f"list/{number}", _upgrade_join_list(board, upcoming))
        row_ids.append(board["slots"] + upcoming)
        tables += [table_of(board, "rows")] if "rows" in board else []
        upcoming += int(board["at"][2])
    runner = _runner({"counts": np.array([position])}, late=late, upcoming=upcoming)
    runner |= _prefixed("emit", _emit(_NONE, np.empty(0), np.empty((2, 0), np.int64)))
    runner |= _prefixed("operator", operator)
    if "waiting" in saved:
        waiting, columns = table_of(saved, "waiting"), section(saved, "waiting/")
        row_ids.append(np.arange(upcoming, upcoming + waiting.num_rows))
        columns |= {"row_id": row_ids[-1], "score": np.zeros(waiting.num_rows)}
        runner |= _prefixed("buffer", {"tie" if n == "id" else n: c for n, c in columns.items()})
        tables.append(waiting)
        upcoming += waiting.num_rows
    stream = _stream(watermark, newest, upcoming, ahead)
    found = {"stream": stream, "row_ids": np.concatenate(row_ids), **_prefixed("0", runner)}
    return found | ({"rows": concat_rows(tables)} if tables else {})


def _upgrade_join_list(board: Mapping[str, Any], first: int) -> dict[str, Any]:
    """Return one list of a join, whose row ids start at `first`."""
    found = {new: board[old] for old, new in _LIST.items() if old in board}
    found |= {new: board[old] + first for old, new in _LIST_IDS.items() if old in board}
    found["windows"] = board["at"][:2]
    found["latest"] = np.array([board["seen"].max(initial=MIN_TIME)])
    if "unscored" in board:  # times, last windows and forgotten objects may be missing: see `CandidateList.restore`
        ids, *more = board["unscored"]
        found |= _prefixed("unscored", dict(zip(("id", "key", "last"), (ids + first, *more), strict=False)))
    return found


def _upgrade_leaderboard(saved: Mapping[str, Any]) -> dict[str, Any]:
    all_time = "line" not in saved
    line = [0, 0, 0, 0] if all_time else saved["line"].tolist()
    watermark, newest, late, ahead = line
    step = int(saved["step"][0]) if all_time else 0
    cells = len(saved["key"])
    names = ("group", "tie", "missing", "told", "back_ints", "back_floats")
    totals = {n: saved[n] for n in names if n in saved} if all_time else section(saved, "totals/")
    if "missing" not in totals:  # format 1 did not tell a missing key from the lowest
        totals["missing"] = np.zeros(totals["tie"].shape, np.int8)
    runner = _runner(saved, late=late, upcoming=cells, step=step)
    runner |= _prefixed("emit", _emit(saved["lists/cell"], saved["lists/score"], saved["last"]))
    runner |= _prefixed("operator/totals", totals)
    runner |= {"operator/key": saved["key"], "operator/row_id": np.arange(cells)}
    runner["operator/reached"] = np.array([watermark, step], np.int64)
    found = {"stream": _stream(watermark, newest, cells, ahead), "row_ids": np.arange(cells)}
    if "keys" in saved:
        keys = table_of(saved, "keys")
        runner["operator/keys"] = keys
        found["rows"] = keys.take(pa.array(saved["key"]))
    waiting = section(saved, "waiting/")
    if "cell" in waiting:  # format 1 named cells, whose groups could not appear anew
        cell = waiting["cell"]
        waiting |= {"group": totals["group"][cell], "key": saved["key"][cell], "arrived": np.arange(len(cell))}
        del waiting["cell"]
    runner |= _prefixed("operator/buffer", waiting)
    return {**found, **_prefixed("0", runner)}


def _upgrade_view(saved: Mapping[str, Any]) -> dict[str, Any]:
    told, step = table_of(saved, "told"), int(saved["step"][0])
    size = told.num_rows
    key = table_of(saved, "what").to_pylist()[0]["key"]
    ascending = bool(saved["view"][3])
    score = told.column("score").to_numpy()
    listed = id_numbers(told.column(key), key), -score if ascending else score, np.array([[0], [size]], np.int64)
    runner = _runner({}, late=0, upcoming=size, step=step)
    runner |= _prefixed("emit", _emit(*listed, rows=np.arange(size)))
    runner |= _prefixed("operator", {name: v for name, v in saved.items() if name not in ("told", "step")})
    rows = told.drop_columns(["rank", "score"])
    return {"stream": _stream(0, 0, size, 0), "row_ids": np.arange(size), "rows": rows, **_prefixed("0", runner)}
