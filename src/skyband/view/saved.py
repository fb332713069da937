"""A leaderboard's state as named columns, and a leaderboard from them: what survives a restart."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa

from skyband.flow.saved import refusing
from skyband.view.totals import Totals
from skyband.windows.timeline import Late

if TYPE_CHECKING:
    from skyband.flow.saved import Saved
    from skyband.view.board import Leaderboard


def save(board: Leaderboard) -> Saved:
    """All that `board` needs to go on elsewhere, as named arrays and tables. Keys without rows are forgotten."""
    forget_idle(board)
    time = board.timeline
    saved: Saved = {
        "line": np.array([time.watermark, time.newest, *time.lost], np.int64),
        "key": board.key_of,
        "last": board.last,
        "lists/cell": board.lists[0],
        "lists/score": board.lists[1],
        **{f"totals/{name}": column for name, column in board.totals.snapshot().items()},
    }
    for name, groups in (("groups", board.groups), ("keys", board.keys)):
        table = None if groups is None else groups.table()
        if table is not None:
            saved[name] = table
    if board.waiting:
        board.waiting = [board.fold_waiting()]
        for name, column in zip(("pane", "cell", "ints", "floats"), board.waiting[0], strict=True):
            saved[f"waiting/{name}"] = column
    return saved


@refusing()
def load(board: Leaderboard, saved: Saved) -> None:
    """Put a new leaderboard where another one stood when it was saved."""

    def named(prefix: str) -> dict[str, np.ndarray]:
        return {n.removeprefix(prefix): cast("np.ndarray", c) for n, c in saved.items() if n.startswith(prefix)}

    watermark, newest, late, ahead = (int(x) for x in saved["line"])
    board.timeline.watermark, board.timeline.newest, board.timeline.lost = watermark, newest, Late(late, ahead)
    if board.groups is not None and "groups" in saved:
        board.groups.load(cast("pa.Table", saved["groups"]))
    if "keys" in saved:
        board.keys.load(cast("pa.Table", saved["keys"]))
    board.key_of = cast("np.ndarray", saved["key"])
    board.last = cast("np.ndarray", saved["last"]).copy()
    board.lists = cast("np.ndarray", saved["lists/cell"]), cast("np.ndarray", saved["lists/score"])
    board.totals.load(named("totals/"))
    board.rehash(len(board.key_of), board.totals)
    waiting = named("waiting/")
    if waiting:
        board.waiting = [(waiting["pane"], waiting["cell"], waiting["ints"], waiting["floats"])]


def forget_idle(board: Leaderboard) -> None:
    """Number anew the cells, keys and groups that have rows, wait with some, or were shown last."""
    totals = board.totals
    table = board.keys.table()
    if table is None:
        return
    waiting = [part[1] for part in board.waiting]
    cells = np.unique(np.concatenate([totals.kept(), *waiting, board.lists[0]]).astype(np.int64))
    if len(cells) == len(board.key_of):
        return
    saved = totals.snapshot()
    number = np.full(len(board.key_of), -1, np.int64)
    number[cells] = np.arange(len(cells))
    group_of = saved["group"][cells].astype(np.int64)
    shown = np.flatnonzero(saved["shown"] | np.isin(np.arange(len(saved["shown"])), group_of))
    if board.groups is None:
        shown = np.arange(len(saved["shown"]))
    group = np.full(len(saved["shown"]), -1, np.int64)
    group[shown] = np.arange(len(shown))
    keys, key = np.unique(board.key_of[cells], return_inverse=True)
    saved.update(
        cell=number[saved["cell"]].astype(np.int32),
        group=group[group_of].astype(np.int32),
        tie=saved["tie"][cells],
        told=saved["told"][cells],
        shown=saved["shown"][shown],
    )
    board.totals = Totals(board.query, board.measure, board.clock)
    board.totals.peak = totals.peak
    board.totals.load(saved)
    board.keys.load(table.take(pa.array(keys)))
    board.key_of = key.astype(np.int32)
    if board.groups is not None:
        seen = board.groups.table()
        assert seen is not None
        board.groups.load(seen.take(pa.array(shown)))
        board.last = board.last[:, [g for g in shown if g < board.last.shape[1]]]
    board.waiting = [(p, number[c].astype(np.int32), i, f) for p, c, i, f in board.waiting]
    board.lists = number[board.lists[0]], board.lists[1]
    board.rehash(len(board.key_of), board.totals)
