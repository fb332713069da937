"""A view on Spark: changes in, the changes of the list out, refills from a real database, restarts, failures."""

import math
import random
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from bucketed import packed
from streams import answers, collected, counted, write_batches

import skyband as sb
from servers import postgres_server
from skyband.errors import SnapshotError
from skyband.operators.table_view import TableViewSpec
from skyband.runtime.snapshot import dump, read
from skyband.spark.bucket import Bucket
from skyband.spark.state import check
from skyband.view.spec import ViewSpec

sa = pytest.importorskip("sqlalchemy")

SCHEMA = pa.schema(
    {"id": pa.int32(), "x": pa.float64(), "note": pa.string(), "_change_type": pa.string(), "_version": pa.int64()}
)
ROWS = 60


def start():
    return {"id": list(range(ROWS)), "x": [float(i % 40) for i in range(ROWS)], "note": [f"n{i}" for i in range(ROWS)]}


class Shop:
    """A table that changes, and the stream that tells of it."""

    def __init__(self, table, seed):
        self.table, self.rng, self.version = table, random.Random(seed), 0

    def change(self, changes):
        """So many changes, each in the table and as a row of a batch."""
        told = []
        t = self.table.table
        with self.table.engine.begin() as connection:
            for _ in range(changes):
                i, x = self.rng.randrange(ROWS), float(self.rng.randrange(45))
                self.version += 1
                connection.execute(sa.delete(t).where(t.c.id == i))
                gone = self.rng.random() < 0.3
                note = f"v{self.version}"
                if not gone:
                    connection.execute(sa.insert(t).values(id=i, x=x, note=note))
                told.append(
                    (i, None if gone else x, None if gone else note, "delete" if gone else "update", self.version)
                )
        self.rng.shuffle(told)  # within a batch the version decides
        return pa.table(
            [pa.array(c, f.type) for c, f in zip(zip(*told, strict=True), SCHEMA, strict=True)], schema=SCHEMA
        )

    def best(self, k):
        """(score, id, note), by sorting."""
        t = self.table.table
        with self.table.engine.connect() as connection:
            rows = connection.execute(sa.select(t.c.x, t.c.id, t.c.note)).all()
        return sorted(map(tuple, rows), reverse=True)[:k]


def replayed(changes, kept):
    """A list after changes of it."""
    for row in changes.to_pylist():
        line = (row["score"], row["id"], row["note"])
        if row["_change_type"] in ("delete", "update_preimage"):
            assert kept.pop(row["id"]) == line
        else:
            assert row["id"] not in kept
            kept[row["id"]] = line
    return kept


def listed(kept):
    return sorted(kept.values(), reverse=True)


class Run:
    """The bucket without a JVM: stored and restored between every two batches."""

    def __init__(self, spec):
        self.spec, self.blob, self.counts = spec, None, {}
        self.types = pa.schema([SCHEMA.field("id"), SCHEMA.field("note")])

    def take(self, batch):
        bucket = Bucket(self.spec, self.types)
        if self.blob is not None:
            header, saved = read(self.blob)
            check(header, self.spec.fingerprint())
            bucket.restore(saved)
        parts = [] if batch is None else [batch.slice(0, 3), batch.slice(3)]
        said = bucket.advance(packed(self.spec, *parts)[0], 0)
        self.blob = dump(bucket.snapshot(), {"engine": "view", "query": self.spec.fingerprint()})
        for name, count in bucket.counters.items():
            self.counts[name] = self.counts.get(name, 0) + count
        return said


@pytest.fixture
def shop(tmp_path):
    with sb.tables.open_table(f"sqlite:///{tmp_path}/shop.db", "stock", key="id", rows=start()) as table:
        yield Shop(table, 1)


def watched(table, *, ordered=True, **change):
    return TableViewSpec(table.by_address(), ViewSpec("id", 5, "x", 6, ["note"], ordered=ordered), **change)


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("behind", [0, 3])
def test_the_list_follows_the_table(shop, ordered, behind):
    """The stream may be some batches behind the table that is asked."""
    run, kept = Run(watched(shop.table, ordered=ordered)), {}
    waiting = []
    for _ in range(30):
        waiting.append(shop.change(6))
        if len(waiting) > behind:
            replayed(run.take(waiting.pop(0)), kept)
            if not behind:
                assert listed(kept) == shop.best(5)
    for batch in [*waiting, None]:
        replayed(run.take(batch), kept)
    assert listed(kept) == shop.best(5)
    assert run.counts["refills"] > 2
    assert run.counts["rows"] == 180


def test_no_change_is_lost_while_the_table_cannot_be_asked(shop):
    """From the very start, and again later: the list says that it is not complete, and is put right afterwards."""
    run, kept = Run(watched(shop.table)), {}

    def rename(old, new):
        with shop.table.engine.begin() as connection:
            connection.exec_driver_sql(f"ALTER TABLE {old} RENAME TO {new}")

    def shut(batch):
        rename("stock", "away")
        said = run.take(batch)
        rename("away", "stock")
        return said

    assert shut(shop.change(4)).num_rows == 0
    assert (run.counts["failed_refills"], run.counts["incomplete"]) == (1, 1)
    replayed(run.take(shop.change(4)), kept)
    assert listed(kept) == shop.best(5)
    partly = 0
    for _ in range(25):
        said = shut(shop.change(6))
        partly += said.num_rows > 0 and not any(said["complete"].to_pylist())
        replayed(said, kept)
        assert len(kept) == 5 or run.counts["incomplete"] > 1
    assert partly > 0
    said = run.take(None)
    assert all(said["complete"].to_pylist())
    assert listed(replayed(said, kept)) == shop.best(5)


