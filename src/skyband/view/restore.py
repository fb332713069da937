"""A view from what was saved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from skyband.errors import SnapshotError, TableError
from skyband.view.core import Core

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.tables.protocol import Base
    from skyband.view.view import View


def restored(
    kind: type[View], table: Base, saved: Mapping[str, np.ndarray | pa.Table], options: Mapping[str, Any]
) -> View:
    """Go on from what was saved, and apply what has changed since; where no log reaches back so far, begin anew."""
    try:
        k, kmax, version, rows, ascending = (int(x) for x in cast("np.ndarray", saved["view"]))
        what = cast("pa.Table", saved["what"]).to_pylist()[0]
        core = Core.resume({name: value for name, value in saved.items() if isinstance(value, np.ndarray)})
    except (KeyError, IndexError, ValueError, TypeError) as error:
        msg = f"this is no saved view ({type(error).__name__}: {error}): give what View.save() returned"
        raise SnapshotError(msg) from error
    if what["key"] != table.key:
        msg = f"the view was saved with key {what['key']!r}, and the table has {table.key!r}: open the table it was on"
        raise SnapshotError(msg)
    given: dict[str, Any] = {"kmax": "adaptive", "refill_at": None, "ordered": True, **options}
    view = kind.__new__(kind)
    fixed: dict[str, Any] = {"columns": tuple(what["columns"]), "ascending": bool(ascending)}
    view.resume(table, k, what["by"], core, {**given, **fixed})
    view.version, view.kmax = version, kmax
    view.resume_rows(cast("pa.Table | None", saved.get("rows")), rows)
    try:
        view.catch_up()
    except TableError:
        return kind(table, k, what["by"], **fixed, **given)
    return view
