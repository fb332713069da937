"""A pipeline's state as named columns, and a pipeline from them: what survives a restart."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa

from skyband.errors import SnapshotError
from skyband.flow.part import Part, joined
from skyband.windows.timeline import Late

if TYPE_CHECKING:
    from skyband.engines.protocol import GroupedEngine
    from skyband.flow.pipeline import Pipeline

Saved = dict[str, "np.ndarray | pa.Table"]
"""Arrays and tables by name."""


def save(line: Pipeline) -> Saved:
    """All that `line` needs to go on elsewhere. Groups that have nothing left to say are forgotten."""
    forget_idle(line)
    line.payload.keep(line.emitter.needed(line.engine.candidates().id))
    upcoming, slots, rows = line.payload.saved()
    time = line.timeline
    saved: Saved = {
        "line": np.array([time.watermark, time.newest, *time.lost, upcoming], np.int64),
        "slots": slots,
        "counts": line.positions,
        **{f"engine/{name}": column for name, column in line.engine.snapshot().items()},
        **{f"emit/{name}": column for name, column in line.emitter.saved().items()},
    }
    if rows is not None:
        saved["rows"] = rows
    groups = None if line.groups is None else line.groups.table()
    if groups is not None:
        saved["groups"] = groups
    if line.waiting:
        part = joined(line.waiting).sorted()
        saved["waiting"] = part.rows
        for name, column in zip(Part._fields[1:], part[1:], strict=True):
            if column is not None:
                saved[f"waiting/{name}"] = column
    return saved


@contextmanager
def refusing() -> Iterator[None]:
    """What does not fit together while a state is loaded, as a SnapshotError."""
    try:
        yield
    except (KeyError, IndexError, ValueError, TypeError, AttributeError, AssertionError, pa.ArrowException) as error:
        if isinstance(error, SnapshotError):
            raise
        msg = f"this state does not fit the query ({type(error).__name__}: {error}): start without it, from the source"
        raise SnapshotError(msg) from error


@refusing()
def load(line: Pipeline, engine: str, saved: Saved) -> None:
    """Put a new pipeline where another one stood when it was saved."""

    def named(prefix: str) -> dict[str, np.ndarray]:
        return {
            n.removeprefix(prefix): c for n, c in saved.items() if n.startswith(prefix) and not isinstance(c, pa.Table)
        }

    line.engine = line.made(engine, named("engine/"))
    line.emitter.load(named("emit/"))
    watermark, newest, late, ahead, upcoming = (int(x) for x in saved["line"])
    line.timeline.watermark, line.timeline.newest, line.timeline.lost = watermark, newest, Late(late, ahead)
    line.payload.load(upcoming, cast("np.ndarray", saved["slots"]), cast("pa.Table | None", saved.get("rows")))
    line.positions = cast("np.ndarray", saved["counts"]).copy()
    if line.groups is not None and "groups" in saved:
        line.groups.load(cast("pa.Table", saved["groups"]))
    if "waiting" in saved:
        columns = named("waiting/")
        line.waiting = [Part(saved["waiting"], *(columns.get(name) for name in Part._fields[1:]))]  # type: ignore[arg-type]


def forget_idle(line: Pipeline) -> None:
    """Drop groups that keep no rows, wait with none and owe no deletion. Positions of counting windows stay."""
    groups = line.groups
    table = None if groups is None else groups.table()
    if groups is None or table is None or line.clock.counts:
        return
    engine = cast("GroupedEngine", line.engine)
    busy = [engine.busy(), line.emitter.busy(), *(p.group for p in line.waiting if p.group is not None)]
    keep = np.unique(np.concatenate(busy)).astype(np.int64)
    if len(keep) == len(groups):
        return
    engine.regroup(keep)
    line.emitter.regroup(keep)
    groups.load(table.take(pa.array(keep)))
    number = np.zeros(table.num_rows, np.int32)
    number[keep] = np.arange(len(keep), dtype=np.int32)
    line.waiting = [p._replace(group=number[p.group]) for p in line.waiting]
