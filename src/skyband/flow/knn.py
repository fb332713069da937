"""Many queries about points over one stream: the pipeline with one engine for all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from skyband.errors import QueryError, SourceError
from skyband.flow.order import in_time_order, rising
from skyband.flow.pipeline import Pipeline
from skyband.flow.schema import check_schema
from skyband.flow.score import points
from skyband.flow.source import open_source
from skyband.flow.time import TimeType
from skyband.query import Distance, TopK, Weighted

if TYPE_CHECKING:
    from skyband.engines import Answers, Objects
    from skyband.engines.grid.many import Many
    from skyband.flow.emit import Lines

SHARED = ("window", "time", "per", "id", "ascending", "emit", "ranks", "unit", "prefix")
"""What queries must have in common to be answered together."""


def together(queries: Sequence[TopK]) -> str | None:
    """Why these queries cannot share a grid; None if they can.

    Examples
    --------
    >>> import skyband as sb
    >>> near = sb.TopK(k=1, by=sb.distance(["x"], to=[3]), window=sb.Counting(5))
    >>> together([near, near]), together([near, sb.TopK(k=1, by="x", window=sb.Counting(5))])
    (None, "by='x' is neither a distance nor a weighted sum")
    """
    if not queries:
        return "there is no query"
    one = queries[0]
    for query in queries:
        by = query.by
        if not isinstance(by, (Distance, Weighted)):
            return f"by={str(by)!r} is neither a distance nor a weighted sum"
        if isinstance(by, Distance) and not query.ascending:
            return "the farthest rows are asked for"
        assert isinstance(one.by, (Distance, Weighted))
        if (by.kind, by.columns) != (one.by.kind, one.by.columns):
            return "their scores differ in kind or columns"
        other = next((field for field in SHARED if getattr(query, field) != getattr(one, field)), None)
        if other is not None:
            return f"they differ in {other}"
    if one.per:
        return f"they are asked per {', '.join(one.per)}"
    if not one.window.kinds & {"row", "every row"}:
        return "their windows slide by more than a row"
    return None


def many(queries: Sequence[TopK], **how: Any) -> Many:
    """The engine that answers `queries`, which `together` finds nothing against, with the options of `Many`."""
    from skyband.engines.grid.many import Many, Targets

    sign = -1.0 if queries[0].ascending and isinstance(queries[0].by, Weighted) else 1.0
    scores = [query.by for query in queries if isinstance(query.by, (Distance, Weighted))]
    d = len(scores[0].columns)
    weight = sign * np.array([by.weights or (1.0,) * d for by in scores])
    to = np.array([by.to or (0.0,) * d for by in scores])
    targets = Targets.of(scores[0].kind, to=to, weight=weight, k=[query.k for query in queries])
    return Many(targets, queries[0].window, emit=queries[0].emit, **how)


class _Shared:
    """`Many` as the pipeline calls an engine: points stand where scores do."""

    def __init__(self, running: Many) -> None:
        self.running = running
        self.peak = running.peak

    def advance(self, arrivals: Objects, upto: int | np.ndarray) -> Answers:
        d = self.running.targets.to.shape[1]
        end = int(np.asarray(upto).item())
        answers = self.running.advance(arrivals.score.reshape(-1, d), arrivals.time, arrivals.id, end)
        self.peak = self.running.peak
        return answers

    def candidates(self) -> Objects:
        return self.running.candidates()

    def snapshot(self) -> dict[str, np.ndarray]:
        return self.running.snapshot()


class Points(Pipeline):
    """Many queries over one stream. As `Pipeline`; the answers have a column `query`."""

    def __init__(
        self, queries: Sequence[TopK], schema: pa.Schema, *, rising: bool = False, late: int = 0, **how: Any
    ) -> None:
        super().__init__(queries[0], schema, "recompute", rising=rising, late=late)
        for query in queries:
            check_schema(query, schema)
        by = queries[0].by
        assert isinstance(by, (Distance, Weighted))
        self._axes = by.columns
        self._names = pa.array([query.name or f"q{at}" for at, query in enumerate(queries)])
        self.engine = _Shared(many(queries, **how))

    def _points(self, rows: pa.Table) -> np.ndarray:
        return points(self._axes, rows)

    def _lists(self) -> int:
        return len(self._names)

    def _columns(self, lines: Lines) -> pa.Table:
        table = super()._columns(lines)
        names = self._names.take(pa.array(lines.group, pa.int32()))
        return table.add_column(0, self.query.column("query"), names)


def knn(queries: Sequence[TopK], source: object, *, late: int | None = None, **how: Any) -> pa.Table:
    """Answer many queries that rank by distance, or by a weighted sum, after every row of one source.

    They share windows and columns and differ in target, weights, k and name. As exact as one `run` for each, and
    hundreds of times cheaper: the rows are read once, and each meets only the queries it can matter to. `how` goes to
    `engines.grid.many.Many`.

    Examples
    --------
    >>> import skyband as sb
    >>> queries = [
    ...     sb.TopK(k=1, by=sb.distance(["x"], to=[at]), window=sb.Counting(2), emit="arrivals", name=f"at {at}")
    ...     for at in (0, 10)
    ... ]
    >>> knn(queries, {"x": [4, 9, 1]}).select(["query", "window_end", "score"]).to_pylist()
    [{'query': 'at 0', 'window_end': 1, 'score': 4.0}, {'query': 'at 10', 'window_end': 1, 'score': 6.0},
    {'query': 'at 10', 'window_end': 2, 'score': 1.0}, {'query': 'at 0', 'window_end': 3, 'score': 1.0}]
    """
    against = together(queries)
    if against is not None:
        msg = f"these queries cannot share a grid: {against}"
        raise QueryError(msg)
    tables = list(_tables(queries, source, late, how))
    if not tables:
        msg = "the source yielded no batch, so its columns are unknown: give at least one, which may be empty"
        raise SourceError(msg)
    return pa.concat_tables(tables)


def _tables(queries: Sequence[TopK], source: object, late: int | None, how: dict[str, Any]) -> Iterator[pa.Table]:
    opened, query = open_source(source), queries[0]
    ordered = opened.finite and not query.window.counts and late is None
    if ordered:
        assert opened.schema is not None
        assert query.time is not None
        check_schema(query, opened.schema)
        kind = TimeType.of(query, opened.schema.field(query.time).type)
        if not rising(opened, query.time, kind):
            opened = in_time_order(opened, query.time, kind)
    line: Points | None = None
    for rows, watermark in opened.batches():
        if line is None:
            line = Points(queries, rows.schema, rising=ordered, late=late or 0, **how)
        yield line.push(rows, watermark)
    if line is not None:
        yield line.finish()
