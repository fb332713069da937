"""The design tests of docs/architecture.md: what is added here needs no change anywhere else.

An operator and a window kind are defined in this file, then run in process and as buckets without a JVM.
"""

import pickle
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import oracle
import skyband as sb
from skyband.engines import Answers, Objects
from skyband.engines.validation import typed_column, validate
from skyband.operators.plan import plan
from skyband.query import TopK
from skyband.runtime.batch import PreparedBatch
from skyband.runtime.combine import RowCombiner, decode_rows
from skyband.runtime.ids import read_ids
from skyband.runtime.protocols import Operator, OperatorSpec
from skyband.runtime.result import ResultColumns
from skyband.runtime.score import ranks_by
from skyband.windows import MIN_TIME
from spark.bucketed import packed, streamed

SECOND = 1_000_000
EPOCH = pa.scalar(0, pa.timestamp("us")).as_py()
LATE = 30  # seconds


def readings(rows=300, seed=1):
    """Rows with ties, missing scores and times out of order."""
    rng = np.random.default_rng(seed)
    at = np.sort(rng.integers(0, 600, rows)) + rng.integers(-20, 1, rows)
    return pa.table(
        {
            "ts": pa.array(at * SECOND, pa.timestamp("us")),
            "id": pa.array(rng.permutation(rows)),
            "value": pa.array(rng.integers(0, 9, rows).astype(float), mask=rng.random(rows) < 0.1),
            "sensor": pa.array([f"S{number}" for number in rng.integers(0, 3, rows)]),
        }
    )


def batches(rows, size=70):
    return [rows.slice(low, size) for low in range(0, rows.num_rows, size)]


def by_sensor(rows):
    """The rows of each sensor as the oracle takes them; nothing is late here."""
    found = {}
    for row in rows.to_pylist():
        found.setdefault(row["sensor"], []).append((row["value"], seconds(row["ts"]), row["id"]))
    return found


def seconds(moment):
    return int((moment - EPOCH).total_seconds())


def shown(table):
    """The answers as {(window end, sensor): ids}, best first."""
    found = {}
    for row in table.sort_by("rank").to_pylist():
        found.setdefault((seconds(row["window_end"]), row["sensor"]), []).append(row["id"])
    return found


def last_watermark(rows):
    return max(map(seconds, rows["ts"].to_pylist())) - LATE


# ------------------------------------------------------------ an operator


@dataclass(frozen=True)
class ExtremesSpec(OperatorSpec):
    """The best and the worst row of each window and group: not a top-k, since a pane's worst row matters too."""

    query: TopK

    engine = "extremes"

    def result(self, *, early=False):
        return ResultColumns(self.query, self.per, early=early)

    def prepare(self, rows, row_id, time, groups):
        tie, missing = read_ids(rows.column(self.query.id), self.query.id)
        group = None if groups is None else groups.codes(rows)
        return PreparedBatch(row_id, time, ranks_by(self.query, rows), tie, missing, group)

    def combiner(self, buckets):
        return RowCombiner(self, buckets, _best_and_worst)

    def receive(self, tables, schema, groups):
        rows, batch = decode_rows(tables, schema, self.query)
        return rows, batch if groups is None else batch._replace(group=groups.codes(rows)[batch.row_id])

    def open(self, context, snapshot=None):  # noqa: ARG002 - an operator that makes rows needs it
        return Extremes(self, snapshot)


def _best_and_worst(batch, code, codes, rows):  # noqa: ARG001 - as all such functions
    """Return which rows must travel: of each pane and group the first and the last."""
    order = np.lexsort((batch.tie_order(), batch.time, batch.score, code))
    keep = np.zeros(batch.size, np.bool_)
    keep[order[np.diff(code[order], prepend=-1) != 0]] = True
    keep[order[np.diff(code[order], append=-1) != 0]] = True
    return keep


class Extremes(Operator):
    """Keeps all rows of open windows."""

    def __init__(self, spec, snapshot):
        self.assigner, self._reached = spec.assigner(), MIN_TIME
        self._rows = Objects.empty()._replace(group=np.empty(0, np.int32))
        if snapshot is not None:
            columns = {"score": "f8", "time": "i8", "id": "i8", "group": "i4"}
            found = validate(snapshot, {name: typed_column(kind, "rows") for name, kind in columns.items()})
            self._rows, self._reached = Objects(**found), int(snapshot["reached"][0])

    def advance(self, parts, upto):
        new = parts.get("rows")
        if new is not None:
            group = np.zeros(len(new.id), np.int32) if new.group is None else new.group
            columns = zip(self._rows, new._replace(group=group), strict=True)
            self._rows = Objects(*map(np.concatenate, columns))
        first, last = self.assigner.first(self._rows.time), self.assigner.last(self._rows.time)
        lists = {}
        for score, id, group, low, high in zip(
            self._rows.score, self._rows.id, self._rows.group, first, last, strict=True
        ):
            for window in range(low, high + 1):
                if self._reached < self.assigner.end(window) <= upto:
                    lists.setdefault((window, group), []).append((score, id))
        self._rows = self._rows.take(self.assigner.end(last) > upto)
        self._reached = max(self._reached, upto)
        return _answers(self.assigner, lists)

    def live_rows(self):
        return self._rows.id

    def candidates(self):
        return len(self._rows.id)

    def active_groups(self):
        return np.unique(self._rows.group).astype(np.int64)

    def keep_groups(self, keep):
        self._rows = self._rows._replace(group=np.searchsorted(keep, self._rows.group).astype(np.int32))

    def snapshot(self):
        return {**self._rows._asdict(), "reached": np.array([self._reached])}


