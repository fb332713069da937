"""Long streams: a batch costs the same after many batches and many groups as at the start, and answers stay right."""

import time

import numpy as np
import pyarrow as pa
import pytest

import oracle
import skyband as sb

SLIDING = {"time": "t", "unit": "s", "window": sb.Sliding("200 s", "10 s")}
KINDS = {
    "one list": sb.TopK(k=5, by="x", **SLIDING),
    "groups": sb.TopK(k=5, by="x", per="g", **SLIDING),
    "after every row": sb.TopK(k=5, by="x", time="t", unit="s", window=sb.Sliding("200 s", "row"), emit="changes"),
    "counting": sb.TopK(k=5, by="x", window=sb.Counting(200, 10)),
    "leaderboard": sb.TopK(k=5, by="sum(x)", of="g", **SLIDING),
    "totals": sb.TopK(k=5, by="sum(x)", of="g", emit="changes"),
    "workload": [sb.TopK(k=k, by="x", **SLIDING) for k in (1, 5)],
}


def seconds_per_batch(query, batches):
    """The CPU time of the program until each batch is asked for: other programs do not count."""
    stamps = []

    def source():
        for batch in batches:
            stamps.append(time.process_time())
            yield batch

    for _ in sb.stream(query, source()):
        pass
    return np.diff(stamps)


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_of_one_row_costs_the_same_after_thousands_of_them(kind):
    rng = np.random.default_rng(5)
    x, g = rng.random(3000), rng.integers(0, 8, 3000)
    batches = [pa.table({"t": [i], "x": [x[i]], "g": [int(g[i])]}) for i in range(3000)]
    cost = seconds_per_batch(KINDS[kind], batches)
    first, last = np.mean(cost[100:300]), np.mean(cost[-500:])
    assert last < 3 * first


@pytest.mark.parametrize("kind", ["groups", "leaderboard", "after every row"])
def test_groups_that_are_gone_cost_nothing(kind):
    query = (
        KINDS[kind]
        if kind != "after every row"
        else sb.TopK(k=5, by="x", per="g", time="t", unit="s", window=sb.Sliding("200 s", "row"))
    )
    rng = np.random.default_rng(6)
    batches = [
        pa.table({"t": np.full(4000, 100 * i), "x": rng.random(4000), "g": np.arange(4000) + 4000 * i})
        for i in range(80)
    ]
    cost = seconds_per_batch(query, batches)
    assert np.mean(cost[-20:]) < 3 * np.mean(cost[10:30])


@pytest.mark.parametrize("emit", ["answers", "changes"])
def test_answers_stay_right_while_groups_come_and_go(emit):
    rng = np.random.default_rng(7)
    rows = []
    for i in range(60):
        new = np.arange(2000) + 2000 * i
        back = rng.integers(0, 2000 * i + 1, 300)  # some that were gone for long, some that were not
        rows += [(10 * i + int(at), int(g)) for at, g in zip(rng.integers(0, 10, 2300), [*new, *back], strict=True)]
    rows.sort(key=lambda row: row[0])
    score = rng.integers(0, 50, len(rows)).astype(float)
    time_, group = (np.array([row[at] for row in rows]) for at in (0, 1))
    table = pa.table({"t": time_, "x": score, "g": group})
    window = sb.Sliding("20 s", "10 s")
    query = sb.TopK(k=1, by="x", per="g", time="t", unit="s", window=window, emit=emit)
    batches = [table.slice(low, 1700) for low in range(0, len(rows), 1700)]
    found = pa.concat_tables(sb.stream(query, iter(batches)))

    best, last = {}, {}
    for at, (t, g) in enumerate(rows):
        for number in (t // 10 - 1, t // 10):
            best[number, g] = max(best.get((number, g), (-1.0, -1, -1)), (score[at], t, at))
    place = oracle.appearances(rows, 20, 10)
    order = sorted(best, key=lambda cell: (cell[0], place[cell]))
    if emit == "answers":
        want = [(10 * number + 20, g, best[number, g][0]) for number, g in order]
        got = zip(*(found[name].to_pylist() for name in ("window_end", "g", "score")), strict=True)
        assert list(got) == want
        return
    inserts = {}
    for number, g in order:
        row = best[number, g][2]
        if last.get(g) != (number - 1, row):
            inserts[number, g] = row
        last[g] = (number, row)
    told = found.filter(pa.compute.equal(found["_change_type"], "insert"))
    assert {
        (step, g): x for step, g, x in zip(*(told[n].to_pylist() for n in ("step", "g", "score")), strict=True)
    } == {cell: score[row] for cell, row in inserts.items()}
    changes = dict(
        zip(*np.unique(found["_change_type"].to_numpy(zero_copy_only=False), return_counts=True), strict=True)
    )
    still = {(number, g) for number, g in best if number >= time_[-1] // 10 - 1}
    assert changes["insert"] - changes["delete"] <= len(still), "what left a list is deleted once"
