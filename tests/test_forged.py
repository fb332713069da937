"""States that were forged: refused when they are loaded, or harmless. In another process, since a kernel may crash."""

import faulthandler
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband.engines import QueryFamily, build
from skyband.engines.validation import float_column, typed_column, validate
from skyband.runtime import snapshot as blob

ROOT = Path(__file__).resolve().parents[1]


def hurt(examples):
    """Forge the state of every engine, workload, join, view and leaderboard so many times, and go on from it."""
    from hypothesis import HealthCheck, given, seed, settings
    from hypothesis import strategies as st
    from scripts.fuzz.forged import check_forged, forged, seeds

    taken = 0

    def each(number):
        one = seeds()[number]

        @seed(number)
        @settings(
            max_examples=examples, database=None, deadline=None, phases=["generate"],
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        @given(st.randoms(use_true_random=False))
        def refused_or_harmless(rng):
            nonlocal taken
            made = forged(rng, number)
            other = [name for name in one.saved if made[1].get(name) is not one.saved[name]]
            os.write(1, f"{one.name}: {other}\n".encode())  # what was at work when it crashed
            faulthandler.dump_traceback_later(30, exit=True)
            taken += check_forged(made)
            faulthandler.cancel_dump_traceback_later()

        refused_or_harmless()

    for number in range(len(seeds())):
        each(number)
    os.write(1, f"{len(seeds())} states, {taken} forged ones taken\n".encode())


def test_forged_states_are_refused_or_harmless():
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src"), str(ROOT / "tests")])}
    command = [sys.executable, "-W", "ignore", "-X", "faulthandler", __file__, "15"]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-5000:]
    assert "states, " in done.stdout


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("first", np.array([[0], [9]]), "first points outside of the 3 rows"),
        ("ranked", np.array([4]), "ranked counts more rows than a group has"),
        ("score", np.array([1.0, 2.0, 3.0]), "do not come best first"),
        ("score", np.array([3.0, 2.0, np.nan]), "score has a value that it cannot have"),
        ("time", np.array([1, 2]), r"time is of shape \(2,\) and should be \(3,\)"),
        ("id", np.array([1.0, 2.0, 3.0]), "id is float64 and should be int64"),
        ("done", np.array([-(1 << 62)]), "a row lies far after what is done"),
        ("shown", None, "it has no shown"),
    ],
)
def test_what_is_wrong_with_a_state_is_said(name, value, why):
    query = sb.TopK(k=3, by="x", window=sb.Counting(8, 4))
    engine = build("sweep", QueryFamily.of(query))
    engine.advance(sb_objects([3.0, 2.0, 1.0]), np.array([3]))
    engine.candidates()
    saved = engine.snapshot()
    build("sweep", QueryFamily.of(query), saved)
    saved = {n: c for n, c in {**saved, name: value}.items() if c is not None}
    with pytest.raises(sb.SnapshotError, match=f"the saved state is damaged, or of another query: .*{why}"):
        build("sweep", QueryFamily.of(query), saved)


def sb_objects(score):
    from skyband.engines import Objects

    number = np.arange(len(score))
    return Objects(np.array(score), number, number)


def test_what_is_loaded_is_a_copy_that_can_be_written_to():
    saved = {"x": np.array([1.0, 2.0])}
    saved["x"].flags.writeable = False
    found = validate(saved, {"x": float_column("rows")}, rows=2)["x"]
    found[0] = 5.0
    assert saved["x"].tolist() == [1.0, 2.0]
    with pytest.raises(sb.SnapshotError, match="x is list and should be int64"):
        validate({"x": [1, 2]}, {"x": typed_column("i8", 2)})


# ---------------------------------------------------------------- memory


def stream(table, compression=None):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def state(data, shape, *, header=b'{"format": 2}', compression=None):
    """A state of one column, with a right checksum: forged, not damaged."""
    columns = {"name": ["a"], "shape": pa.array([shape], pa.list_(pa.int64())), "data": pa.array([data], pa.binary())}
    table = pa.table(columns)
    marks = {b"skyband": header, b"checksum": blob._checksum(header, table)}
    return stream(table.replace_schema_metadata(marks), compression)


def many(kind):
    """A column that has 30 million values and hardly a byte."""
    rows = 30_000_000
    if kind == "null":
        return pa.nulls(rows)
    if kind == "struct":
        return pa.StructArray.from_buffers(pa.struct([]), rows, [None])
    if kind == "runs":
        return pa.RunEndEncodedArray.from_arrays(pa.array([rows], pa.int32()), pa.array([1]))
    if kind == "list":
        return pa.ListArray.from_arrays(pa.array([0, rows], pa.int32()), pa.nulls(rows))
    if kind == "views":
        start, size = pa.array([0] * 20_000, pa.int32()), pa.array([20_000] * 20_000, pa.int32())
        return pa.ListViewArray.from_arrays(start, size, pa.array(np.zeros(20_000, np.int8)))
    return pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), pa.nulls(rows))


FORGED = {
    "compressed array": lambda: state(stream(pa.table({"v": np.zeros(30_000_000)}), "zstd"), [30_000_000]),
    "compressed table": lambda: state(stream(pa.table({"v": np.zeros(30_000_000)}), "lz4"), None),
    "compressed dictionary": lambda: state(
        stream(pa.table({"v": pa.DictionaryArray.from_arrays([0], pa.array(np.zeros(30_000_000)))}), "zstd"), None
    ),
    "compressed outside": lambda: state(bytes(240_000_000), None, compression="zstd"),
    "deep header": lambda: state(b"", None, header=b"[" * 100_000),
    **{f"long {kind} table": lambda kind=kind: state(stream(pa.table({"v": many(kind)})), None) for kind in (
        "null", "struct", "runs", "list", "views", "dictionary"
    )},
    **{f"long {kind} array": lambda kind=kind: state(stream(pa.table({"v": many(kind)})), [30_000_000]) for kind in (
        "null", "runs"
    )},
}  # fmt: skip


@pytest.mark.parametrize("kind", FORGED)
def test_a_forged_state_is_refused_before_it_fills_the_memory(kind):
    made = FORGED[kind]()
    assert len(made) < 2_000_000
    usual = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(usual)
    pa.set_memory_pool(pool)
    tracemalloc.start()
    try:
        with pytest.raises(sb.SnapshotError):
            blob.read(made)
        taken = tracemalloc.get_traced_memory()[1] + pool.max_memory()
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(usual)
    assert taken < 20_000_000


if __name__ == "__main__":
    hurt(int(sys.argv[1]))
