"""Runs one query, or many, over one source: from the first batch to the last."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from skyband.engines.registry import choose
from skyband.errors import QueryError, SnapshotError, SourceError
from skyband.lang.statement import Statement
from skyband.query import TopK
from skyband.query.duration import parse_duration, parse_instant

if TYPE_CHECKING:
    from datetime import timedelta

    import pyarrow as pa

    from skyband.runtime.pipeline import Pipeline
    from skyband.runtime.runner import OperatorRunner
    from skyband.runtime.source import Source
    from skyband.workload.workload import Workload

    AnyQuery = TopK | Statement | Sequence[TopK] | Workload
    """A query, a text that was parsed, or many queries."""

Json = dict[str, Any]


def execution_of(query: AnyQuery, source: object, **options: Any) -> Execution:
    """Return the execution of one query, or of many, with the options of `sb.stream`."""
    from skyband.workload.workload import Workload

    if isinstance(query, Workload):
        return WorkloadExecution(query, source, fixed=False, **options)
    if isinstance(query, list | tuple):
        return WorkloadExecution(Workload(query), source, fixed=True, **options)
    return Execution(query, source, **options)


class Execution:
    """One query over one source."""

    def __init__(  # noqa: PLR0913 - all that can be set
        self,
        query: object,
        source: object,
        *,
        engine: str = "auto",
        late: str | timedelta | None = None,
        ahead: str | timedelta | None = None,
        options: Mapping[str, object] | None = None,
        between: tuple[int | None, int | None] = (None, None),
    ) -> None:
        from skyband.runtime.source import open_source

        self._statement = query if isinstance(query, Statement) else None
        if self._statement is not None:
            query, source = self._statement.query, self._statement.rows(source)
        if not isinstance(query, TopK):
            given = type(query).__name__
            raise QueryError(
                f"query must be a query, a list of queries or a sb.Workload, got {given}: write sb.TopK(k=..., by=...)"
            )
        self.query, self.options, self._between = query, options, between
        self._any_engine, self.engine = engine == "auto", choose(query, engine).engine
        self._late = None if late is None else parse_duration(late, "late", least=0)
        self._ahead = None if ahead is None else parse_duration(ahead, "ahead", least=0)
        self._source = open_source(source)
        self._resumed = False
        self.pipeline: Pipeline | None = None

    @property
    def joins(self) -> bool:
        """Whether remote columns are in the answers."""
        return self.query.join is not None

    def empty(self) -> pa.Table:
        """Return an answer without rows."""
        assert self.pipeline is not None
        return self._select(self.pipeline.empty())

    # ------------------------------------------------------------ rows in, answers out

    def tables(self, *, progress: bool | None = False, sorted_input: bool = False) -> Generator[pa.Table, None, None]:
        """Yield the answers of each batch, then those that the end brings.

        With `sorted_input`, a finite source is taken to be in order; OutOfOrderError says that it is not.
        """
        from skyband.kernels._jit import tier
        from skyband.runtime.pipeline import OutOfOrderError

        source, in_order = self._in_order(sorted_input=sorted_input)
        if self._resumed:
            assert self.pipeline is not None
            yield from map(self._select, self.pipeline.steps())
        elif source.finite and source.schema is not None:
            self.pipeline = self._open(source.schema, sorted_input=in_order)
        else:
            self.pipeline = None
        try:
            for rows, watermark in self._batches(source, progress):
                if self.pipeline is None:
                    if not rows.num_rows and "null" in map(str, rows.schema.types):
                        continue  # an empty list has no type: wait for the next batch
                    self.pipeline = self._open(rows.schema, sorted_input=in_order)
                tier.saw(rows.num_rows)
                yield from map(self._select, self.pipeline.push(rows, self._micros(watermark)))
        except OutOfOrderError:
            if not self._resumed:
                raise
            raise SourceError(
                "rows of a resumed stream must not be older than those of its snapshot, which was taken of a source in "
                "order of time: give the rows after them, or write late= before and after the snapshot"
            ) from None
        if self.pipeline is not None:
            yield from map(self._select, self.pipeline.finish())

    def _select(self, answers: pa.Table) -> pa.Table:
        """Return the columns that a text asks for."""
        return answers if self._statement is None else self._statement.select(answers)

    def _batches(self, source: Source, progress: bool | None) -> Iterator[tuple[pa.Table, Any]]:
        batches = source.batches()
        if progress or (progress is None and sys.stderr.isatty()):
            from skyband.runtime.progress import show_progress

            return show_progress(batches, source.rows, at_once=bool(progress))
        return batches

    def _open(self, schema: pa.Schema, *, sorted_input: bool, stored: Json | None = None) -> Pipeline:
        """Return the pipeline, which goes on from what a snapshot `stored` besides the pipeline's own state."""
        from skyband.operators.plan import plan
        from skyband.runtime.pipeline import Pipeline

        del stored
        spec = plan(self.query, self.engine, self.options, between=self._between)
        return Pipeline([spec], schema, **self._stream_options(sorted_input=sorted_input))

    def _stream_options(self, *, sorted_input: bool) -> dict[str, Any]:
        live = not self._source.finite
        return {"late": self._late or 0, "ahead": self._ahead, "sorted_input": sorted_input, "live": live}

    def _in_order(self, *, sorted_input: bool) -> tuple[Source, bool]:
        """Return the source, in the order of time if it must be; and whether its batches are."""
        source, query = self._source, self.query
        if not source.finite or query.window.counts or self._late is not None:
            return source, False
        if sorted_input:
            return source, True
        from skyband.runtime.schema import TimeType, check_schema
        from skyband.runtime.source import in_time_order, rising

        assert source.schema is not None
        assert query.time is not None
        check_schema(query, source.schema)
        kind = TimeType.of(query, source.schema.field(query.time).type)
        if rising(source, query.time, kind):
            return source, True
        return in_time_order(source, query.time, kind), True

    def _micros(self, watermark: Any) -> int | None:
        """Return a watermark as the source gave it, in microseconds."""
        if watermark is None:
            return None
        from skyband.windows import check_watermark

        assert self.pipeline is not None
        kind = self.pipeline.time
        if hasattr(watermark, "item"):  # a NumPy scalar, as column.max() gives it
            watermark = watermark.astype("datetime64[us]").item() if watermark.dtype.kind == "M" else watermark.item()
        if isinstance(watermark, int) and kind is not None:
            return kind.watermark(watermark)
        if isinstance(watermark, str) and not watermark.strip()[:4].isdigit():
            raise SourceError(
                f"watermark={watermark!r} is not a moment: give a time of the type of {self.query.time!r}"
            )
        return check_watermark(parse_instant(watermark, "watermark"), watermark)

    # ------------------------------------------------------------ snapshots

    def snapshot(self) -> bytes:
        """Return all that is needed to go on in another process."""
        from skyband.runtime.snapshot import dump

        pipeline = self.pipeline
        if pipeline is None:  # no row has come
            return dump({}, {"query": self._fingerprint(), "stream": {}})
        if pipeline.finished:
            raise SnapshotError(
                "a snapshot must be taken before the source ends, whose end has closed all windows: take it earlier"
            )
        stored, runners = self._stored(pipeline)
        saved = pipeline.snapshot(runners)
        stored["sorted_input"] = pipeline.sorted_input
        return dump(
            {**saved, "schema": pipeline.schema.empty_table()}, {"query": self._fingerprint(), "stream": stored}
        )

    def _stored(self, pipeline: Pipeline) -> tuple[Json, Sequence[OperatorRunner]]:
        """Return what a snapshot needs besides the pipeline's own state, and the operators that go on."""
        return {}, pipeline.runners

    def _fingerprint(self) -> dict[str, str]:
        """Return what must be the same when a snapshot is resumed."""
        from skyband.operators.plan import plan
        from skyband.runtime.snapshot import fingerprint

        return {**fingerprint(self.query, plan(self.query, self.engine).fingerprint()), "engine": self.engine}

    def resume(self, snapshot: bytes) -> None:
        """Go on from a snapshot of the same query."""
        from skyband.runtime.snapshot import fingerprint_changes, read, refusing, table_of

        if not isinstance(snapshot, bytes):
            raise SnapshotError(
                f"resume must be the bytes that Stream.snapshot() returned, got {type(snapshot).__name__}"
            )
        header, saved = read(snapshot, "resume must be an undamaged snapshot", "use an older one, or leave resume= out")
        if "stream" not in header:
            raise SnapshotError(
                "resume must be what Stream.snapshot() returned, got the state of a view or of a query on Spark"
            )
        with refusing():
            if self._any_engine:
                self.engine = header["query"]["engine"]
            changed = fingerprint_changes(header["query"], self._fingerprint())
            if changed:
                what = changed.get("queries") or "; ".join(changed.values())
                raise SnapshotError(
                    f"resume must be a snapshot of this query, got that of another: {what}. Write the query as it was, "
                    f"or leave resume= out"
                )
            stored = header["stream"]
            if "schema" not in saved:
                return
            schema = table_of(saved, "schema").schema
            self.pipeline = self._open(schema, sorted_input=bool(stored["sorted_input"]), stored=stored)
            self.pipeline.restore(saved)
            self._restore(self.pipeline, stored)
            self._resumed = True

    def _restore(self, pipeline: Pipeline, stored: Json) -> None:
        """Restore what a snapshot `stored` besides the pipeline's own state."""


