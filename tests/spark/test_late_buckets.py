"""Buckets that take rows of closed panes as long as a window that holds them is open, without a JVM."""

from bucketed import packed
from hypothesis import given

from late_rules import SCHEMA, Rules, batches, found_in, planned, table, tie, workloads
from skyband.runtime.snapshot import dump, read
from skyband.spark.bucket import Bucket
from skyband.windows import MIN_TIME

KEYS = (0, 1, 2)  # of buckets


@given(workloads(), batches())
def test_buckets_take_rows_of_closed_panes(queries, stream):
    """Rows are judged by the watermark of the batch before, as Spark judges them."""
    (spec, *rest) = planned(queries)
    assert not rest
    keys = KEYS if queries[0].per else KEYS[:1]
    states, out, counters = dict.fromkeys(keys), [], {"late_rows": 0, "without_score": 0}
    watermark = MIN_TIME
    rules = None
    for drawn, told in [*stream, ([], None)]:
        # of rows that agree in time and tie, their values decide, not their order
        rows = [row | {"tie": tie(row["n"]), "i": None if row["n"] == 2 else tie(row["n"])} for row in drawn]
        watermark = max(watermark, -100 if told is None else told)
        rules = rules or Rules(queries, 0, watermark)
        rules.add(rows, watermark)
        blobs = packed(spec, table(rows, ties=queries[0].id is None), keys=keys)
        for key in keys:
            bucket = Bucket(spec, SCHEMA)
            if states[key] is not None:
                bucket.restore(read(states[key])[1])
            out.append(bucket.advance(blobs[key], watermark))
            for name in counters:
                counters[name] += bucket.counters[name]
            states[key] = dump(bucket.snapshot(), {})
    for key in keys:
        bucket = Bucket(spec, SCHEMA)
        bucket.restore(read(states[key])[1])
        out.append(bucket.finish(rules.newest))
    assert found_in(out, queries, len(queries) > 1) == rules.emitted(queries[0].emit)
    assert counters == {"late_rows": rules.late_rows, "without_score": rules.without_score}