def test_another_view_is_refused_and_texts_are_keys(shop, tmp_path):
    run = Run(watched(shop.table))
    run.take(shop.change(3))
    run.spec = watched(shop.table, ranks=True)
    with pytest.raises(SnapshotError, match="ranks was 'False' and is 'True'"):
        run.take(shop.change(3))
    with pytest.raises(sb.TableError, match="in the memory of this process"):
        sb.tables.open_table("sqlite://", "stock", key="id", rows=start()).by_address()
    with pytest.raises(sb.QueryError, match="name and key must be given"):
        sb.spark.view(f"sqlite:///{tmp_path}/shop.db", 3, "x")
    with pytest.raises(sb.SchemaError, match="uses column 'y'"):
        sb.spark.view(shop.table, 3, "y")
    with pytest.raises(sb.SchemaError, match=r"must have the column '_version'"):
        watched(shop.table).check_changes(pa.schema([SCHEMA.field(n) for n in ("id", "x", "note")]))
    broken = shop.change(2).set_column(4, "_version", pa.array([1, None]))
    with pytest.raises(sb.SchemaError, match="'_version' must not be NULL"):
        watched(shop.table).combiner(1).add(broken)


def test_columns_may_have_other_names_and_the_version_be_a_time(shop):
    """As a table with a column `changed` has it, which is shown too."""
    spec = TableViewSpec(shop.table.by_address(), ViewSpec("id", 2, "x", 3, ["seen"]), change="op", version="seen")
    when = pa.array([7, 9, 8], pa.timestamp("us"))
    rows = pa.table({"id": [1, 1, 2], "x": [50.0, 40.0, None], "op": ["insert", "update", "delete"], "seen": when})
    combiner = spec.combiner(1)
    combiner.add(rows)
    (found,) = combiner.drain(0)
    found = found.select(["id", "__skyband_score", "_version", "seen"])
    assert [tuple(r.values())[:3] for r in found.to_pylist()] == [
        (2, pytest.approx(math.nan, nan_ok=True), 8),
        (1, 40.0, 9),
    ]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"k": 0}, "k must be .* got 0"),
        ({"by": None}, "by must be .* got None"),
        ({"columns": ["note", "note"]}, r"columns must .* got \['note', 'note'\]"),
        ({"ordered": "yes"}, "ordered must be .* got 'yes'"),
        ({"version": None}, "version must be .* got None"),
        ({"timeout": "0 s"}, "timeout must be .* got '0 s'"),
        ({"table": 5}, "table must be a table of a database.* got '5'"),
    ],
)
def test_wrong_fields_are_told_before_the_stream_starts(shop, wrong, words):
    with pytest.raises(sb.QueryError, match=words):
        sb.spark.view(**{"table": shop.table, "k": 2, "by": "x", **wrong})


@pytest.mark.spark
def test_a_stream_with_a_restart_over_postgresql(spark, tmp_path):
    """Files of changes, a table that is ahead of them, a stop in the middle; then the same as a batch."""
    with (
        postgres_server(tmp_path / "pg") as url,
        sb.tables.open_table(url, "stock", key="id", rows=start()) as table,
    ):
        shop = Shop(table, 2)
        write_batches(tmp_path / "in", [shop.change(8) for _ in range(3)])
        page = (Path(__file__).parents[2] / "docs" / "views.md").read_text(encoding="utf-8")
        names = {"spark": spark, "url": url, "changes": str(tmp_path / "in")}
        exec(re.search(r"```py\n(.*?)```", page, re.DOTALL)[1], names)  # noqa: S102 - our own page
        step, progress = names["step"], []
        first = collected(names["best"], tmp_path / "checkpoint", progress=progress)
        kept = replayed(first, {})
        assert listed(kept) == shop.best(5)
        more = [shop.change(8) for _ in range(3)]
        write_batches(tmp_path / "in", more, first=3)
        second, later = answers(spark, tmp_path / "in", step)
        assert listed(replayed(second, kept)) == shop.best(5)
        assert all(second["complete"].to_pylist())
        assert second["step"].to_pylist()[0] == first["step"].to_pylist()[-1] + 1
        told = counted([*progress, *later])
        assert told["rows"] == 48
        assert told["failed_refills"] == 0 < told["refills"]
        whole = spark.read.schema(spark.read.parquet(str(tmp_path / "in")).schema).parquet(str(tmp_path / "in"))
        batch = whole.transform(step).toArrow()
        assert [tuple(r.values()) for r in batch.select(["score", "id", "note"]).to_pylist()] == shop.best(5)
        assert np.array_equal(batch["rank"].to_numpy(), np.arange(1, 6))


@pytest.mark.spark
def test_totals_of_all_time_at_every_trigger(spark, tmp_path):
    """Cases 1 and 2 of the paper on Spark, with a restart: the lists of a stream are those of `sb.stream`."""
    query = sb.TopK(k=3, of="id", by="sum(x)", emit="changes")
    rng = np.random.default_rng(4)
    batches = [pa.table({"id": rng.integers(0, 20, 50), "x": rng.integers(-5, 9, 50)}) for _ in range(4)]
    write_batches(tmp_path / "in", batches[:2])
    first, _ = answers(spark, tmp_path / "in", sb.spark.top_k(query))
    write_batches(tmp_path / "in", batches[2:], first=2)
    second, _ = answers(spark, tmp_path / "in", sb.spark.top_k(query))
    want = sb.run(query, iter(batches))
    assert [*first.to_pylist(), *second.to_pylist()] == want.to_pylist()
    whole = spark.read.parquet(str(tmp_path / "in")).transform(sb.spark.top_k(query)).toArrow()
    assert whole.to_pylist() == sb.run(query, pa.concat_tables(batches)).to_pylist()
