"""Commands on Spark: a second source beside the rows, which adds, updates and removes queries."""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING

from skyband.errors import SchemaError
from skyband.runtime.schema import TimeType
from skyband.spark.session import column

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from skyband.query import TopK

COMMAND = "__skyband_command"
"""The column that makes a row a command."""

_FIELDS = ("action", "name", "k", "size", "slide", "origin", "like")


def with_commands(rows: DataFrame, commands: DataFrame) -> DataFrame:
    """Return the rows of a stream together with commands, which add, update and remove queries of a workload.

    Parameters
    ----------
    rows
        What is ranked.
    commands
        Streaming too. Its columns: `action` ("add", "update" or "remove"), `name`, `k`, `size` and `slide` such as
        "10 minutes", optionally `origin` and `like`, the name of a query with the same score and groups (by default the
        first), and the time column of `rows`: the command holds from then on.

    Returns
    -------
    Both as one stream. Set the watermark on it, so that a silent command source holds nothing back.

    Examples
    --------
    >>> import skyband as sb
    >>> def start(trades, commands):
    ...     query = sb.TopK(k=10, by="price", window=sb.Sliding("10 minutes", "1 minute"), time="ts", name="calm")
    ...     workload = sb.Workload([query], max_k=100, finest="10 s")
    ...     both = sb.spark.with_commands(trades, commands).withWatermark("ts", "30 seconds")
    ...     return both.transform(sb.spark.top_k(workload))
    """
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own way

    missing = [name for name in ("action", "name") if name not in commands.columns]
    shared = [name for name in rows.columns if name in commands.columns and name not in _FIELDS]
    if missing or not shared:
        what = f"no {missing[0]!r}" if missing else f"none of {', '.join(rows.columns)}"
        raise SchemaError(
            f"commands must have the columns action, name and the time column of the rows, got {what}: write these, "
            f"and k, size and slide for queries that are added"
        )
    text = F.to_json(F.struct(*[column(name) for name in _FIELDS if name in commands.columns]))
    texts = commands.select(*[column(name) for name in shared], text.alias(COMMAND))
    return rows.unionByName(texts, allowMissingColumns=True)


def controlled(rows: DataFrame, control: DataFrame) -> DataFrame:
    """Deprecated name of `with_commands`.

    Examples
    --------
    >>> import skyband as sb
    >>> sb.spark.controlled.__name__
    'controlled'
    """
    message = "sb.spark.controlled is deprecated: write sb.spark.with_commands"
    warnings.warn(message, DeprecationWarning, stacklevel=2)
    return with_commands(rows, control)


def command_texts(rows: pa.Table, query: TopK) -> tuple[pa.Table, list[str]]:
    """Return the rows without commands, and these as JSON with their time."""
    if COMMAND not in rows.column_names:
        return rows, []
    given = rows.column(COMMAND)
    plain, commands = rows.filter(given.is_null()).drop_columns([COMMAND]), rows.filter(given.is_valid())
    if not commands.num_rows:
        return plain, []
    assert query.time is not None
    kind = TimeType.of(query, commands.schema.field(query.time).type)
    time, missing = kind.micros(commands.column(query.time))
    texts = []
    for at, text in enumerate(commands.column(COMMAND).to_pylist()):
        when = None if missing is not None and missing[at] else int(time[at])
        texts.append(json.dumps({"at": when, **json.loads(text)}, sort_keys=True))
    return plain, texts
