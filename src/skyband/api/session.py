"""One query, or many, over one source: from the first batch to the last."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from skyband.engines.plan import choose
from skyband.errors import QueryError, SourceError
from skyband.lang.statement import Statement
from skyband.query import TopK
from skyband.query.duration import parse_duration, parse_instant

if TYPE_CHECKING:
    from datetime import timedelta

    import pyarrow as pa

    from skyband.runtime.pipeline import Pipeline
    from skyband.runtime.source import Source
    from skyband.runtime.stats import Stats
    from skyband.workload.workload import Workload

    Asked = TopK | Statement | Sequence[TopK] | Workload
    """What can be asked: a query, a text that was parsed, or many queries."""


class Session:
    """One query over one source, from the first batch to the last."""

    def __init__(
        self,
        query: TopK | Statement,
        source: object,
        engine: str,
        late: str | timedelta | None,
        ahead: str | timedelta | None,
        options: Mapping[str, object] | None,
    ) -> None:
        from skyband.runtime.source import open_source

        self.asked = query if isinstance(query, Statement) else Statement(query)
        query, source = self.asked.query, self.asked.rows(source)
        if not isinstance(query, TopK):
            msg = f"query={type(query).__name__} is no query: write sb.TopK(k=..., by=..., window=...)"
            raise QueryError(msg)
        self.query = query
        self.plan = choose(query, engine)
        self.options = options
        self.late = _length(late, "late")
        self.ahead = _length(ahead, "ahead")
        self.source = open_source(source)
        self.between: tuple[int | None, int | None] = (None, None)
        self.pipeline: Pipeline | None = None

    @property
    def stats(self) -> Stats:
        """What has been seen and done so far."""
        assert self.pipeline is not None
        return self.pipeline.stats

    def empty(self) -> pa.Table:
        """An answer without rows."""
        assert self.pipeline is not None
        return self.asked.select(self.pipeline.empty())

    @property
    def joins(self) -> bool:
        """Whether remote columns are in the answers."""
        return self.query.join is not None

    def tables(self, *, progress: bool | None, trusting: bool = False) -> Generator[pa.Table, None, None]:
        """The answers of each batch, then those that the end brings.

        With `trusting`, a finite source is taken to be in order; OutOfOrderError says that it is not.
        """
        from skyband.kernels._jit import tier
        from skyband.runtime.progress import shown

        source, rising = self._in_order(trusting=trusting)
        self.pipeline = None
        if source.finite and source.schema is not None:
            self.pipeline = self._open(source.schema, sorted_input=rising)
        for rows, watermark in shown(source.batches(), source.rows, wanted=progress):
            if self.pipeline is None:
                if not rows.num_rows and "null" in map(str, rows.schema.types):
                    continue  # an empty list has no type: the next batch will tell
                self.pipeline = self._open(rows.schema, sorted_input=rising)
            tier.saw(rows.num_rows)
            yield from map(self.asked.select, self.pipeline.push(rows, self._micros(watermark)))
        if self.pipeline is not None:
            yield from map(self.asked.select, self.pipeline.finish())

    def _open(self, schema: pa.Schema, *, sorted_input: bool) -> Pipeline:
        from skyband.operators.plan import plan
        from skyband.runtime.pipeline import Pipeline

        spec = plan(self.query, self.plan.engine, self.options, between=self.between)
        return Pipeline([spec], schema, **self._stream_options(sorted_input=sorted_input))

    def _stream_options(self, *, sorted_input: bool) -> dict[str, Any]:
        live = not self.source.finite
        return {"late": self.late or 0, "ahead": self.ahead, "sorted_input": sorted_input, "live": live}

    def _in_order(self, *, trusting: bool) -> tuple[Source, bool]:
        """The source, in the order of time if it must be; and whether its batches are."""
        source, query = self.source, self.query
        if not source.finite or query.window.counts or self.late is not None:
            return source, False
        if trusting:
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
        """A watermark as the source gave it, in microseconds."""
        if watermark is None:
            return None
        from skyband.windows.watermark import check_watermark

        assert self.pipeline is not None
        kind = self.pipeline.time
        if hasattr(watermark, "item"):  # a NumPy scalar, as column.max() gives it
            watermark = watermark.astype("datetime64[us]").item() if watermark.dtype.kind == "M" else watermark.item()
        if isinstance(watermark, int) and kind is not None:
            return kind.watermark(watermark)
        if isinstance(watermark, str) and not watermark.strip()[:4].isdigit():
            msg = f"watermark={watermark!r} is not a moment: give a time of the type of {self.query.time!r}"
            raise SourceError(msg)
        return check_watermark(parse_instant(watermark, "watermark"), watermark)


class WorkloadSession(Session):
    """Many queries over one source."""

    def __init__(  # noqa: PLR0913 - what the door was given
        self,
        workload: Workload,
        source: object,
        engine: str,
        late: str | timedelta | None,
        ahead: str | timedelta | None,
        options: Mapping[str, object] | None,
        *,
        fixed: bool,
    ) -> None:
        first = workload.first()
        super().__init__(first, source, "auto", late, ahead, workload.told(options, engine))
        self.workload = workload
        self.fixed = fixed
        self.engine = workload.chosen(engine)

    @property
    def joins(self) -> bool:
        """Whether remote columns are in the answers of any query."""
        return any(query.join is not None for query in self.workload.values())

    def _open(self, schema: pa.Schema, *, sorted_input: bool) -> Pipeline:
        from skyband.operators.plan import open_workload

        self.workload.first()  # there is one: they may all have left since the stream was made
        ways = self._stream_options(sorted_input=sorted_input)
        return open_workload(self.workload, schema, self.engine, options=self.options, fixed=self.fixed, **ways)


def session_of(
    query: Asked,
    source: object,
    engine: str,
    late: str | timedelta | None,
    ahead: str | timedelta | None,
    options: Mapping[str, object] | None,
) -> Session:
    """One query, or many, over a source."""
    from skyband.workload.workload import Workload

    if isinstance(query, TopK) or not isinstance(query, (Workload, list, tuple)):
        return Session(query, source, engine, late, ahead, options)  # type: ignore[arg-type]  # which says what is wrong
    fixed = not isinstance(query, Workload)
    workload = query if isinstance(query, Workload) else Workload(query)
    return WorkloadSession(workload, source, engine, late, ahead, options, fixed=fixed)


def _length(value: str | timedelta | None, field: str) -> int | None:
    return None if value is None else parse_duration(value, field, least=0)
