"""A view as named columns, and a view from them: what survives a restart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import pyarrow as pa

from skyband.engines.validation import FAR, checked, held, require, whole
from skyband.errors import QueryError, SnapshotError, TableError
from skyband.view.kept import Kept
from skyband.view.policy import read, written

if TYPE_CHECKING:
    from skyband.tables.protocol import BaseTable
    from skyband.view.filling import Filling
    from skyband.view.view import View

    Kind = TypeVar("Kind", bound=View)
    Columns = Mapping[str, np.ndarray | pa.Table]

_OPTIONS = ("kmax", "refill_at", "ordered")
_SWINGS = {"swings": held("f8", "lengths", 9, low=-FAR, high=FAR)}


def saved(view: View, kept: Kept, filling: Filling) -> dict[str, np.ndarray | pa.Table]:
    """All that a view needs to go on elsewhere."""
    what = {
        "by": [view.by.text],
        "key": [view.table.key],
        "columns": [list(view.columns)],
        "kmax": [written(filling.policy)],
        "refill_at": [filling.refill_at],
    }
    texts = pa.list_(pa.string())
    kinds = pa.schema(
        {"by": pa.string(), "key": pa.string(), "columns": texts, "kmax": pa.string(), "refill_at": pa.int64()}
    )
    return {
        **kept.save(),
        "view": np.array([view.k, view.kmax, view.version, view.ascending], np.int64),
        "meter": filling.meter.save(),
        "swings": filling.meter.save_swings(),
        "what": pa.table(what, schema=kinds),
    }


def resumed(kind: type[Kind], table: BaseTable, saved: Columns, options: Mapping[str, Any]) -> Kind:
    """A view as it was when it was saved, whatever has happened since."""
    try:
        found = checked(saved, {"view": whole(4), "meter": held("f8", 8, low=-FAR, high=FAR)})
        swings = checked(saved, _SWINGS if "swings" in saved else {})  # what was saved before there were any lacks them
        k, kmax, version, ascending = (int(x) for x in found["view"])
        what = cast("pa.Table", saved["what"]).to_pylist()[0]
        kept = Kept.resume(saved, what["key"], what["columns"])
        options = {**_as_saved(what), **options}
        require("swings" not in swings or len(swings["swings"]), "swings has no line")
        require(1 <= k <= kmax <= 1 << 40, "view has a value that it cannot have")
    except (KeyError, IndexError, ValueError, TypeError, AttributeError, pa.ArrowException) as error:
        msg = f"this is no saved view ({type(error).__name__}: {error}): give what View.save() returned"
        raise SnapshotError(msg) from error
    if kept.core.versions == options.get("ordered", True):
        was = not kept.core.versions
        msg = f"ordered={not was} is another than the view was saved with: write ordered={was}"
        raise SnapshotError(msg)
    if what["key"] != table.key:
        msg = f"the view was saved with key {what['key']!r}, and the table has {table.key!r}: open the table it was on"
        raise SnapshotError(msg)
    given = {**options, "columns": what["columns"], "ascending": bool(ascending)}
    view = kind.resume(table, k, what["by"], kept, **given)
    view.go_on(version, kmax, found["meter"], swings.get("swings"))
    return view


def restored(kind: type[Kind], table: BaseTable, saved: Columns, options: Mapping[str, Any]) -> Kind:
    """Go on from what was saved, and apply what has changed since; where no log reaches back so far, begin anew."""
    for name in options:
        if name not in _OPTIONS:
            msg = (
                f"{name}={options[name]!r} cannot be given here, for the rest is as it was saved: "
                f"write one of {', '.join(_OPTIONS)}, or build the view again with sb.View(...)"
            )
            raise QueryError(msg)
    view = resumed(kind, table, saved, options)
    try:
        view.catch_up()
    except TableError:
        options = {**_as_saved(cast("pa.Table", saved["what"]).to_pylist()[0]), **options}
        return kind(table, view.k, view.by, columns=view.columns, ascending=view.ascending, **options)
    return view


def _as_saved(what: Mapping[str, Any]) -> dict[str, Any]:
    """The options that a view was saved with, where they are known."""
    found = {"kmax": None if what.get("kmax") is None else read(what["kmax"]), "refill_at": what.get("refill_at")}
    return {name: value for name, value in found.items() if value is not None}
