"""What breaks ties: the larger id first, over the whole range of its type, and a missing one after all others."""

import itertools

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband.tables import Memory

EDGES = {
    pa.int64(): [-(2**63), -(2**63) + 1, -1, 0, 1, 2**63 - 2, 2**63 - 1, None],
    pa.uint64(): [0, 1, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 2, 2**64 - 1, None],
    pa.int32(): [-(2**31), -1, 0, 2**31 - 1, None],
    pa.uint8(): [0, 1, 255, None],
}
every_type = pytest.mark.parametrize("kind", list(EDGES), ids=str)


def ranked(ids):
    """The order in which ids rank; of equal ones the later."""
    return [i for _, i in sorted(((i is not None, i or 0), n) for n, i in enumerate(ids))][::-1]


def table(kind, ids, **more):
    size = len(ids)
    rows = {"t": [0] * size, "x": [1.0] * size, "i": pa.array(ids, kind), "n": list(range(size))}
    return pa.table({**rows, **more})


def asked(k, **more):
    return sb.TopK(**{"k": k, "by": "x", "window": sb.Tumbling("1 s"), "time": "t", "unit": "s", "id": "i", **more})


def orders(ids):
    rng = np.random.default_rng(3)
    return [ids, ids[::-1], *([ids[at] for at in rng.permutation(len(ids))] for _ in range(5))]


@every_type
def test_ids_order_over_their_whole_range(kind):
    for ids in orders([*EDGES[kind], None, EDGES[kind][0]]):
        rows, want = table(kind, ids), ranked(ids)
        for k in (1, len(ids) - 1, len(ids)):
            assert sb.run(asked(k), rows)["n"].to_pylist() == want[:k]


@every_type
def test_batches_change_nothing_in_the_order_of_ids(kind):
    for ids in orders(EDGES[kind]):
        rows, want = table(kind, ids), ranked(ids)
        batches = [rows.slice(low, 2) for low in range(0, len(ids), 2)]
        assert sb.run(asked(len(ids)), batches, late="5 s")["n"].to_pylist() == want
        assert sb.run(asked(len(ids)), rows, late="0 s")["n"].to_pylist() == want


@every_type
@pytest.mark.parametrize("per", [(), ("g",)])
def test_rows_that_wait_in_great_number_are_thinned_by_the_same_order(kind, per):
    ids = list(itertools.islice(itertools.cycle(EDGES[kind]), 70_000))
    rows = table(kind, ids, g=["a"] * len(ids))
    k = len(ids) // len(EDGES[kind]) + 1
    best = sb.run(asked(k, per=per), rows, late="5 s")["i"].to_pylist()
    most = max(i for i in EDGES[kind] if i is not None)
    assert best[:-1] == [most] * (k - 1)
    assert sb.run(asked(1, per=per, id="i", ascending=True), rows, late="5 s")["i"].to_pylist() == [most]
    none_wins = table(kind, [None] * 70_000 + [EDGES[kind][0]])
    assert sb.run(asked(1), none_wins, late="5 s")["n"].to_pylist() == [70_000]


@every_type
def test_workloads_and_windows_after_every_row_order_ids_alike(kind):
    for ids in orders(EDGES[kind]):
        rows, want = table(kind, ids), ranked(ids)
        both = sb.run([asked(1), asked(len(ids))], rows)
        assert both.filter(pa.compute.equal(both["query"].cast(pa.string()), "q1"))["n"].to_pylist() == want
        each = sb.run(asked(len(ids), window=sb.Sliding("1 s", "row")), rows)
        assert each["n"].to_pylist()[-len(ids) :] == want


@every_type
@pytest.mark.parametrize("window", [None, sb.Tumbling("1 s")])
def test_keys_of_equal_totals_rank_like_ids(kind, window):
    more = {} if window is None else {"window": window, "time": "t", "unit": "s"}
    for ids in orders(EDGES[kind]):
        want = [ids[n] for n in ranked(ids)]
        for k in (1, len(ids) - 1, len(ids)):
            query = sb.TopK(k=k, of="i", by="count(*)", **more)
            assert sb.run(query, table(kind, ids))["i"].to_pylist() == want[:k]
            if window is not None:
                batches = [table(kind, [i]) for i in ids]
                assert sb.run(query, batches, late="5 s")["i"].to_pylist() == want[:k]


@every_type
def test_many_keys_of_equal_totals_rank_like_ids(kind):
    middle = [i for i in range(1, 200) if i not in EDGES[kind] and i < 127]
    ids = [*EDGES[kind], *middle]
    want = [ids[n] for n in ranked(ids)]
    query = sb.TopK(k=len(ids) - 1, of="i", by="count(*)", window=sb.Tumbling("1 s"), time="t", unit="s")
    assert sb.run(query, table(kind, ids))["i"].to_pylist() == want[:-1]
    low = sb.TopK(k=3, of="i", by="min(y)", window=sb.Tumbling("1 s"), time="t", unit="s")
    rows = table(kind, ids, y=[-np.inf] * len(ids))
    assert sb.run(low, rows)["i"].to_pylist() == want[:3]


@pytest.mark.parametrize("kind", [pa.string(), pa.binary(), pa.float64(), pa.timestamp("us"), pa.bool_()], ids=str)
def test_a_missing_id_of_any_type_ranks_last(kind):
    values = {pa.string(): "a", pa.binary(): b"a", pa.float64(): 1.5, pa.bool_(): True}.get(kind, 7)
    for ids in ([None, values], [values, None], [None, values, None]):
        column = pa.array(ids, pa.int64()).cast(kind) if pa.types.is_timestamp(kind) else pa.array(ids, kind)
        rows = table(pa.int64(), [0] * len(ids)).set_column(2, "i", column)
        assert sb.run(asked(1), rows)["n"].to_pylist() == [ids.index(values)]
        assert sb.run(sb.TopK(k=1, of="i", by="max(x)"), rows)["i"].null_count == 0


def test_a_missing_id_ranks_last_in_a_join():
    join = sb.Join(
        Memory({"user": [1], "bonus": [1.0]}, key="user"), on="user", columns=["bonus"], refresh=sb.Refresh(budget=9)
    )
    for ids in orders(EDGES[pa.int64()]):
        rows = table(pa.int64(), ids, user=[1] * len(ids))
        query = asked(1, by="x + bonus", join=join)
        assert sb.run(query, rows)["n"].to_pylist() == ranked(ids)[:1], "the newest of a key stands for all"
