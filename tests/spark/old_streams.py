"""Streams and views with a stored checkpoint: their queries, and how a checkpoint is moved to another folder.

`tests/fixtures/make_checkpoints.py` writes the checkpoints, `test_old_checkpoints.py` resumes from them.
"""

import io
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from streams import collected

import skyband as sb
from joins import join_of
from skyband.tables import Memory

FOLDER = Path(__file__).parents[1] / "fixtures" / "checkpoints"
CONSUMED = 3  # batches of each input before the restart
BATCH = "batch"  # column of a stored input: the micro-batch of the row
LATE = "30 seconds"
COMMAND = ("action", "name", "k", "size", "slide")  # columns of a command
HOPPING = sb.Sliding("2 minutes", "30 seconds")


@dataclass(frozen=True)
class Stream:
    """What runs over the inputs, and what of its answers a later version must repeat."""

    answers: Callable[..., object]
    """From the session, the folder with the inputs and whether the stream is resumed: the DataFrame of its answers."""
    inputs: tuple[str, ...] = ("rows",)
    compared: tuple[str, ...] = ()
    """Columns of the answers; default all."""


def asked(**change):
    return sb.TopK(**{"k": 3, "by": "price * 2", "time": "ts", "id": "id", **change})


def read_stream(spark, folder):
    schema = spark.read.parquet(str(folder)).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))


def timed(query):
    """A `top_k` over rows with a watermark."""

    def answers(spark, folder, resumed):
        del resumed
        rows = read_stream(spark, folder / "rows")
        return rows.withWatermark("ts", LATE).transform(sb.spark.top_k(query))

    return answers


def untimed(query):
    """A `top_k` over rows without a watermark."""

    def answers(spark, folder, resumed):
        del resumed
        return read_stream(spark, folder / "rows").transform(sb.spark.top_k(query))

    return answers


def near():
    by = [sb.distance(["price", "volume"], to=(at, 2 * at)) for at in range(5)]
    return [asked(k=1 + at % 3, by=by[at], window=sb.Sliding("60 s", "row"), emit="arrivals") for at in range(5)]


def commanded(spark, folder, resumed):
    del resumed
    both = read_stream(spark, folder / "rows")
    rows, commands = both.filter("action IS NULL").drop(*COMMAND), both.filter("action IS NOT NULL")
    both = sb.spark.with_commands(rows, commands.select("ts", *COMMAND)).withWatermark("ts", LATE)
    queries = [asked(window=HOPPING, name="calm"), asked(window=sb.Tumbling("1 minute"), per="symbol", name="each")]
    return both.transform(sb.spark.top_k(sb.Workload(queries, max_k=5, finest="10 s")))


def joined(table, **change):
    options = {"on": "user", "columns": {"followers": "double"}, "budget": 50, "deadline": "1 minute", "spare": 9}
    return asked(by="price + followers", window=HOPPING, join=join_of(table, **{**options, **change}))


def followers(factor=1.0):
    return Memory({"user": [f"u{u}" for u in range(12)], "followers": [factor * u for u in range(12)]}, key="user")


def pulled(spark, folder, resumed):
    """After the restart the table has other values and is not asked: the values in the checkpoint must serve."""
    query = joined(followers(-1.0), policy="never") if resumed else joined(followers(), policy="top")
    return timed(query)(spark, folder, resumed)


def pushed(spark, folder, resumed):
    changes = read_stream(spark, folder / "changes").withWatermark("ts", LATE)
    return timed(joined(None, changes=changes))(spark, folder, resumed)


def viewed(spark, folder, resumed):
    """The table is as new as the newest change in the input folder."""
    del resumed
    rows = pq.read_table(folder / "table.parquet")
    (folder / "shop.db").unlink(missing_ok=True)
    with sb.tables.open_table(f"sqlite:///{folder}/shop.db", "stock", key="id", rows=rows) as table:
        step = sb.spark.view(table, 5, "x", kmax=6, columns=["note"])
    return read_stream(spark, folder / "rows").transform(step)


# the number of look-ups, and what is said of the age of a value, may change
_LISTED = ("window_start", "window_end", "rank", "score", "id", "user", "followers")
STREAMS = {
    "single": Stream(timed(asked(window=HOPPING, per="symbol"))),
    "changes": Stream(timed(asked(window=HOPPING, emit="changes", ranks=True))),
    "per-row": Stream(timed(asked(window=sb.Sliding("20 s", "row"), per="symbol", k=2))),
    "counting": Stream(untimed(asked(window=sb.Counting(30, 10), per="symbol"))),
    "counting-without-id": Stream(untimed(sb.TopK(k=3, by="x", window=sb.Counting(20, 10)))),
    "workload": Stream(
        timed(
            [
                asked(window=HOPPING, name="hopping"),
                asked(window=sb.Sliding("100 seconds", "20 seconds"), k=2, name="short"),
                asked(window=sb.Tumbling("1 minute"), per=["symbol"], name="each"),
            ]
        )
    ),
    "workload-points": Stream(timed(near())),
    "workload-commands": Stream(commanded),
    "leaderboard": Stream(timed(sb.TopK(k=2, of="symbol", by="sum(volume)", window=HOPPING, time="ts"))),
    "leaderboard-all-time": Stream(
        untimed(sb.TopK(k=2, of="volume", by="sum(price)", per="symbol", emit="changes")),
    ),
    "join-pulled": Stream(pulled, compared=_LISTED),
    "join-pushed": Stream(pushed, inputs=("rows", "changes"), compared=_LISTED),
    "view": Stream(viewed),
}
VIEWS = {
    "view-save": {"kmax": "adaptive", "ordered": True},
    "view-save-unordered": {"kmax": 8, "ordered": False},
}


def run(spark, kind, folder, *, resumed):
    """The answers of a stream, up to what is in its input folders."""
    return collected(STREAMS[kind].answers(spark, folder, resumed), folder / "checkpoint")


def stored_batches(kind, name="rows"):
    """The batches of a stored input."""
    rows = pq.read_table(FOLDER / kind / f"{name}.parquet")
    bounds = np.flatnonzero(np.r_[True, np.diff(rows[BATCH].to_numpy()) != 0, True])
    return [rows.slice(a, b - a).drop_columns([BATCH]) for a, b in zip(bounds[:-1], bounds[1:], strict=True)]


def pack(folder, packed):
    """Write the checkpoint in `folder` as one compressed file, without paths of this machine."""
    root = folder / "checkpoint"
    with tarfile.open(packed, mode="w:gz", compresslevel=9) as tar:
        for path in sorted(root.rglob("*")):
            if path.is_dir() or path.suffix == ".crc":  # checksums of Hadoop's, of the paths as they were
                continue
            data = path.read_bytes().replace(str(folder).encode(), b"{folder}")
            entry = tarfile.TarInfo(str(path.relative_to(root)))
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))


def unpack(packed, folder):
    """Restore a packed checkpoint beside the inputs in `folder`."""
    with tarfile.open(packed) as tar:
        for entry in tar:
            path = folder / "checkpoint" / entry.name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(tar.extractfile(entry).read().replace(b"{folder}", str(folder).encode()))


def make_changes(table, changes):
    """Change the rows of a table in a database."""
    import sqlalchemy as sa

    rows = table.table
    with table.engine.begin() as connection:
        for row in changes.to_pylist():
            there, values = rows.c.id == row["id"], {name: row[name] for name in ("id", "x", "note")}
            if row["_change_type"] == "delete":
                connection.execute(sa.delete(rows).where(there))
            elif not connection.execute(sa.update(rows).where(there).values(**values)).rowcount:
                connection.execute(sa.insert(rows).values(**values))
