"""sb.spark.view: a stream of changes of a table in, the changes of its k best rows out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from skyband.errors import QueryError, SchemaError, nearest
from skyband.query.duration import parse_duration
from skyband.query.validation import check_flag
from skyband.runtime.ids import id_numbers
from skyband.runtime.snapshot import unwrite
from skyband.spark.pipeline import bucket_keys, check_version, gathered, map_rows, metric_name, stateful
from skyband.spark.prune import NEVER, Counts, Packed, in_utc
from skyband.spark.session import column, suit
from skyband.tables.protocol import CHANGE, VERSION
from skyband.tables.sql import SqlTable, open_table
from skyband.view.changes import ChangeBatch, diff_lists, read_changes
from skyband.view.refill import RefillController, RefillWorker
from skyband.view.rows import ViewRows
from skyband.view.snapshot import restore_view, snapshot_view
from skyband.view.spec import ViewSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from skyband.query.expression import Expression
    from skyband.runtime.saved import Saved
    from skyband.view.policy import KmaxName, KmaxPolicy

SCORE = "__skyband_score"
_COUNTED = ("rows", "without_score", "without_time", "late", "stale", "refills", "failed_refills", "incomplete")


def view(  # noqa: PLR0913 - the door
    table: SqlTable | str,
    k: int,
    by: str | Expression,
    *,
    name: str | None = None,
    key: str | None = None,
    kmax: int | KmaxName | KmaxPolicy = "adaptive",
    columns: Sequence[str] = (),
    ascending: bool = False,
    ordered: bool = True,
    ranks: bool = False,
    change: str = CHANGE,
    version: str = VERSION,
    timeout: str = "30 seconds",
    metric: str = "skyband",
) -> Callable[[DataFrame], DataFrame]:
    """The k best rows of a database table, from a stream of its changes: for `df.transform(...)`.

    Each row of the stream is a row of the table as it is now, or says that it is gone. What comes out are the changes
    of the k best. The table is asked only when rows have left and too few are known: once at the start, then seldom.

    Parameters
    ----------
    table
        What `sb.tables.open_table` gives, or the address of a database with `name` and `key`; `sb.tables.SqlTable`
        where only the executors reach it, which they must.
    k, by, kmax, columns, ascending, ordered
        As of `sb.View`. With `ordered` the changes of a row must come batch by batch in their order; within a batch the
        version decides.
    name, key
        The table, and its key column, where `table` is an address.
    ranks
        Also tell of rows that only moved in the list.
    change
        The stream's column that is "delete" for rows that are gone, else "insert" or "update"; it may be missing.
    version
        The stream's column that grows with every change of a row: a whole number or a time.
    timeout
        How long the table may take to answer (PostgreSQL). A question that fails is asked again with the next batch; no
        change is lost meanwhile, and what goes out has `complete` false.
    metric
        The name of the observed metric. Two in one stream of Spark must have different names.

    Returns
    -------
    A function from DataFrame to DataFrame, with the columns step, _change_type, rank, score, the key, `columns`, and
    complete. Counts go out as an observed metric of each batch.

    Examples
    --------
    >>> import skyband as sb
    >>> stock = sb.tables.SqlTable("postgresql+psycopg://reader@db.example/shop", "stock", key="id")
    >>> step = sb.spark.view(stock, k=10, by="price / earnings")  # then: changes.transform(step)
    """
    check_version()
    if isinstance(table, str):
        if name is None or key is None:
            msg = f'name={name!r} and key={key!r} leave open which table is meant: write name="stock", key="id"'
            raise QueryError(msg)
        with open_table(table, name, key=key) as there:
            return view(
                there, k, by, kmax=kmax, columns=columns, ascending=ascending, ordered=ordered, ranks=ranks,
                change=change, version=version, timeout=timeout, metric=metric,
            )  # fmt: skip
    if not isinstance(table, SqlTable):
        msg = f"table={str(table)[:60]!r} is no table of a database: write sb.tables.open_table(...), or its address"
        raise QueryError(msg)
    options: dict[str, Any] = {"k": k, "by": by, "kmax": kmax, "columns": columns, "ascending": ascending}
    spec = ViewSpec(table.key, ordered=ordered, **options)
    check_flag("ranks", ranks)
    for field, text in (("change", change), ("version", version)):
        if not isinstance(text, str) or not text:
            msg = f"{field}={text!r} is no name: write that of a column"
            raise QueryError(msg)
    if table.is_open:
        table.ranked(spec.by, spec.columns)  # its columns are there
    limit = parse_duration(timeout, "timeout")
    if limit <= 0:
        msg = f'timeout must be positive, got {timeout!r}: write one such as "30 seconds"'
        raise QueryError(msg)
    share = Watched(table.by_address(limit / 1e6), spec, ranks, change, version)

    named = metric_name(metric)

    def transform(df: DataFrame) -> DataFrame:
        return _transformed(df, share, named)

    return transform


@dataclass(frozen=True)
class Watched:
    """A view, as what a bucket answers."""

    table: SqlTable
    spec: ViewSpec
    ranks: bool = False
    change: str = CHANGE
    version: str = VERSION
    engine: str = "view"

    def packer(self, keys: list[int]) -> ViewPacker:
        """What goes before the shuffle."""
        return ViewPacker(self, keys[0])

    def bucket(self, schema: pa.Schema, engine: str, *, early: bool = False) -> ViewBucket:  # noqa: ARG002 - as others
        """What goes behind it."""
        return ViewBucket(self, schema)

    def told(self) -> dict[str, str]:
        """What a state belongs to. The address of the database may change, and so may kmax."""
        spec = self.spec
        said = {"by": spec.by.text, "key": spec.key, "table": self.table.name, "columns": ", ".join(spec.columns)}
        flags = {name: str(getattr(spec, name)) for name in ("k", "ascending", "ordered")}
        return {**said, **flags, "ranks": str(self.ranks)}

    def check(self, schema: pa.Schema) -> None:
        """Raise unless the stream has the columns."""
        for name in (self.spec.key, self.version, *self.spec.columns, *self.spec.by.columns):
            if name not in schema.names:
                why = ""
                if name == self.version:
                    why = " (what orders the changes of a row: a number or a time that grows, named by version=)"
                msg = f"the changes lack the column {name!r}{why}: {nearest(name, schema.names)}"
                raise SchemaError(msg)

    def newest(self, rows: pa.Table) -> pa.Table:
        """Of each key the last version only, by version."""
        ids, version = id_numbers(rows.column(self.spec.key), self.spec.key), rows.column(VERSION).to_numpy()
        order = np.lexsort((version, ids))
        last = np.append(ids[order][1:] != ids[order][:-1], True)[: len(order)]
        places = order[last]
        return rows.take(pa.array(places[np.argsort(version[places], kind="stable")]))


class ViewPacker:
    """Takes the changes of one partition, computes scores and lets the last of each key travel."""

    def __init__(self, share: Watched, key: int) -> None:
        self.share, self.key = share, key
        self.counts = Counts(1)
        self.parts: list[pa.Table] = []

    def add(self, rows: pa.Table) -> None:
        """Take a batch."""
        share = self.share
        rows = in_utc(rows)
        for given, name in ((share.change, CHANGE), (share.version, VERSION)):
            if given != name and given in rows.column_names:
                rows = rows.append_column(name, rows.column(given))
        if rows.column(VERSION).null_count:
            msg = f"version={share.version!r} is NULL in a change, so its place in the order is unknown: fill it in"
            raise SchemaError(msg)
        batch = share.spec.score(read_changes(rows, share.spec.key))
        none = np.isnan(batch.score) if batch.deleted is None else np.isnan(batch.score) & ~batch.deleted
        nowhere = np.zeros(batch.size, np.int64)
        self.counts.add(np.full(batch.size, NEVER), nowhere, none)
        found = batch.rows.select([share.spec.key, *share.spec.columns])
        found = found.append_column(SCORE, pa.array(batch.score)).append_column(VERSION, pa.array(batch.version))
        self.parts.append(share.newest(found))

    def packed(self) -> Iterator[pa.RecordBatch]:
        """What is left."""
        out = Packed()
        for bucket in self.counts.buckets():
            out.add(self.key, self.counts.table(bucket), self.share.newest(pa.concat_tables(self.parts)))
        yield from out.batches()


class ViewBucket:
    """The view itself: takes packed changes, gives its own. Knows nothing of Spark."""

    timed = False

    def __init__(self, share: Watched, schema: pa.Schema) -> None:
        self.share, self.schema, self.engine = share, schema, share.engine
        self.refills = RefillController(ViewRows(share.spec, types=schema), RefillWorker(share.table, share.spec))
        self.last_list: pa.Table | None = None
        self.step = 0
        self.counts = dict.fromkeys(_COUNTED, 0)

    @property
    def kept(self) -> int:
        """How many rows are kept."""
        return self.refills.rows.index.size

    def take(self, packed: Mapping[str, Any], watermark: int) -> pa.Table:  # noqa: ARG002 - as others
        """Changes as they were packed; what they change in the list."""
        parts = []
        for counts, blob in zip(packed["counts"], packed["blob"], strict=True):
            Counts.read(unwrite(counts), 0, self.counts)
            if blob:
                parts.append(unwrite(blob))
        refills, rows = self.refills, self.refills.rows
        if not rows.complete:
            refills.refill()  # at the start, and after one that failed
        before = refills.stats.stale
        if parts:
            changes = self.share.newest(pa.concat_tables(parts).unify_dictionaries())
            version, score = (changes.column(name).to_numpy() for name in (VERSION, SCORE))
            refills.apply(rows.prepare(ChangeBatch(changes, None, version, score)))
        self.counts["stale"] += refills.stats.stale - before
        self.counts["refills"] += refills.stats.refills
        self.counts["failed_refills"] += refills.stats.failed_refills
        self.counts["incomplete"] = int(not rows.complete)
        return self._told()

    def _told(self) -> pa.Table:
        rows, before = self.refills.rows, self.last_list
        self.last_list = rows.read()
        found = diff_lists(before, self.last_list, self.share.spec.key, ranks=self.share.ranks)
        size = found.num_rows
        found = found.add_column(0, "step", pa.array(np.full(size, self.step)))
        self.step += bool(size)
        return found.append_column("complete", pa.array(np.full(size, rows.complete)))

    def finish(self, newest: int) -> pa.Table:
        """No more changes will come: all has been told."""
        del newest
        return self._told()

    def save(self) -> Saved:
        """All there is to remember."""
        return {**snapshot_view(self.refills), "told": self.refills.rows.read(), "step": np.array([self.step])}

    def load(self, saved: Saved) -> None:
        """Go on where another one stood."""
        options = {"kmax": self.share.spec.kmax, "ordered": self.share.spec.ordered}
        self.refills, _ = restore_view(self.share.table, saved, options)
        self.last_list = cast("pa.Table", saved["told"])
        self.step = int(saved["step"][0])

    def next_end(self) -> int | None:
        """Nothing happens without changes."""
        return None

    def alive(self) -> bool:
        """A view is always remembered."""
        return True


def _transformed(df: DataFrame, share: Watched, metric: str) -> DataFrame:
    from skyband.spark.emit import check_case, source_schema

    suit(df.sparkSession)
    schema = source_schema(df.schema)
    share.check(schema)
    spec = share.spec
    needed = dict.fromkeys([spec.key, share.version, *spec.columns, *spec.by.columns])
    names = [*needed, *([share.change] if share.change in schema.names else [])]
    bucket = bucket_keys(1)
    packed = map_rows(df.select([column(name) for name in names]), _packing(share, bucket))
    kept = pa.schema([schema.field(name) for name in (spec.key, *spec.columns)])
    out = _result_type(df.schema, share)
    check_case(df.sparkSession, out)
    if not df.isStreaming:
        return packed.groupBy("bucket").applyInArrow(_answering(share, kept), out)
    from skyband.spark.operator import Operator

    operator = Operator(
        dict.fromkeys(bucket, share),
        kept,
        dict.fromkeys(bucket, share.told()),
        early=False,
        counted=(*_COUNTED, "candidates", "state_bytes"),
    )
    return stateful(packed, operator, "none", metric, out)


def _packing(share: Watched, keys: list[int]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        packer = share.packer(keys)
        for some in gathered(batches):
            packer.add(some)
        yield from packer.packed()

    return pack


def _answering(share: Watched, schema: pa.Schema) -> Callable[[pa.Table], pa.Table]:
    def answer(packed: pa.Table) -> pa.Table:
        return share.bucket(schema, share.engine).take(packed.to_pydict(), 0)

    return answer


def _result_type(schema: StructType, share: Watched) -> StructType:
    from pyspark.sql.types import BooleanType, DoubleType, IntegerType, LongType, StringType, StructField, StructType

    own = (share.spec.key, *share.spec.columns)
    return StructType(
        [
            StructField("step", LongType()),
            StructField(CHANGE, StringType()),
            StructField("rank", IntegerType()),
            StructField("score", DoubleType()),
            *(StructField(name, schema[name].dataType) for name in own),
            StructField("complete", BooleanType()),
        ]
    )
