"""Run a streaming query over batches, each a file of its own, and collect what it says."""

import os

import pyarrow as pa
import pyarrow.parquet as pq


def write_batches(folder, batches, first=0):
    """One Parquet file for each batch; their times of change keep them in order."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, batch in enumerate(batches, first):
        path = folder / f"{number:05d}.parquet"
        pq.write_table(batch, path)
        os.utime(path, (1_700_000_000 + number,) * 2)


def answers(spark, folder, step, *, watermark=None, checkpoint=None, schema=None, time="ts", out=None):
    """All rows that `step` gives over the files of `folder`, one file a batch; and the progress reports."""
    checkpoint = checkpoint or folder.parent / "checkpoint"
    schema = schema or spark.read.parquet(str(folder)).schema
    df = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))
    if watermark is not None:
        df = df.withWatermark(time, watermark)
    progress = []
    return collected(df.transform(step), checkpoint, out, progress), progress


def collected(df, checkpoint, out=None, progress=None):
    """All rows of a stream, up to what is there now."""
    found = {}

    def collect(batch, number):
        found[number] = batch.toArrow()

    query = (
        df.writeStream.foreachBatch(out or collect)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    if progress is not None:
        progress += query.recentProgress
    tables = [found[number] for number in sorted(found)]
    return pa.concat_tables(tables) if tables else None


def counted(progress, name="skyband"):
    """The observed counts of all batches, added up."""
    total = {}
    for report in progress:
        row = report["observedMetrics"].get(name)
        for key, value in (row.asDict() if row is not None else {}).items():
            total[key] = total.get(key, 0) + (value or 0)
    return total