def _answers(assigner, lists):
    """The best and the worst of each list, in the order of windows and groups."""
    window, group = np.array(sorted(lists), np.int64).reshape(-1, 2).T
    ranked = [sorted(lists[key], reverse=True) for key in sorted(lists)]
    ends = [found if len(found) == 1 else [found[0], found[-1]] for found in ranked]
    score, id = np.array([row for each in ends for row in each]).reshape(-1, 2).T
    first = np.cumsum([0, *map(len, ends)])
    return Answers(window, assigner.end(window), group.astype(np.int32), first, id.astype(np.int64), score)


def extremes(rows, size, slide):
    """What the oracle says: {(window end, sensor): ids}."""
    found = {}
    for sensor, mine in by_sensor(rows).items():
        for window, ranked in oracle.sliding(mine, len(mine), size, slide):
            ids = [row[2] for row in ranked]
            found[window * slide + size, sensor] = ids[:1] + ids[1:][-1:]
    return found


QUERY = sb.TopK(k=2, by="value", window=sb.Sliding("60 s", "20 s"), time="ts", id="id", per="sensor")


def test_a_new_operator_runs_in_process(monkeypatch):
    monkeypatch.setattr("skyband.operators.plan.plan", lambda query, *_, **__: ExtremesSpec(query))  # its registry line
    rows = readings()
    want = extremes(rows, 60, 20)
    assert shown(sb.run(QUERY, rows)) == want
    assert shown(sb.run(QUERY, iter(batches(rows)), late=f"{LATE} s")) == want


def test_a_new_operator_runs_on_spark_without_a_line_for_it():
    rows = readings()
    spec = pickle.loads(pickle.dumps(ExtremesSpec(QUERY)))  # noqa: S301 - our own
    got, counters = streamed(spec, batches(rows), LATE)
    newest = last_watermark(rows)
    want = {key: ids for key, ids in extremes(rows, 60, 20).items() if key[0] <= newest}
    assert shown(got) == want
    assert counters["late_rows"] == 0
    assert counters["rows"] == rows.num_rows


def test_buffered_rows_stay_unless_only_the_best_count(monkeypatch):
    monkeypatch.setattr("skyband.operators.plan.plan", lambda query, *_, **__: ExtremesSpec(query))
    monkeypatch.setattr("skyband.runtime.batch._MAX_ROWS", 10)
    rows = readings()
    assert shown(sb.run(QUERY, iter(batches(rows, 7)), late="30 s")) == extremes(rows, 60, 20)


def test_only_what_the_combiner_selects_crosses_the_shuffle():
    rows = readings(rows=600)
    blobs = [packed(spec, rows)[0]["blob"] for spec in (ExtremesSpec(QUERY), plan(QUERY))]
    sizes = [pa.ipc.open_stream(each[0]).read_all().num_rows for each in blobs]
    panes = {(sensor, row[1] // 20) for sensor, mine in by_sensor(rows).items() for row in mine if row[0] is not None}
    assert len(panes) < min(sizes) <= max(sizes) <= 2 * len(panes) < rows.num_rows


# ------------------------------------------------------------ a window kind


class Centered(sb.Sliding):
    """Windows around every multiple of `every`, reaching `radius` to both sides."""

    def __init__(self, radius, every):
        half = sb.Tumbling(radius).size
        super().__init__(2 * half, every, origin=-half)


AROUND = replace(QUERY, window=Centered("25 s", "20 s"))


def around(rows, k=2):
    """What the oracle says of the windows of `AROUND`."""
    found = {}
    for sensor, mine in by_sensor(rows).items():
        for window, ranked in oracle.sliding(mine, k, 50, 20, origin=-25):
            found[window * 20 + 25, sensor] = [row[2] for row in ranked]
    return found


@pytest.mark.parametrize(
    "engine", [name for name, entry in sb.ENGINES.items() if entry.traits.exact and "slide" in entry.traits.windows]
)
def test_a_new_window_kind_is_served_by_every_exact_engine(engine):
    rows = readings()
    assert shown(sb.run(AROUND, rows, engine=engine)) == around(rows)


def test_a_new_window_kind_runs_on_spark_without_a_line_for_it():
    rows = readings()
    got, _ = streamed(plan(AROUND), batches(rows), LATE)
    newest = last_watermark(rows)
    assert shown(got) == {key: ids for key, ids in around(rows).items() if key[0] <= newest}


def test_a_new_window_kind_serves_workloads_leaderboards_and_new_operators(monkeypatch):
    rows = readings()
    wide = replace(AROUND, k=5, name="wide")
    got = sb.run([AROUND, wide], rows)
    assert shown(got.filter(pc.equal(got["query"], "wide"))) == around(rows, 5)
    most = sb.run(sb.TopK(k=1, of="sensor", by="count(*)", window=AROUND.window, time="ts"), rows)
    assert seconds(most["window_end"][0].as_py()) % 20 == 5
    monkeypatch.setattr("skyband.operators.plan.plan", lambda query, *_, **__: ExtremesSpec(query))
    assert {key: ids[:1] for key, ids in shown(sb.run(AROUND, rows)).items()} == around(rows, 1)
