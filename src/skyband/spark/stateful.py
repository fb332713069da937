"""The one stateful step: a bucket for each key, its state in chunks, a timer for its next window.

At every start of a stream Spark runs a Python process of its own that opens the state and ends. So this module imports
little: what that costs, each start waits for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.serializers import CPickleSerializer
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from skyband.runtime.snapshot import FORMAT, dump, read, unwrite, write
from skyband.spark.state import Partition, check, check_bucket, chunks, with_new_columns
from skyband.windows import MIN_TIME, check_watermark

if TYPE_CHECKING:
    from skyband.runtime.protocols import OperatorSpec
    from skyband.spark.bucket import Bucket

_PICKLE: Any = CPickleSerializer()  # as Spark sends the processor
COUNTERS = ("rows", "without_score", "without_time", "late_rows", "candidates", "state_bytes")
"""What every bucket counts at each trigger."""


class BucketProcessor(StatefulProcessor):
    """Buckets on `transformWithStateInPandas`.

    Parameters
    ----------
    specs
        The operator of each bucket, by its key.
    schema
        The columns of the source.
    fingerprints
        What the state of each bucket belongs to, by its key.
    counters
        The names of the counters that go out with the results.
    event_time
        The result column that is the event time of the output; None: it has none.
    early
        Provisional results too.
    """

    def __init__(
        self,
        specs: Mapping[int, OperatorSpec],
        schema: pa.Schema,
        fingerprints: Mapping[int, Mapping[str, str]],
        *,
        counters: Sequence[str] = COUNTERS,
        event_time: str | None = None,
        early: bool = False,
    ) -> None:
        self.specs, self.schema, self.early = dict(specs), schema, early
        self.fingerprints = {key: dict(fingerprint) for key, fingerprint in fingerprints.items()}
        self.counters, self.event_time = tuple(counters), event_time
        self.numbers = {key: number for number, key in enumerate(self.specs)}
        order = list(dict.fromkeys(id(spec) for spec in self.specs.values()))
        self.operators = {key: order.index(id(spec)) for key, spec in self.specs.items()}

    def __getstate__(self) -> bytes:
        """Pickle all but the class as bytes of their own: who only opens the state need not load engines."""
        return _PICKLE.dumps(self.__dict__)

    def __setstate__(self, sealed: bytes) -> None:
        self.__dict__["_sealed"] = sealed

    def __getattr__(self, name: str) -> Any:
        """Load what a task needs once it needs it."""
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
        """Take rows of a bucket."""
        frames = list(rows)
        packed = pd.concat(frames) if len(frames) > 1 else frames[0]
        columns = {name: packed[name].tolist() for name in packed.columns}
        yield from self._advance(int(key[0]), columns, timerValues)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:  # noqa: ARG002, N802, N803
        """Close windows of a bucket to which no rows came."""
        yield from self._advance(int(key[0]), None, timerValues)

    def close(self) -> None:
        """Nothing is open."""

    def _advance(self, key: int, packed: Mapping[str, Any] | None, timer: Any) -> Iterator[pd.DataFrame]:
        if packed is not None:
            self.partition.take_rows(self.numbers[key])
        millis = timer.getCurrentWatermarkInMs()
        watermark = check_watermark(millis * 1000, f"{millis} ms") if millis > 0 else MIN_TIME
        old = self._stored()
        header, bucket = self._open(key, old)
        result = bucket.advance(packed or _NO_ROWS, watermark)
        as_task = header.get("as_task")
        if packed is not None:  # once it was not, it may be any
            as_task = as_task is not False and self.partition.as_task(self.numbers[key])
        size = self._store(bucket, old, key, as_task=as_task)
        self._set_timer(bucket)
        yield self._output(key, bucket, result, size)

    def _output(self, key: int, bucket: Bucket, result: pa.Table, size: int) -> pd.DataFrame:
        """Return the results, a row for each event time, and the counters in the first row."""
        parts, moments = [result] if result.num_rows else [], None
        if self.event_time is not None:
            parts, moments = _by_moment(result, self.event_time)
        blobs: list[bytes | None] = [write(part) for part in parts]
        blobs = blobs or [None]
        counts = {**bucket.counters, "state_bytes": size}
        rest = len(blobs) - 1
        columns: dict[Any, Any] = {} if moments is None else {self.event_time: moments}
        columns |= {"blob": blobs, "operator": [self.operators[key]] * len(blobs)}
        columns |= {name: [counts.get(name, 0), *([0] * rest)] for name in self.counters}
        columns["notice"] = pd.array([bucket.notice, *([None] * rest)], "string")
        return pd.DataFrame(columns)

    def _open(self, key: int, old: list[bytes]) -> tuple[dict[str, Any], Bucket]:
        from skyband.spark.bucket import Bucket

        spec = self.specs[key]
        if not old:
            return {}, Bucket(spec, self.schema, early=self.early)
        header, saved = read(b"".join(old))
        check_bucket(header, self.numbers[key])
        self.partition.check(self.numbers[key], header)
        check(header, self.fingerprints[key])
        before = unwrite(saved.pop("schema")["v"][0].as_py()).schema
        if header["format"] < FORMAT:
            from skyband.runtime.legacy import upgrade

            saved = upgrade(saved, header["engine"], spec)
        bucket = Bucket(spec.with_engine(header["engine"]), self.schema, early=self.early)
        bucket.restore(with_new_columns(saved, before, self.schema, stored=spec.ordered))
        return header, bucket

    def _stored(self) -> list[bytes]:
        found = {int(key[0]): bytes(value[0]) for key, value in self.state.iterator()}
        return [found[number] for number in sorted(found)]

    def _store(self, bucket: Bucket, old: list[bytes], key: int, *, as_task: bool | None) -> int:
        """Write the chunks that have changed; return the size of all. A bucket without anything to keep has none."""
        new: list[bytes] = []
        if not bucket.is_idle():
            saved = bucket.snapshot()
            saved["schema"] = pa.table({"v": pa.array([write(bucket.schema.empty_table())], pa.binary())})
            header = {"engine": bucket.spec.engine, "query": self.fingerprints[key], "bucket": self.numbers[key]}
            new = chunks(dump(saved, {**header, "as_task": as_task}))
        for number, chunk in enumerate(new):
            if number >= len(old) or old[number] != chunk:
                self.state.updateValue((number,), (chunk,))
        for number in range(len(new), len(old)):
            self.state.removeKey((number,))
        return sum(map(len, new))

    def _set_timer(self, bucket: Bucket) -> None:
        if not bucket.spec.event_time:  # Spark fails if timers are used without a time mode
            return
        for timer in list(self.handle.listTimers()):
            self.handle.deleteTimer(timer)
        timer = bucket.next_timer()
        if timer is not None:
            self.handle.registerTimer(timer)


def _by_moment(result: pa.Table, name: str) -> tuple[list[pa.Table], pd.Series]:
    """Return results in pieces of one event time each, and these; at least one, which may be missing."""
    ends = result.column(name).cast(pa.int64()).to_numpy()
    starts = np.flatnonzero(np.r_[True, np.diff(ends) != 0])[: len(ends)]
    stops = np.append(starts[1:], len(ends))
    moments = ends[starts].astype("datetime64[us]") if len(starts) else np.array(["NaT"], "datetime64[us]")
    parts = [result.slice(low, high - low) for low, high in zip(starts.tolist(), stops.tolist(), strict=False)]
    return (parts if len(starts) else []), pd.Series(moments).dt.tz_localize("UTC")


_NO_ROWS: dict[str, list[Any]] = {"input": [], "counts": [], "blob": []}
