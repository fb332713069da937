"""Run one small stream, so that all later ones start quickly: modules compiled, Java's classes in an archive.

Every Python that Spark starts imports pyspark from a zip file without compiled modules, and compiles them anew, for
a second or more: the environment's zip files get them. Java loads some 15,000 classes before Spark's first batch;
from an archive that takes a third of the time. The archive lies in the environment as `spark.jsa`, where
`skyband.spark.session` finds it. A Java that cannot write one is no worse off than before.
"""

import importlib.util
import marshal
import os
import sys
import tempfile
import zipfile
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from typing import Any

ARCHIVE = Path(sys.prefix) / "spark.jsa"


def compiled(path: Path) -> None:
    """Put the compiled form of every module of a zip file beside it, in a new file: the old one may be shared."""
    with zipfile.ZipFile(path) as old:
        names = old.namelist()
        if any(name.endswith(".pyc") for name in names):
            return
        new = path.with_suffix(".new")
        with zipfile.ZipFile(new, "w") as made:
            for name in names:
                text = old.read(name)
                made.writestr(old.getinfo(name), text, zipfile.ZIP_DEFLATED)
                if name.endswith(".py") and "/tests/" not in name:
                    code = marshal.dumps(compile(text, name, "exec", dont_inherit=True))
                    unchecked = (1).to_bytes(4, "little")  # by hash, and never compared with the text
                    made.writestr(f"{name}c", MAGIC_NUMBER + unchecked + bytes(8) + code, zipfile.ZIP_STORED)
    new.replace(path)


def main() -> None:
    """Read three files as a stream, keep the best rows of each window, leave the archive."""
    spark_home = Path(str(importlib.util.find_spec("pyspark").origin)).parent  # type: ignore[union-attr]
    for path in sorted((spark_home / "python" / "lib").glob("*.zip")):
        compiled(path)
    ARCHIVE.unlink(missing_ok=True)
    os.environ["SPARK_SUBMIT_OPTS"] = f"-XX:ArchiveClassesAtExit={ARCHIVE} -Xlog:disable"
    import pyarrow as pa
    import pyarrow.parquet as pq

    import skyband as sb
    from skyband.spark import top_k
    from skyband.spark.session import session
    from skyband_lab.bench.workloads import trade_table

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
