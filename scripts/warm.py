"""Run one small stream, so that all later ones start quickly: kernels compiled, Java's classes in an archive.

Java loads some 15,000 classes before Spark's first batch; from an archive that takes a third of the time. The
archive lies in the environment as `spark.jsa`, where `skyband.spark.session` finds it. A Java that cannot write
one is no worse off than before.
"""

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

ARCHIVE = Path(sys.prefix) / "spark.jsa"


def main() -> None:
    """Read three files as a stream, keep the best rows of each window, leave the archive."""
    ARCHIVE.unlink(missing_ok=True)
    os.environ["SPARK_SUBMIT_OPTS"] = f"-XX:ArchiveClassesAtExit={ARCHIVE} -Xlog:disable"
    import pyarrow as pa
    import pyarrow.parquet as pq

    import skyband as sb
    from skyband.bench.workloads import trade_table
    from skyband.spark import top_k
    from skyband.spark.session import session

    with tempfile.TemporaryDirectory(prefix="skyband-") as folder:
        room = Path(folder)
        (room / "in").mkdir()
        for number in range(3):
            rows = trade_table(3_000, number, 10)
            rows = rows.set_column(0, "ts", rows["ts"].cast(pa.timestamp("us", "UTC")))
            pq.write_table(rows, room / "in" / f"{number}.parquet")
        spark = session("skyband warm", "local[2]", {"spark.sql.warehouse.dir": str(room / "warehouse")})
        source = spark.readStream.schema(spark.read.parquet(str(room / "in")).schema).option("maxFilesPerTrigger", 1)
        query = sb.TopK(k=3, by="price * volume", window=sb.Sliding("10 minutes", "1 minute"), time="ts", per="symbol")
        best = source.parquet(str(room / "in")).withWatermark("ts", "1 minute").transform(top_k(query))
        writer = best.writeStream.format("parquet").option("checkpointLocation", str(room / "checkpoint"))
        writer.option("path", str(room / "out")).trigger(availableNow=True).start().awaitTermination()
        gateway: Any = spark.sparkContext._gateway  # noqa: SLF001 - the only way to see Java end
        spark.stop()
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(120)


if __name__ == "__main__":
    main()
    sys.stdout.write("Spark starts from an archive\n" if ARCHIVE.exists() else "Spark starts without an archive\n")
