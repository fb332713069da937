"""run, stream, explain: the rooms joined into one door."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Self, get_args, overload

from skyband.api.explanation import Explanation, explain
from skyband.api.session import Session, session_of
from skyband.errors import QueryError, SourceError
from skyband.query import TopK
from skyband.query.duration import parse_instant
from skyband.query.join import Policy

if TYPE_CHECKING:
    from datetime import timedelta

    import pyarrow as pa

    from skyband.api.session import Asked
    from skyband.query.join import Choose, PaperPolicy
    from skyband.runtime.stats import Stats

__all__ = ["METADATA", "Explanation", "Stream", "compare", "explain", "run", "stream"]

METADATA = b"skyband"
"""Key under which an answer's schema carries the counts of its run, as JSON."""


@overload
def run(
    query: Asked,
    source: object,
    *,
    engine: str = ...,
    late: str | timedelta | None = ...,
    ahead: str | timedelta | None = ...,
    stats: Literal[False] = ...,
    progress: bool | None = ...,
    options: Mapping[str, object] | None = ...,
) -> pa.Table: ...
@overload
def run(
    query: Asked,
    source: object,
    *,
    engine: str = ...,
    late: str | timedelta | None = ...,
    ahead: str | timedelta | None = ...,
    stats: Literal[True],
    progress: bool | None = ...,
    options: Mapping[str, object] | None = ...,
) -> tuple[pa.Table, Stats]: ...
def run(  # noqa: PLR0913 - the one wide door
    query: Asked,
    source: object,
    *,
    engine: str = "auto",
    late: str | timedelta | None = None,
    ahead: str | timedelta | None = None,
    stats: bool = False,
    progress: bool | None = None,
    options: Mapping[str, object] | None = None,
) -> pa.Table | tuple[pa.Table, Stats]:
    """Answer `query`, or many queries, over all of `source`.

    Parameters
    ----------
    query
        What to rank; a list of queries, or a `Workload`, which share what they keep; also what `sb.parse` gives.
    source
        A path (Parquet, CSV or JSON lines; a folder of such files too), an Arrow table, a pandas or Polars
        frame, a dict of lists, or an iterator of such batches, each alone or with a watermark: (batch, time).
    engine
        "auto", or a name in `sb.ENGINES`; for many queries also "mtopband" or "mtoplist".
    late
        How far behind the newest time seen a row may come and still count. Without it a finite source is put
        in order first, so that nothing is late, and an iterator has a lateness of zero.
    ahead
        How far ahead of the newest time seen a row may be; one further ahead is dropped and counted.
    stats
        Also return what was counted on the way.
    progress
        Show a progress bar. Default: on a terminal, for work that takes more than two seconds.
    options
        What the engine can be told, such as {"buffer": 2000}; `sb.ENGINES[name].options` has the names. Many queries
        about points, which share a grid, take grid="uniform", slices= and index=False.

    Returns
    -------
    pyarrow.Table
        Columns window_start, window_end, the `per` columns, rank, score, then the row's own columns; of many
        queries a column `query` before them. Its schema metadata has the counts as JSON under b"skyband". With
        `stats=True` a pair of it and the counts. More than 50,000,000 rows are an error: `stream` gives them in steps.

    Examples
    --------
    >>> import skyband as sb
    >>> trades = {"ts": [0, 30, 70, 90], "price": [5.0, 9.0, 7.0, None]}
    >>> query = sb.TopK(k=1, by="price", window=sb.Sliding("2 minutes", "1 minute"), time="ts", unit="s")
    >>> answers, counts = sb.run(query, trades, stats=True)
    >>> answers.select(["window_start", "window_end", "score"]).to_pylist()[1]
    {'window_start': 0, 'window_end': 120, 'score': 9.0}
    >>> counts.rows, counts.without_score
    (4, 1)
    """
    from skyband.runtime.pipeline import OutOfOrderError
    from skyband.runtime.result import concat_results

    session = session_of(query, source, engine, late, ahead, options)
    promote = "permissive" if session.joins else "default"  # remote types show with the first look-up
    try:  # a join reads the times first: what it has looked up cannot be taken back
        whole = concat_results(session.tables(progress=progress, trusting=not session.joins), promote)
    except OutOfOrderError:
        whole = concat_results(session.tables(progress=progress), promote)
    if whole is None and session.pipeline is not None:
        whole = session.empty()
    if whole is None:
        msg = "the source yielded no batch, so its columns are unknown: give at least one, which may be empty"
        raise SourceError(msg)
    counts = session.stats
    whole = whole.replace_schema_metadata({METADATA: json.dumps(counts.as_dict()).encode()})
    return (whole, counts) if stats else whole


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
    from skyband.api.compare import compare_runs
    from skyband.evaluate import evaluate

    if not isinstance(query, TopK) or query.join is None:
        msg = "compare needs a query with join=: write sb.TopK(..., join=sb.Join(...))"
        raise QueryError(msg)
    from skyband.operators.lookup_join.policies import Oracle

    chosen: list[Any] = [*([policies] if isinstance(policies, str) else policies), Oracle()]
    joins = [replace(query.join, refresh=replace(query.join.refresh, policy=policy)) for policy in chosen]
    sessions = [Session(replace(query, join=join), source, "auto", None, None, None) for join in joins]
    if isinstance(source, Iterator):
        msg = "source is an iterator, which only one policy could read: give a path, a table or a list of batches"
        raise SourceError(msg)
    for session in sessions:
        session.between = (
            None if since is None else parse_instant(since, "since"),
            None if until is None else parse_instant(until, "until"),
        )
    names = [join.refresh.policy for join in joins]
    return compare_runs([s.tables(progress=False) for s in sessions], query, names, evaluate)


