"""Compares refresh policies of a join with the truth."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, get_args

from skyband.api.execution import Execution
from skyband.errors import QueryError, SourceError
from skyband.evaluate import evaluate
from skyband.query import TopK
from skyband.query.duration import parse_instant
from skyband.query.join import POLICIES, Policy

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.query.join import Choose, PaperPolicy


def compare(
    query: TopK,
    source: object,
    policies: Iterable[Policy | PaperPolicy | Choose] = get_args(Policy),
    *,
    since: object = None,
    until: object = None,
) -> pa.Table:
    """Run a query's join under several refresh policies, side by side in one pass, against the truth.

    Parameters
    ----------
    query
        A query with `join=`, whose policy is left out of account.
    source
        What `run` takes. The oracle, and the policy "all", look up as much as they need at every evaluation.
    policies
        Names, or functions choose(candidates, replica, budget, now).
    since, until
        Moments: windows that begin before the one or end after the other are passed over. Default: none is.

    Returns
    -------
    pyarrow.Table
        One row a policy: policy, the paper's name for it, the sums of nDCG@k and precision@k, their cumulated
        errors after each window, and the look-ups made.

    Examples
    --------
    >>> import skyband as sb
    >>> from skyband.tables import History
    >>> users = History({"user": [1, 2, 1], "at": [0, 0, 70], "y": [5, 6, 9]}, key="user", time="at", unit="s")
    >>> join = sb.Join(users, on="user", columns=["y"], refresh=sb.Refresh(budget=1))
    >>> query = sb.TopK(k=1, by="x + y", window=sb.Tumbling("1 minute"), time="t", unit="s", join=join)
    >>> seen = {"t": [10, 20, 80, 90], "user": [1, 2, 1, 2], "x": [0, 0, 0, 0]}
    >>> sb.compare(query, seen, ["top", "all"]).select(["policy", "ndcg", "precision", "lookups"]).to_pylist()
    [{'policy': 'top', 'ndcg': 2.0, 'precision': 2.0, 'lookups': 2}, ...]
    """
    import pyarrow as pa

    from skyband.operators.lookup_join.policies import Oracle

    if not isinstance(query, TopK) or query.join is None:
        raise QueryError("compare needs a query with join=: write sb.TopK(..., join=sb.Join(...))")
    if isinstance(source, Iterator):
        raise SourceError(
            "source is an iterator, which only one policy could read: give a path, a table or a list of batches"
        )
    chosen: list[Any] = [*([policies] if isinstance(policies, str) else policies), Oracle()]
    joins = [replace(query.join, refresh=replace(query.join.refresh, policy=policy)) for policy in chosen]
    between = (
        None if since is None else parse_instant(since, "since"),
        None if until is None else parse_instant(until, "until"),
    )
    runs = [Execution(replace(query, join=join), source, between=between).tables() for join in joins]
    parts: list[list[pa.Table]] = [[] for _ in runs]
    for step in zip_longest(*runs):  # batch by batch: all look up the same moments
        for tables, table in zip(parts, step, strict=True):
            if table is not None:
                tables.append(table)
    *whole, truth = (pa.concat_tables(tables, promote_options="permissive") for tables in parts)
    return pa.Table.from_pylist(
        [_figures(query, join.refresh.policy, table, truth) for join, table in zip(joins, whole, strict=False)]
    )


def _figures(query: TopK, policy: str | Choose, table: pa.Table, truth: pa.Table) -> dict[str, object]:
    """Return one row of the comparison."""
    import pyarrow.compute as pc

    assert query.join is not None
    found = evaluate(table, truth, query.join.on, query.k, query.prefix, query.per)
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
