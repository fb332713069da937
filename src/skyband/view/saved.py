"""A leaderboard's state as named columns, and a leaderboard from them: what survives a restart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from skyband.engines.checked import checked, held, parted, require, under, whole
from skyband.flow.saved import refusing, table_of
from skyband.view.totals import Totals
from skyband.windows.timeline import Late

if TYPE_CHECKING:
    from skyband.flow.saved import Saved
    from skyband.view.alltime import AllTime
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


_HOLDS = {
    "line": held("i8", 4),
    "key": held("i4", "cells", low=0, high=(1 << 31) - 1),
    "last": held("i8", 2, "lists"),
    "lists/cell": held("i8", "listed", low=0),
    "lists/score": held("f8", "listed"),
}
_WAITING = {
    "pane": held("i8", "rows"),
    "cell": held("i4", "rows", low=0, high=(1 << 31) - 1),
    "ints": whole("rows", "ints"),
    "floats": held("f8", "rows", "floats"),
}


@refusing()
def load(board: Leaderboard, saved: Saved) -> None:
    """Put a new leaderboard where another one stood when it was saved."""
    found = checked(saved, _HOLDS)
    watermark, newest, late, ahead = (int(x) for x in found["line"])
    board.timeline.watermark, board.timeline.newest, board.timeline.lost = watermark, newest, Late(late, ahead)
    load_keys(board, saved)
    board.key_of, board.last = found["key"], found["last"]
    board.lists = found["lists/cell"], found["lists/score"]
    board.totals.load(under(saved, "totals/"))
    groups = 1 if board.groups is None else len(board.groups)
    require(len(board.totals.boards.size) <= groups, "there are lists of groups that never came")
    check_cells(board, board.totals, board.last, board.lists[0])
    board.rehash(len(board.key_of), board.totals)
    waiting = under(saved, "waiting/")
    if waiting:
        part = checked(waiting, _WAITING, ints=board.measure.ints, floats=board.measure.floats)
        require(part["cell"] < len(board.key_of), "what waits is of a cell that never came")
        board.waiting = [(part["pane"], part["cell"], part["ints"], part["floats"])]


def load_keys(board: Leaderboard | AllTime, saved: Saved) -> None:
    """Give a leaderboard its groups and keys."""
    for name, groups in (("groups", board.groups), ("keys", board.keys)):
        if groups is not None and name in saved:
            groups.load(table_of(saved, name))


def check_cells(board: Leaderboard | AllTime, totals: Totals, last: np.ndarray, listed: np.ndarray) -> None:
    """Refuse cells that are of no key, or twice there, and lists of such."""
    key, group = board.key_of, totals.cells.group[: totals.number]
    require(len(key) == totals.number and key.max(initial=-1) < len(board.keys), "key names one that never came")
    pairs = np.unique(group * np.int64(len(board.keys)) + key)
    require(len(pairs) == len(key), "a key is twice in a group")
    require(listed < len(key), "a list names a key that never came")
    parted(last, len(listed), "last", apart=False)
    require(last.shape[1] <= max(len(totals.boards.size), 1), "there are lists of groups that never came")


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
        missing=saved["missing"][cells],
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
