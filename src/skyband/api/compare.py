"""Compares refresh policies of a join with the truth."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from skyband.query.join import POLICIES, Choose

if TYPE_CHECKING:
    from skyband.query import TopK


def compare_runs(
    runs: list[Iterator[pa.Table]], query: TopK, policies: Sequence[str | Choose], evaluate: Callable[..., Any]
) -> pa.Table:
    """Step through the answers of all runs batch by batch; the last is the oracle's. Return one row a policy."""
    parts: list[list[pa.Table]] = [[] for _ in runs]
    for step in zip_longest(*runs):
        for tables, table in zip(parts, step, strict=True):
            if table is not None:
                tables.append(table)
    assert query.join is not None
    whole = [pa.concat_tables(tables, promote_options="permissive") for tables in parts]
    return pa.Table.from_pylist(
        [
            _figures(query, policy, evaluate(table, whole[-1], query.join.on, query.k, query.prefix, query.per), table)
            for policy, table in zip(policies[:-1], whole, strict=False)
        ]
    )


def _figures(query: TopK, policy: str | Choose, found: Any, table: pa.Table) -> dict[str, object]:
    name = policy if isinstance(policy, str) else getattr(policy, "__name__", type(policy).__name__.lower())
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
