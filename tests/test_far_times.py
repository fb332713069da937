"""Times and watermarks up to the ends of their range: answered, or refused with their value; never lost or endless."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

import oracle
import skyband as sb
from skyband.tables import Memory

FAR = 1 << 61  # microseconds from 1970: the last that can be counted
USERS = Memory({"u": [1], "b": [0.0]}, key="u")
WINDOW = sb.Sliding("4 s", "2 s")


def asked(window=WINDOW, **more):
    return sb.TopK(**{"k": 1, "by": "x", "window": window, "time": "t", "unit": "us", **more})


OPERATORS = {
    "one query": asked,
    "groups": lambda window: asked(window, per="u"),
    "changes": lambda window: asked(window, emit="changes"),
    "workload": lambda window: [asked(window), asked(window, k=2)],
    "two windows": lambda window: [asked(window), asked(sb.Sliding("5 s", "1 s"))],
    "every row": lambda _: asked(sb.Sliding("4 s", "row")),
    "leaderboard": lambda window: asked(window, of="u", by="max(x)"),
    "join": lambda window: asked(window, by="x + b", join=sb.Join(USERS, on="u", columns=["b"])),
}
every_operator = pytest.mark.parametrize("operator", list(OPERATORS))


def rows(times, kind=None):
    return pa.table({"t": pa.array(times, kind), "x": [1.0 + n for n in range(len(times))], "u": [1] * len(times)})


@every_operator
@pytest.mark.parametrize("far", [FAR + 1, 2**62, 2**63 - 1, -FAR - 1, -(2**62), -(2**63)])
@pytest.mark.parametrize("kind", [pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.int64()], ids=str)
def test_a_time_that_is_too_far_is_refused_by_every_operator(operator, far, kind):
    query = OPERATORS[operator](WINDOW)
    for source in (rows([1, far], kind), [rows([1], kind), rows([far, 2], kind)]):
        with pytest.raises(sb.SourceError, match=f"time has {far} "):
            sb.run(query, source)


@every_operator
@pytest.mark.parametrize("size", [(4_000_000, 2_000_000), (7, 3)])
def test_times_at_both_ends_of_the_range_are_answered(operator, size):
    times = [-FAR, -FAR + 1, -1, 0, 1, FAR - 1, FAR]
    window = sb.Sliding(f"{size[0]} us", f"{size[1]} us")
    query = OPERATORS[operator](window)
    found, counts = sb.run(query, rows(times, pa.int64()), stats=True)
    assert (counts.rows, counts.late_rows, counts.without_time) == (7, 0, 0)
    if operator in ("one query", "groups", "leaderboard", "join"):
        want = oracle.sliding([(1.0 + n, t, n) for n, t in enumerate(times)], 1, *size)
        starts = [window * size[1] for window, _ in want]
        assert found["window_start"].to_pylist() == starts
        assert found["score"].to_pylist() == [best[0][0] for _, best in want]


@pytest.mark.parametrize("late", [None, "1 s", "3650000 days"])
def test_rows_far_apart_are_all_answered_or_counted_as_late(late):
    batches = [rows([t]) for t in (FAR, -FAR, 0, FAR - 1)]
    found, counts = sb.run(asked(sb.Tumbling("1 s")), batches, stats=True, late=late)
    assert (found.num_rows, counts.rows, counts.late_rows) == (1, 4, 2)


def test_two_queries_over_rows_far_apart_do_not_lay_out_all_panes_between():
    queries = [asked(sb.Sliding("3 s", "1 s")), asked(sb.Sliding("100 us", "7 us"))]
    held = [(1.0, 0, 0), (2.0, 2**60, 1)]
    want = [len(oracle.windows(held, size, slide)) for size, slide in ((3_000_000, 1_000_000), (100, 7))]
    assert sb.run(queries, rows([0, 2**60])).num_rows == sum(want)


def test_a_query_sleeps_while_only_the_long_windows_of_another_hold_rows():
    found = sb.run([asked(sb.Tumbling("3650000 days")), asked(sb.Sliding("2 us", "1 us"))], rows([0, 5]))
    assert found["window_end"].to_pylist()[-1] == 3_650_000 * 86_400_000_000
    assert found.num_rows == 1 + 4


@every_operator
@pytest.mark.parametrize("watermark", [FAR + 1, -FAR - 1, 2**63, 2**64, -(2**70)])
def test_a_watermark_that_is_too_far_is_refused_by_every_operator(operator, watermark):
    with pytest.raises(sb.SourceError, match=f"watermark must be .* got {watermark}"):
        sb.run(OPERATORS[operator](WINDOW), [(rows([1]), watermark), (rows([2]), None)])


@every_operator
def test_a_watermark_at_the_end_of_time_closes_all_windows_and_makes_later_rows_late(operator):
    query = OPERATORS[operator](WINDOW)
    _, counts = sb.run(query, [(rows([1]), FAR), (rows([2]), None), (rows([3]), -FAR)], stats=True)
    assert (counts.rows, counts.late_rows) == (3, 2)


@pytest.mark.parametrize("watermark", [float("inf"), np.float64("nan"), "soon", b"x", [1], np.datetime64("NaT")])
def test_a_watermark_that_is_no_moment_is_refused(watermark):
    with pytest.raises(sb.SkybandError, match="watermark"):
        sb.run(asked(), [(rows([1]), watermark)])


def test_windows_that_nanoseconds_cannot_name_are_refused():
    moments = pa.array([dt.datetime(2024, 1, 1)], pa.timestamp("ns"))
    with pytest.raises(sb.SchemaError, match=r"timestamp\[ns\] cannot reach"):
        sb.run(asked(sb.Tumbling("300000 days"), unit=None), {"t": moments, "x": [1.0]})


@pytest.mark.parametrize("field", ["size", "slide", "late", "ahead", "origin", "deadline"])
@pytest.mark.parametrize("length", ["3650001 days", dt.timedelta(days=999_999_999), "99999999999999 weeks"])
def test_lengths_of_time_beyond_ten_thousand_years_are_refused(field, length):
    build = {
        "late": lambda: sb.run(asked(), rows([1]), late=length),
        "ahead": lambda: sb.run(asked(), rows([1]), ahead=length),
        "deadline": lambda: sb.Join(USERS, on="u", columns=["b"], refresh=sb.Refresh(deadline=length)),
    }.get(field, lambda: sb.Sliding(**{"size": "1 s", "slide": "1 s", field: length}))
    with pytest.raises(sb.QueryError, match=f"{field} must be at most 3,650,000 days"):
        build()
