"""Snapshots of views, in memory and in files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from skyband.engines.validation import MAX_MAGNITUDE, any_int_column, require, typed_column, validate
from skyband.errors import QueryError, SnapshotError
from skyband.runtime.snapshot import dump, read, refusing, table_of
from skyband.view.policy import Adaptive, policy_from_json, policy_to_json
from skyband.view.refill import RefillController, RefillWorker
from skyband.view.rows import ViewRows
from skyband.view.spec import ViewSpec

if TYPE_CHECKING:
    from skyband.runtime.protocols import Snapshot as Saved
    from skyband.tables.protocol import BaseTable

_HEADER = {"kind": "view"}
_OPTIONS = ("kmax", "refill_at", "ordered")
_REBUILD = "build the view again with sb.View(...)"


def snapshot_view(refills: RefillController, version: int = -1) -> Saved:
    """All state of a view as named arrays and tables; `version` is its position in the table's change log."""
    spec = refills.spec
    stored = {
        "by": spec.by.text,
        "key": spec.key,
        "columns": list(spec.columns),
        "kmax": policy_to_json(spec.kmax),  # None for a policy of the user's own
        "refill_at": spec.refill_at,
    }
    return {
        **refills.rows.snapshot(),
        "view": np.array([spec.k, refills.kmax, version, spec.ascending], np.int64),
        **refills.meter.snapshot(),
        "what": pa.Table.from_pylist([stored]),
    }


def restore_view(
    table: BaseTable, snapshot: Mapping[str, np.ndarray | pa.Table], options: Mapping[str, Any]
) -> tuple[RefillController, int]:
    """A view as it was, and its position in the change log; `options` change `kmax` and `refill_at`."""
    for name in options:
        if name not in _OPTIONS:
            raise QueryError(
                f"restoring a view has no option {name!r}; options: {', '.join(_OPTIONS)}. To change more, {_REBUILD}"
            )
    with refusing():
        arrays = validate(
            snapshot,
            {
                "view": any_int_column(4),
                "meter": typed_column("f8", 8, low=-MAX_MAGNITUDE, high=MAX_MAGNITUDE),
                "kmax": any_int_column(3),
            },
        )
        k, kmax, version, ascending = (int(x) for x in arrays["view"])
        require(1 <= k <= kmax <= 1 << 40, "view has a value out of range")
        drawdowns = None  # the first views did not measure them
        if "swings" in snapshot:
            drawdowns = validate(
                snapshot, {"swings": typed_column("f8", "levels", 9, low=-MAX_MAGNITUDE, high=MAX_MAGNITUDE)}
            )["swings"]
            require(len(drawdowns), "swings has no row")
        stored = table_of(snapshot, "what").to_pylist()[0]
        kmax_json, refill_at = stored.get("kmax"), stored.get("refill_at")  # the first views did not store them
        policy = Adaptive() if kmax_json is None else policy_from_json(kmax_json)
        flags = {"ascending": bool(ascending), "ordered": not arrays["kmax"][2]}
        spec = ViewSpec(stored["key"], k, stored["by"], policy, stored["columns"], refill_at=refill_at, **flags)
    ordered = options.get("ordered", spec.ordered)
    for name, was, now in (("ordered", spec.ordered, ordered), ("key", spec.key, table.key)):
        if was != now:
            raise SnapshotError(f"{name} must be {was!r} as in the snapshot of the view, got {now!r}")
    spec = replace(spec, **options)
    with refusing():
        refills = RefillController(ViewRows.restore(spec, snapshot), RefillWorker(table, spec))
        refills.kmax = kmax
        refills.meter.restore(arrays["meter"], drawdowns, refills.rows.index, kmax)
    return refills, version


def write_snapshot(snapshot: Saved, path: Path) -> None:
    """Write a snapshot into a file, which keeps its old content until all of the new one is on disk.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_snapshot({"id": np.array([[3, 4]])}, Path(folder) / "view.arrow")
    ...     read_snapshot(Path(folder) / "view.arrow")
    {'id': array([[3, 4]])}
    """
    temporary = path.with_name(path.name + ".new")
    try:
        with temporary.open("wb") as file:
            file.write(dump(snapshot, _HEADER))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise SnapshotError(
            f"path must be in a folder that exists and can be written, got {str(path)!r} ({error.strerror})"
        ) from error


def read_snapshot(path: Path) -> Saved:
    """Read what `write_snapshot` wrote. Raises SnapshotError if the file is missing, damaged, or something else."""
    wrong = f"{path.name} is not a saved view"
    try:
        blob = path.read_bytes()
    except OSError as error:
        raise SnapshotError(f"{wrong} ({error.strerror}): {_REBUILD}") from error
    header, snapshot = read(blob, wrong, _REBUILD)
    if header.get("kind") != _HEADER["kind"]:
        raise SnapshotError(f"{wrong} but the state of a query: {_REBUILD}")
    return snapshot
