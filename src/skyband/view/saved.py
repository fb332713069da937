"""A leaderboard's state as named columns, and a leaderboard from them: what survives a restart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from skyband.engines.validation import any_int_column, check_bounds, require, section, typed_column, validate
from skyband.runtime.saved import load_groups, refusing, save_groups, table_of
from skyband.view.keyed import LastLists
from skyband.view.partial import Partials
from skyband.windows.watermark import DroppedRows

if TYPE_CHECKING:
    from skyband.runtime.saved import Saved
    from skyband.view.alltime import AllTime
    from skyband.view.board import Leaderboard
    from skyband.view.totals import Totals


def save(board: Leaderboard) -> Saved:
    """All that `board` needs to go on elsewhere, as named arrays and tables. Keys without rows are forgotten."""
    board.forget()
    time = board.timeline
    cells, scores, last = board.last.saved()
    saved: Saved = {
        "line": np.array([time.watermark, time.newest, *time.dropped], np.int64),
        "key": board.key_of,
        "last": last,
        "lists/cell": cells,
        "lists/score": scores,
        **{f"totals/{name}": column for name, column in board.totals.snapshot().items()},
    }
    number = None
    if board.groups is not None and board.runs is not None:
        number = save_groups(board.groups, board.runs, saved)
    table = board.keys.table()
    if table is not None:
        saved["keys"] = table
    if board.waiting:
        part = board.fold_waiting()
        group = part.group if number is None else number[part.group]
        for name, column in zip(Partials._fields, part._replace(group=group), strict=True):
            saved[f"waiting/{name}"] = column
    return saved


_HOLDS = {
    "line": typed_column("i8", 4),
    "key": typed_column("i4", "cells", low=0, high=(1 << 31) - 1),
    "last": typed_column("i8", 2, "lists"),
    "lists/cell": typed_column("i8", "listed", low=0),
    "lists/score": typed_column("f8", "listed"),
}
_WAITING = {
    "pane": typed_column("i8", "rows"),
    "group": typed_column("i4", "rows", low=0, high=(1 << 31) - 1),
    "key": typed_column("i4", "rows", low=0, high=(1 << 31) - 1),
    "arrived": typed_column("i8", "rows"),
    "ints": any_int_column("rows", "ints"),
    "floats": typed_column("f8", "rows", "floats"),
}


@refusing()
def load(board: Leaderboard, saved: Saved) -> None:
    """Put a new leaderboard where another one stood when it was saved."""
    found = validate(saved, _HOLDS)
    watermark, newest, late, ahead = (int(x) for x in found["line"])
    board.timeline.watermark, board.timeline.newest, board.timeline.dropped = (
        watermark,
        newest,
        DroppedRows(late, ahead),
    )
    group = None
    if board.groups is not None and board.runs is not None:
        group = load_groups(board.groups, board.runs, saved, max(newest, watermark))
    load_keys(board, {name: value for name, value in saved.items() if name == "keys"})
    board.key_of = found["key"]
    board.last = LastLists.load(found["lists/cell"], found["lists/score"], found["last"])
    board.totals.load(section(saved, "totals/"))
    groups = 1 if board.runs is None else board.runs.count
    require(board.totals.groups <= groups, "there are lists of groups that never came")
    check_cells(board, board.totals, found["last"], found["lists/cell"])
    board.rehash(len(board.key_of), board.totals)
    waiting = section(saved, "waiting/")
    if waiting:
        _load_waiting(board, waiting, 1 if board.groups is None else 0 if group is None else len(group), group)


def _load_waiting(board: Leaderboard, waiting: dict[str, Any], groups: int, group: np.ndarray | None) -> None:
    """Go on with partial totals of open panes."""
    if "cell" in waiting:  # as they were saved before groups could appear anew
        cell = validate(waiting, {"cell": typed_column("i4", "rows", low=0, high=(1 << 31) - 1)})["cell"]
        require(cell < len(board.key_of), "what waits is of a cell that never came")
        mine = board.totals.cells.group[cell].astype(np.int32)
        waiting = {**waiting, "group": mine, "key": board.key_of[cell], "arrived": np.arange(len(cell))}
    part = validate(waiting, _WAITING, ints=board.measure.ints, floats=board.measure.floats)
    require(part["group"] < groups, "what waits is of a group that never came")
    require(part["key"] < len(board.keys), "what waits is of a key that never came")
    found = Partials(*(part[name] for name in Partials._fields))
    board.resume_waiting(found if group is None else found._replace(group=group[found.group].astype(np.int32)))


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
    check_bounds(last, len(listed), "last", apart=False)
    require(last.shape[1] <= max(totals.groups, 1), "there are lists of groups that never came")
