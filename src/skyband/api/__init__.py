"""sb.run and sb.stream: answers to queries over a source."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Literal, Self, overload

from skyband.api.comparison import compare
from skyband.api.execution import execution_of
from skyband.api.explanation import Explanation, explain
from skyband.errors import SourceError

if TYPE_CHECKING:
    from datetime import timedelta

    import pyarrow as pa

    from skyband.api.execution import AnyQuery, Execution
    from skyband.runtime.stats import Stats

__all__ = ["METADATA", "Explanation", "Stream", "compare", "explain", "run", "stream"]

METADATA = b"skyband"
"""Key under which an answer's schema carries the counts of its run, as JSON."""


@overload
def run(
    query: AnyQuery,
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
    query: AnyQuery,
    source: object,
    *,
    engine: str = ...,
    late: str | timedelta | None = ...,
    ahead: str | timedelta | None = ...,
    stats: Literal[True],
    progress: bool | None = ...,
    options: Mapping[str, object] | None = ...,
) -> tuple[pa.Table, Stats]: ...
def run(  # noqa: PLR0913 - all that can be set
    query: AnyQuery,
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
        "auto", or a name in `sb.ENGINES`.
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

    execution = execution_of(query, source, engine=engine, late=late, ahead=ahead, options=options)
    promote = "permissive" if execution.joins else "default"  # remote types show with the first look-up
    try:  # a join reads the times first: what it has looked up cannot be taken back
        whole = concat_results(execution.tables(progress=progress, sorted_input=not execution.joins), promote)
    except OutOfOrderError:
        whole = concat_results(execution.tables(progress=progress), promote)
    pipeline = execution.pipeline
    if pipeline is None:
        raise SourceError(
            "the source yielded no batch, so its columns are unknown: give at least one, which may be empty"
        )
    counts = pipeline.stats
    whole = execution.empty() if whole is None else whole
    whole = whole.replace_schema_metadata({METADATA: json.dumps(counts.as_dict()).encode()})
    return (whole, counts) if stats else whole


def stream(  # noqa: PLR0913 - all that can be set
    query: AnyQuery,
    source: object,
    *,
    engine: str = "auto",
    late: str | timedelta | None = None,
    ahead: str | timedelta | None = None,
    options: Mapping[str, object] | None = None,
    resume: bytes | None = None,
) -> Stream:
    """Answer `query` batch by batch: what each batch of `source` brings about, as soon as it does.

    Takes what `run` takes. Batches that close no window yield nothing; one that closes very many windows yields their
    answers in several tables, of about a million rows each. What comes back is an iterator of tables that also tells,
    at any time, what it has counted (`stats`) and how many rows it keeps (`candidates`).

    With `resume`, what `Stream.snapshot()` returned, the stream goes on where that one was: give it the same query, and
    the rows that came after the snapshot.

    Examples
    --------
    >>> import skyband as sb
    >>> batches = iter([{"x": [3, 9]}, {"x": [4, 1]}])
    >>> for answers in sb.stream(sb.TopK(k=1, by="x", window=sb.Counting(2, 2)), batches):
    ...     print(answers["score"].to_pylist())
    [9.0]
    [4.0]
    """
    execution = execution_of(query, source, engine=engine, late=late, ahead=ahead, options=options)
    if resume is not None:
        execution.resume(resume)
    return Stream(execution)


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

    def __init__(self, execution: Execution) -> None:
        self._execution = execution
        self._tables = execution.tables()

    def __next__(self) -> pa.Table:
        return next(table for table in self._tables if table.num_rows)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Take no more batches. The open windows are not answered; `stats` stay, and a snapshot can be taken."""
        self._tables.close()

    def snapshot(self) -> bytes:
        """Return the state of the stream, to go on from in this process or another: `sb.stream(..., resume=)`.

        It holds all rows that were taken from the source, `stats.rows` of them, and the answers that were not yet
        asked for. It can be taken at any time before the source ends, also by the source itself between two batches.
        It has a checksum, and the query that it belongs to; nothing in it is code.

        Examples
        --------
        >>> import skyband as sb
        >>> query = sb.TopK(k=1, by="x", window=sb.Counting(3, 2))
        >>> with sb.stream(query, iter([{"x": [3, 9]}])) as answers:
        ...     first = next(answers)
        ...     saved = answers.snapshot()
        >>> rest = sb.stream(query, iter([{"x": [4, 1]}]), resume=saved)
        >>> next(rest).select(["window_end", "score"]).to_pylist()
        [{'window_end': 4, 'score': 9.0}]
        """
        return self._execution.snapshot()

    @property
    def stats(self) -> Stats:
        """What has been seen and done so far."""
        from skyband.runtime.stats import Stats

        pipeline = self._execution.pipeline
        return Stats() if pipeline is None else pipeline.stats

    @property
    def candidates(self) -> int:
        """How many rows are kept because they may still be in an answer."""
        pipeline = self._execution.pipeline
        return 0 if pipeline is None else pipeline.candidates()
