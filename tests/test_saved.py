"""A pipeline saved after any batch goes on elsewhere as if nothing had happened."""

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import skyband as sb
from pipelines import Line
from skyband.runtime.snapshot import _checksum, dump, read, write
from strategies import cuts, shapes, time_query

rows = st.lists(
    st.tuples(st.one_of(st.none(), st.integers(0, 5).map(float)), st.integers(0, 40), st.sampled_from("abc")),
    max_size=40,
)


@pytest.mark.parametrize("engine", ["sweep", "mintopk"])
@given(shapes(), rows, cuts, st.sampled_from(["answers", "changes", "arrivals"]), st.booleans(), st.booleans())
def test_saving_after_every_batch_changes_nothing(engine, shape, rows, cuts, emit, grouped, counted):
    k, size, slide = shape
    table = pa.table(
        {
            "x": pa.array([r[0] for r in rows], pa.float64()),
            "t": pa.array([r[1] for r in rows], pa.int64()),
            "g": pa.array([r[2] for r in rows], pa.string()),
        }
    )
    more = {"per": ["g"] if grouped else [], "emit": emit}
    query = time_query(k, size, slide, **more)
    if counted:
        query = sb.TopK(k=k, by="x", window=sb.Counting(size, slide), **more)

    def answers(*, saving):
        line = Line(query, table.schema, engine, late=25)
        found = []
        for low, high in zip([0, *cuts], [*cuts, len(rows)], strict=True):
            found += line.push(table.slice(low, max(0, min(high, len(rows)) - low))).to_pylist()
            if saving:
                line = line.restored()
        found += line.finish().to_pylist()
        return [tuple(r.values()) for r in found], line.stats.late_rows

    with_saving, without = answers(saving=True), answers(saving=False)
    assert list(map(repr, with_saving[0])) == list(map(repr, without[0])), "the order of groups too"
    assert with_saving[1] == without[1]


def test_idle_groups_are_forgotten():
    query = time_query(2, 10, 5, per="g")
    schema = pa.schema({"x": pa.float64(), "t": pa.int64(), "g": pa.string()})
    line = Line(query, schema, "sweep")
    rng = np.random.default_rng(1)
    for t in range(0, 1000, 5):
        line.push(pa.table({"x": rng.random(4), "t": [t] * 4, "g": [f"{t}-{i}" for i in range(4)]}))
        saved = line.snapshot()
    assert saved["0/groups"].num_rows <= 16
    assert saved["rows"].num_rows <= 16
    assert len(saved["0/operator/engine/done"]) <= 16


def as_format(blob, number):
    """The same state as another format wrote it: format 1 has no checksum."""
    with pa.ipc.open_stream(blob) as stream:
        table = stream.read_all()
    header = json.dumps({**json.loads(table.schema.metadata[b"skyband"]), "format": number}).encode()
    metadata = {b"skyband": header}
    if number > 1:
        metadata[b"checksum"] = _checksum(header, table)
    return write(table.replace_schema_metadata(metadata))


def test_states_of_formats_1_to_3_are_read_and_others_refused():
    blob = dump({"a": np.arange(3)}, {"engine": "sweep", "query": {}})
    for number in (1, 2, 3):
        header, saved = read(as_format(blob, number))
        assert (header["format"], saved["a"].tolist()) == (number, [0, 1, 2])
    for number in (0, 4):
        with pytest.raises(sb.SnapshotError, match=f"format {number}.*1 to 3"):
            read(as_format(blob, number))


def test_groups_that_come_and_go_are_forgotten_without_saving():
    query = time_query(2, 10, 5, per="g")
    line = Line(query, pa.schema({"x": pa.float64(), "t": pa.int64(), "g": pa.int64()}), "sweep")
    for number in range(100):
        group = np.arange(2_000) + 2_000 * number
        line.push(pa.table({"x": group / 7, "t": np.full(2_000, 10 * number), "g": group}))
    assert len(line.runner.groups.known) < 100_000, "of 200,000 that there were"
