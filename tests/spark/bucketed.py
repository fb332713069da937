"""Buckets without a JVM: rows packed as in a task, restored and stored between every two batches."""

import pyarrow as pa
import pyarrow.compute as pc

from skyband.runtime.snapshot import dump, read
from skyband.spark.bucket import Bucket
from skyband.spark.pack import packer
from skyband.windows import MIN_TIME

INPUTS = ("input", "counts", "blob")


def packed(spec, *parts, keys=(0,)):
    """The rows of tasks, packed for buckets of an operator: as columns by bucket."""
    found = {key: {name: [] for name in INPUTS} for key in keys}
    for part in parts:
        for batch in packer([spec], [list(keys)])(iter(part.to_batches())):
            for row in batch.to_pylist():
                for name in INPUTS:
                    found[row["bucket"]][name].append(row[name])
    return found


def streamed(spec, batches, late, changes=()):
    """All results of a bucket over batches, each of two tasks; and its counters. `changes` come packed."""
    results, counters, state = [], {}, None
    newest = watermark = MIN_TIME
    for batch in [*batches, None, None]:
        bucket = Bucket(spec, batches[0].schema)
        if state is not None:
            bucket.restore(read(state)[1])
        half = 0 if batch is None else batch.num_rows // 2
        parts = [] if batch is None else [batch.slice(0, half), batch.slice(half)]
        rows = packed(spec, *parts)[0]
        for found in changes if state is None else ():
            for name in INPUTS:
                rows[name].extend(found.to_pydict()[name])
        results.append(bucket.advance(rows, watermark))
        state = dump(bucket.snapshot(), {})
        for name, count in bucket.counters.items():
            counters[name] = counters.get(name, 0) + count
        if batch is not None and batch.num_rows:
            newest = max(newest, pc.max(batch["ts"]).cast(pa.int64()).as_py())
        watermark = newest - late * 1_000_000
    return pa.concat_tables(results), counters