def stream(
    query: Asked,
    source: object,
    *,
    engine: str = "auto",
    late: str | timedelta | None = None,
    ahead: str | timedelta | None = None,
    options: Mapping[str, object] | None = None,
) -> Stream:
    """Answer `query` batch by batch: what each batch of `source` brings about, as soon as it does.

    Takes what `run` takes. Batches that close no window yield nothing; one that closes very many windows yields their
    answers in several tables, of about a million rows each. What comes back is an iterator of tables that also tells,
    at any time, what it has counted (`stats`) and how many rows it keeps (`candidates`).

    Examples
    --------
    >>> import skyband as sb
    >>> batches = iter([{"x": [3, 9]}, {"x": [4, 1]}])
    >>> for answers in sb.stream(sb.TopK(k=1, by="x", window=sb.Counting(2, 2)), batches):
    ...     print(answers["score"].to_pylist())
    [9.0]
    [4.0]
    """
    return Stream(session_of(query, source, engine, late, ahead, options))


class Stream(Iterator["pa.Table"]):
    """Answers as they come; made by `sb.stream`.

    Examples
    --------
    >>> import skyband as sb
    >>> answers = sb.stream(sb.TopK(k=1, by="x", window=sb.Counting(2, 2)), iter([{"x": [3, 9]}, {"x": [4]}]))
    >>> next(answers)["score"].to_pylist(), answers.stats.rows, answers.candidates
    ([9.0], 2, 0)

    With `with` it is closed at the end of the block; the source stays yours to close:

    >>> with sb.stream(sb.TopK(k=1, by="x", window=sb.Counting(2, 2)), iter([{"x": [3, 9]}, {"x": [4]}])) as answers:
    ...     first = next(answers)
    >>> next(answers, "closed")
    'closed'
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._tables = session.tables(progress=False)

    def __next__(self) -> pa.Table:
        return next(table for table in self._tables if table.num_rows)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Take no more batches. The open windows are not answered; `stats` stay."""
        self._tables.close()

    @property
    def stats(self) -> Stats:
        """What has been seen and done so far."""
        from skyband.runtime.stats import Stats

        return self._session.stats if self._session.pipeline is not None else Stats()

    @property
    def candidates(self) -> int:
        """How many rows are kept because they may still be in an answer."""
        pipeline = self._session.pipeline
        return 0 if pipeline is None else pipeline.candidates()
