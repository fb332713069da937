"""Several refresh policies side by side, held against the truth."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from skyband.query.join import POLICIES, Choose

if TYPE_CHECKING:
    from skyband.query import TopK


def side_by_side(
    runs: list[Iterator[pa.Table]], query: TopK, ways: Sequence[str | Choose], evaluate: Callable[..., Any]
) -> pa.Table:
    """Step through the answers of all runs batch by batch; the last is the oracle's. One row a policy."""
    parts: list[list[pa.Table]] = [[] for _ in runs]
    for step in zip_longest(*runs):
        for kept, table in zip(parts, step, strict=True):
            if table is not None:
                kept.append(table)
    assert query.join is not None
    whole = [pa.concat_tables(p, promote_options="permissive") for p in parts]
    return pa.Table.from_pylist(
        [
            _line(query, way, evaluate(table, whole[-1], query.join.on, query.k, query.prefix, query.per), table)
            for way, table in zip(ways[:-1], whole, strict=False)
        ]
    )


def _line(query: TopK, way: str | Choose, found: Any, table: pa.Table) -> dict[str, object]:
    name = way if isinstance(way, str) else getattr(way, "__name__", type(way).__name__.lower())
    made = pc.struct_field(table[query.column("lookups")], "made").to_pylist()
    ends = table[query.column("window_end")].to_pylist()
    return {
        "policy": name,
        "paper": POLICIES.get(name, ""),
        "ndcg": float(found.ndcg.sum()),
        "precision": float(found.precision.sum()),
        "lookups": sum(dict(zip(ends, made, strict=True)).values()),  # groups share those of a moment
        "windows": len(found.window),
        "ndcg_error": found.ndcg_error.tolist(),
        "precision_error": found.precision_error.tolist(),
    }