class WorkloadExecution(Execution):
    """Many queries over one source."""

    def __init__(
        self,
        workload: Workload,
        source: object,
        *,
        fixed: bool,
        engine: str = "auto",
        options: Mapping[str, object] | None = None,
        **more: Any,
    ) -> None:
        from skyband.workload.workload import queries_of

        self._queries, self._workload, self._fixed = queries_of(workload), workload, fixed
        super().__init__(self._queries.first(), source, options=options, **more)
        self._any_engine, self.engine = engine == "auto", self._queries.engine(engine)
        self._queries.check_options(options, self.engine)

    @property
    def joins(self) -> bool:
        """Whether remote columns are in the answers of any query."""
        return any(query.join is not None for query in self._workload.values())

    def _open(self, schema: pa.Schema, *, sorted_input: bool, stored: Json | None = None) -> Pipeline:
        from skyband.operators.plan import open_workload, restored_families

        self._queries.first()  # there is one: they may all have left since the stream was made
        families = None
        if stored is not None and "families" in stored:
            self._queries.renumber(stored["numbers"], stored["next"])
            families = restored_families(self._queries, stored["families"])
        options = self._stream_options(sorted_input=sorted_input)
        return open_workload(
            self._workload, schema, self.engine, options=self.options, fixed=self._fixed, families=families, **options
        )

    def _stored(self, pipeline: Pipeline) -> tuple[Json, Sequence[OperatorRunner]]:
        from skyband.operators.plan import stored_families

        if self.joins:  # the queries are those of the start
            return {}, pipeline.runners
        families, runners = stored_families(pipeline)
        return {"numbers": self._queries.numbers(), "next": self._queries.next, "families": families}, runners

    def _restore(self, pipeline: Pipeline, stored: Json) -> None:
        from skyband.operators.running import ranking

        for runner, values in zip(pipeline.runners, stored.get("families", ()), strict=False):
            ranking(runner).blind_until = int(values["blind_until"])

    def _fingerprint(self) -> dict[str, str]:
        from skyband.operators.plan import plan
        from skyband.runtime.snapshot import fingerprint

        queries = self._queries.queries()
        found = {
            "queries": ", ".join(queries if self.joins else sorted(queries)),
            "kind": "a list of queries" if self._fixed else f"a workload with reserve {self._queries.reserve}",
            "engine": self.engine,
        }
        for name, query in queries.items():
            found |= {
                f"{name}.{field}": value for field, value in fingerprint(query, plan(query).fingerprint()).items()
            }
        return found
