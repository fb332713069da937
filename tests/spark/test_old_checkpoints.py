"""Streams and views resume from what the first version stored, and answer as it would have."""

import shutil
import tarfile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from old_streams import CONSUMED, FOLDER, STREAMS, VIEWS, make_changes, run, stored_batches, unpack
from streams import write_batches
from test_top_k import plain

import skyband as sb
from skyband.tables import log_changes


def test_every_stored_checkpoint_is_resumed():
    assert {path.name for path in FOLDER.iterdir()} == {*STREAMS, *VIEWS}


@pytest.mark.spark
@pytest.mark.parametrize("kind", STREAMS)
def test_a_stream_resumes_from_an_old_checkpoint(spark, tmp_path, kind):
    stream, stored = STREAMS[kind], FOLDER / kind
    unpack(stored / "checkpoint.tar.gz", tmp_path)
    for name in stream.inputs:
        write_batches(tmp_path / name, stored_batches(kind, name))
    if (stored / "table.parquet").exists():
        shutil.copy(stored / "table.parquet", tmp_path)
    got = run(spark, kind, tmp_path, resumed=True)
    want = pq.read_table(stored / "answers.parquet")
    columns = list(stream.compared) or want.column_names
    assert want.num_rows > 5
    assert set(columns) <= set(got.column_names)
    assert plain(got.select(columns)) == plain(want.select(columns))


@pytest.mark.parametrize("kind", VIEWS)
def test_a_view_is_restored_from_an_old_file(tmp_path, kind):
    """The rows of the table have other notes by now, so that those in the file can be told from those asked for."""
    pytest.importorskip("sqlalchemy")
    stored, batches = FOLDER / kind, stored_batches(kind)
    rows = pq.read_table(stored / "table.parquet")
    rows = rows.set_column(2, "note", pa.array(["not asked for"] * rows.num_rows))
    with sb.tables.open_table(f"sqlite:///{tmp_path}/shop.db", "stock", key="id", rows=rows) as table:
        log_changes(table)
        for batch in batches[:CONSUMED]:
            make_changes(table, batch)
        view = sb.View.restore(table, stored / "view.arrow", ordered=VIEWS[kind]["ordered"])
        for batch, want in zip(batches[CONSUMED:], stored_batches(kind, "answers"), strict=True):
            make_changes(table, batch)
            view.catch_up()
            assert view.read().to_pylist() == want.to_pylist()


def test_no_stored_file_names_a_machine():
    """Neither a path nor a user: a checkpoint must resume wherever it is unpacked."""
    for path in FOLDER.glob("*/*"):
        packed = path.name.endswith(".tar.gz")
        found = {path.name: path.read_bytes()}
        if packed:
            with tarfile.open(path) as tar:
                found = {entry.name: tar.extractfile(entry).read() for entry in tar}
        for name, data in found.items():
            for word in (b"/tmp", b"/home", b"/root", b"/work", b"/Users", b"/var"):
                assert word not in data, (path, name)
