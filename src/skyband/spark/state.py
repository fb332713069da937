"""What a state belongs to, and whether it fits the query that finds it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skyband.errors import SnapshotError
from skyband.runtime.snapshot import fingerprint as query_fingerprint
from skyband.runtime.snapshot import fingerprint_changes, header_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from skyband.query import TopK
    from skyband.runtime.protocols import Snapshot

CHUNK = 4 << 20
"""Bytes of a chunk; only chunks that have changed are written."""


def fingerprint(query: TopK, buckets: int, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return what a state belongs to: everything that, changed, would make its answers wrong.

    Examples
    --------
    >>> import skyband as sb
    >>> fingerprint(sb.TopK(k=3, by="x", window=sb.Counting(10)), 1)["buckets"]
    '1'
    """
    return query_fingerprint(query, {"buckets": str(buckets), **(more or {})})


def check(header: Mapping[str, Any], expected: Mapping[str, str]) -> None:
    """Raise unless a state was written by this query."""
    changed = fingerprint_changes(header["query"], expected)
    if changed:
        msg = (
            f"the checkpoint was written by another query: {'; '.join(changed.values())}. Start the changed query with "
            f"a new checkpoint location, or go back to the query as it was"
        )
        if "k" in changed:
            msg += ". To change k and keep the checkpoint, start with sb.Workload([query], max_k=..., finest=...)"
        raise SnapshotError(msg)


_HEADER = 1 << 20  # bytes of a state that are sure to contain its header


def check_checkpoint(spark: SparkSession, where: str, identity: Mapping[int, Mapping[str, str]]) -> None:
    """Raise if the state in a checkpoint was written by another query; pass if there is none that can be read."""
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own way

    start = F.substring("user_map_value.blob", 1, _HEADER).alias("start")
    try:
        about = spark.read.format("state-metadata").load(where).filter("operatorId = 0").first()
        state = spark.read.format("statestore").option("path", where).option("stateVarName", "chunks").load()
        found = state.filter("user_map_key.number = 0").select("partition_id", "key.bucket", start).collect()
    except PySparkException:  # no batch is done, or the state is not ours: the stream says what is wrong
        return
    numbers = {key: number for number, key in enumerate(identity)}
    for row in found:
        if row["bucket"] in identity:
            header = header_of(bytes(row["start"]))
            check(header, identity[row["bucket"]])
            check_bucket(header, numbers[row["bucket"]])
            if about is not None:
                check_place(numbers[row["bucket"]], row["partition_id"], about["numPartitions"])


_MISPLACED = "restore the checkpoint folder from a copy, or start with a new one and let the source be read again"


def check_bucket(header: Mapping[str, Any], bucket: int) -> None:
    """Raise unless a state was written for this bucket. States written before the number was stored have none."""
    was = header.get("bucket", bucket)
    if was != bucket:
        raise SnapshotError(f"the state of bucket {bucket} must be its own, got that of bucket {was}: {_MISPLACED}")


class Partition:
    """The partition of the state that a task works on, which must be that of the buckets whose state it finds.

    Spark sends rows of a bucket to the partition of its number. The state of another bucket is there only if folders of
    the checkpoint were exchanged. Spark does not tell the number of the partition but that of the task, which is the
    same unless a union follows behind the operator. So a bucket notes whether it was the same when rows came.
    """

    def __init__(self) -> None:
        from pyspark import TaskContext

        context = TaskContext.get()
        partitions = None if context is None else context.getLocalProperty("spark.sql.shuffle.partitions")
        self.partitions = None if partitions is None else int(partitions)
        self.task = 0 if context is None else context.partitionId()
        self.number: int | None = None  # known once rows have come

    def as_task(self, bucket: int) -> bool:
        """Return whether the task has the number that the partition of a bucket has."""
        return self.partitions is None or (self.task - bucket) % self.partitions == 0

    def take_rows(self, bucket: int) -> None:
        """Learn from rows of a bucket which partition this is."""
        self.number = None if self.partitions is None else bucket % self.partitions

    def check(self, bucket: int, header: Mapping[str, Any]) -> None:
        """Raise unless the state of a bucket belongs here."""
        if self.partitions is None:
            return
        here = self.number
        if here is None and header.get("as_task", False):
            here = self.task % self.partitions
        if here is not None:
            check_place(bucket, here, self.partitions)


def check_place(bucket: int, partition: int, partitions: int) -> None:
    """Raise unless a partition is that of a bucket: the hash of its key is its number."""
    place = bucket % partitions
    if partition != place:
        raise SnapshotError(
            f"the state of bucket {bucket} must be in partition {place} of {partitions}, got partition {partition}: "
            f"{_MISPLACED}"
        )


def with_new_columns(saved: Snapshot, was: pa.Schema, now: pa.Schema, *, stored: bool) -> Snapshot:
    """Return a state whose rows, if it has `stored` any, have the columns of `now`.

    Added columns are NULL, any other change is refused.
    """
    if was.names == now.names and was.types == now.types:
        return saved
    for field in was:
        there = now.field(field.name).type if field.name in now.names else None
        if there != field.type:
            what = "is gone" if there is None else f"is now {there}"
            raise SnapshotError(
                f"the source has changed: column {field.name!r} was {field.type} and {what}. Columns may be added: "
                f"start with a new checkpoint location, or give the source its old schema"
            )
    rows = saved.get("rows")
    if not stored or not isinstance(rows, pa.Table):
        return saved
    for field in now:
        if field.name not in was.names:
            rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
    return {**saved, "rows": rows.select([name for name in now.names if name in rows.column_names])}


def chunks(blob: bytes) -> list[bytes]:
    """Return the bytes in pieces that a state store takes well."""
    return [blob[at : at + CHUNK] for at in range(0, len(blob), CHUNK)]
