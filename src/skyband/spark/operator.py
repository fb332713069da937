"""The one stateful operator: buckets on Spark, their state in chunks, a timer for the next window of each.

At every start of a stream Spark runs a Python process of its own that opens the state and ends. So this module
imports little: what it costs, each start waits for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Union

import pandas as pd
import pyarrow as pa
from pyspark.serializers import CPickleSerializer
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from skyband.runtime.snapshot import dump, read, unwrite, write
from skyband.spark.state import Partition, check, check_bucket, chunks, widened
from skyband.windows.watermark import MIN_TIME, check_watermark

if TYPE_CHECKING:
    from skyband.spark.board import AllTimeBucket, BoardBucket
    from skyband.spark.joined import JoinBucket
    from skyband.spark.maintain import Bucket
    from skyband.spark.share import Share
    from skyband.spark.watched import ViewBucket, Watched

_PICKLE: Any = CPickleSerializer()  # as Spark sends the operator
COUNTED = ("rows", "without_score", "without_time", "late", "candidates", "state_bytes")
"""What a bucket counts at each trigger; a join counts its look-ups too."""


def told_type(counted: Sequence[str]) -> str:
    """What a bucket tells at each trigger: answers as an Arrow blob, whose they are, counts, what became of orders."""
    return ", ".join(["blob binary", "share int", *(f"{name} long" for name in counted), "notice string"])


AnyBucket = Union["Bucket", "BoardBucket", "AllTimeBucket", "JoinBucket", "ViewBucket"]


class Operator(StatefulProcessor):
    """Buckets on `transformWithStateInPandas`."""

    def __init__(
        self,
        shares: Mapping[int, Share] | Mapping[int, Watched],
        schema: pa.Schema,
        identity: Mapping[int, dict[str, str]],
        *,
        early: bool,
        counted: Sequence[str] = COUNTED,
    ) -> None:
        self.shares: dict[int, Any] = dict(shares)
        self.schema, self.identity, self.early = schema, dict(identity), early
        self.counted = tuple(counted)
        self.numbers = {key: number for number, key in enumerate(self.shares)}
        order = list(dict.fromkeys(id(share) for share in self.shares.values()))
        self.places = {key: order.index(id(share)) for key, share in self.shares.items()}  # whose bucket it is

    def __getstate__(self) -> bytes:
        """All but this class as bytes of their own: who only opens the state need not load engines and kernels."""
        return _PICKLE.dumps(self.__dict__)

    def __setstate__(self, sealed: bytes) -> None:
        self.__dict__["_sealed"] = sealed

    def __getattr__(self, name: str) -> Any:
        """What a task needs, once it needs it."""
        sealed = self.__dict__.pop("_sealed", None)
        if sealed is None:
            raise AttributeError(name)
        self.__dict__.update({**_PICKLE.loads(sealed), **self.__dict__})
        return getattr(self, name)

    def init(self, handle: Any) -> None:
        """Open the state."""
        self.handle = handle
        self.partition = Partition()
        self.state = handle.getMapState("chunks", "number int", "blob binary")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        """Rows of a bucket."""
        frames = list(rows)
        packed = pd.concat(frames) if len(frames) > 1 else frames[0]
        columns = {name: packed[name].tolist() for name in packed.columns}
        yield from self._advance(int(key[0]), columns, timerValues)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:  # noqa: ARG002, N802, N803
        """Time has come to where a window of a silent bucket closes."""
        yield from self._advance(int(key[0]), None, timerValues)

    def close(self) -> None:
        """Nothing is open."""

    def _advance(self, key: int, packed: Mapping[str, Any] | None, timer: Any) -> Iterator[pd.DataFrame]:
        if packed is not None:
            self.partition.take_rows(self.numbers[key])
        millis = timer.getCurrentWatermarkInMs()
        watermark = check_watermark(millis * 1000, f"{millis} ms") if millis > 0 else MIN_TIME
        old = self._stored()
        header, bucket = self._bucket(key, old)
        answers = bucket.take(packed or _NOTHING, watermark)
        as_task = header.get("as_task")
        if packed is not None:  # once it was not, it may be any
            as_task = as_task is not False and self.partition.as_task(self.numbers[key])
        size = self._store(bucket, old, key, as_task=as_task)
        self._set_timer(bucket)
        counts = {**bucket.counts, "candidates": bucket.kept, "state_bytes": size}
        yield pd.DataFrame(
            {
                "blob": [write(answers) if answers.num_rows else None],
                "share": [self.places[key]],
                **{name: [counts.get(name, 0)] for name in self.counted},
                "notice": pd.array([getattr(bucket, "notice", None)], "string"),
            }
        )

    def _bucket(self, key: int, old: list[bytes]) -> tuple[dict[str, Any], AnyBucket]:
        share = self.shares[key]
        if not old:
            return {}, share.bucket(self.schema, share.engine, early=self.early)
        header, saved = read(b"".join(old))
        check_bucket(header, self.numbers[key])
        self.partition.check(self.numbers[key], header)
        check(header, self.identity[key])
        was = unwrite(saved.pop("schema")["v"][0].as_py()).schema
        bucket: AnyBucket = share.bucket(self.schema, header["engine"], early=self.early)
        bucket.load(widened(saved, was, self.schema))
        return header, bucket

    def _stored(self) -> list[bytes]:
        found = {int(key[0]): bytes(value[0]) for key, value in self.state.iterator()}
        return [found[number] for number in sorted(found)]

    def _store(self, bucket: AnyBucket, old: list[bytes], key: int, *, as_task: bool | None) -> int:
        """Write the chunks that have changed and return the size of all; a bucket without anything to keep has none."""
        new: list[bytes] = []
        if bucket.alive():
            saved = bucket.save()
            saved["schema"] = pa.table({"v": pa.array([write(bucket.schema.empty_table())], pa.binary())})
            header = {"engine": bucket.engine, "query": self.identity[key], "bucket": self.numbers[key]}
            new = chunks(dump(saved, {**header, "as_task": as_task}))
        for number, chunk in enumerate(new):
            if number >= len(old) or old[number] != chunk:
                self.state.updateValue((number,), (chunk,))
        for number in range(len(new), len(old)):
            self.state.removeKey((number,))
        return sum(map(len, new))

    def _set_timer(self, bucket: AnyBucket) -> None:
        if not bucket.timed:  # no clock, and Spark breaks off the talk if it is asked for timers
            return
        for timer in list(self.handle.listTimers()):
            self.handle.deleteTimer(timer)
        end = bucket.next_end()
        if end is not None:
            self.handle.registerTimer(end)


_NOTHING: dict[str, list[Any]] = {"counts": [], "blob": []}
