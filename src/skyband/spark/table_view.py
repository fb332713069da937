"""sb.spark.view: a stream of changes of a table in, the changes of its k best rows out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skyband.operators.table_view import TableViewSpec
from skyband.query.duration import parse_duration
from skyband.query.validation import check_flag, invalid
from skyband.spark.buckets import bucket_keys
from skyband.spark.pack import map_rows, packer
from skyband.spark.session import column, configure_session
from skyband.spark.transform import answer_batch, check_version, metric_name, stateful
from skyband.tables.protocol import CHANGE, VERSION
from skyband.tables.sql import SqlTable, open_table
from skyband.view.spec import ViewSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from skyband.query.expression import Expression
    from skyband.view.policy import KmaxName, KmaxPolicy


def view(  # noqa: PLR0913 - all that can be said of a view
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
    """Return the k best rows of a database table, from a stream of its changes: for `df.transform(...)`.

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
            raise invalid(
                "name and key", "be given with the address of a database", (name, key), 'name="stock", key="id"'
            )
        with open_table(table, name, key=key) as there:
            return view(
                there, k, by, kmax=kmax, columns=columns, ascending=ascending, ordered=ordered, ranks=ranks,
                change=change, version=version, timeout=timeout, metric=metric,
            )  # fmt: skip
    if not isinstance(table, SqlTable):
        raise invalid("table", "be a table of a database or its address", str(table)[:60], "sb.tables.open_table(...)")
    options: dict[str, Any] = {"k": k, "by": by, "kmax": kmax, "columns": columns, "ascending": ascending}
    spec = ViewSpec(table.key, ordered=ordered, **options)
    check_flag("ranks", ranks)
    for field, text in (("change", change), ("version", version)):
        if not isinstance(text, str) or not text:
            raise invalid(field, "be the name of a column", text)
    if table.is_open:
        table.ranked(spec.by, spec.columns)  # its columns are there
    limit = parse_duration(timeout, "timeout", least=1)
    planned = TableViewSpec(table.by_address(limit / 1e6), spec, ranks, change, version)
    name_of_metric = metric_name(metric)

    def transform(df: DataFrame) -> DataFrame:
        return _transform(df, planned, name_of_metric)

    return transform


def _transform(df: DataFrame, spec: TableViewSpec, metric: str) -> DataFrame:
    from skyband.spark.schema import check_case, result_schema, source_schema

    configure_session(df.sparkSession)
    schema = source_schema(df.schema)
    keys = bucket_keys(1)
    rows = df.select([column(name) for name in spec.check_changes(schema)])
    packed = map_rows(rows, packer([spec], [keys]))
    stored = pa.schema([schema.field(name) for name in spec.names])
    out = result_schema(spec.result(), df.schema)
    check_case(df.sparkSession, out)
    if not df.isStreaming:
        return packed.groupBy("bucket").applyInArrow(answer_batch(dict.fromkeys(keys, spec), stored), out)
    from skyband.spark.stateful import COUNTERS, BucketProcessor

    processor = BucketProcessor(
        dict.fromkeys(keys, spec),
        stored,
        dict.fromkeys(keys, spec.fingerprint()),
        counters=(*COUNTERS, *spec.own_counters),
    )
    return stateful(packed, processor, metric, out, timed=False)
