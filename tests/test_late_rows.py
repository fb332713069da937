"""Rows of closed panes, taken as long as a window that holds them is open: against plain Python."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import skyband as sb
from late_rules import SCHEMA, Rules, batches, found_in, planned, table, workloads
from skyband.engines import ENGINES
from skyband.operators import late_rows
from skyband.operators.plan import plan_operators
from skyband.runtime.pipeline import Pipeline
from skyband.runtime.snapshot import dump, read

SLIDE_ENGINES = ["auto", *(name for name, entry in ENGINES.items() if "slide" in entry.traits.windows)]


@given(workloads(), batches(), st.integers(0, 12), st.data())
def test_rows_of_closed_panes_are_in_open_windows(queries, stream, late, data):
    rules, out = Rules(queries, late), []
    specs = planned(queries, data.draw(st.sampled_from(SLIDE_ENGINES)))
    pipeline = Pipeline(specs, SCHEMA, late=late)
    for rows, watermark in stream:
        rules.add(rows, watermark)
        out += pipeline.push(table(rows), watermark)
        if data.draw(st.booleans()):
            saved = dump(pipeline.snapshot(), {})
            pipeline = Pipeline(specs, SCHEMA, late=late)
            pipeline.restore(read(saved)[1])
    out += pipeline.finish()
    assert found_in(out, queries, len(queries) > 1) == rules.emitted(queries[0].emit)
    stats = pipeline.stats
    assert (stats.late_rows, stats.without_score) == (rules.late_rows, rules.without_score)
    assert pipeline.candidates() == 0


@pytest.mark.parametrize("emit", ["answers", "changes", "arrivals"])
def test_many_late_rows_are_pruned_and_merged_in_parts(monkeypatch, emit):
    monkeypatch.setattr(late_rows, "_MAX_ROWS", 20)
    monkeypatch.setattr(late_rows, "_MAX_PAIRS", 50)
    rng = np.random.default_rng(5)
    queries = [
        sb.TopK(k=2, by="x", time="t", unit="us", window=sb.Sliding("40 us", "3 us"), per="g", emit=emit, name="a"),
        sb.TopK(k=4, by="x", time="t", unit="us", window=sb.Sliding("24 us", "8 us"), per="g", emit=emit, name="b"),
    ]
    rules, pipeline, out, number = Rules(queries, 2), Pipeline(planned(queries), SCHEMA, late=2), [], 0
    most = 0
    for at in range(0, 300, 10):
        rows = []
        for time in rng.integers(max(at - 40, 0), at + 10, 60).tolist():
            score, group = float(rng.integers(0, 9)), "ab"[int(rng.integers(0, 2))]
            rows.append({"t": time, "x": score, "i": None, "g": group, "n": number})
            number += 1
        rules.add(rows)
        out += pipeline.push(table(rows))
        most = max(most, pipeline.candidates())
    out += pipeline.finish()
    assert found_in(out, queries, many=True) == rules.emitted(emit)
    assert most < 500  # of some 2,000 rows in open windows


def test_by_default_rows_of_closed_panes_are_late():
    query = sb.TopK(k=3, by="x", time="t", unit="us", window=sb.Sliding("10 us", "5 us"))
    rows = [[{"t": 6, "x": 1.0, "n": 0}], [{"t": 4, "x": 9.0, "n": 1}, {"t": 5, "x": 2.0, "n": 2}]]
    lists = {}
    for rule in ("pane", "window"):
        pipeline = Pipeline([replace(plan_operators(query)[1][0], late_rows=rule)], SCHEMA)
        out = [found for batch in rows for found in pipeline.push(table(batch))] + list(pipeline.finish())
        whole = pa.concat_tables(out)
        lists[rule] = whole.filter(pa.compute.equal(whole["window_end"], 10))["n"].to_pylist(), pipeline.stats.late_rows
    assert lists == {"pane": ([2, 0], 1), "window": ([1, 2, 0], 0)}
    assert plan_operators(query)[1][0].late_rows == "pane"
