"""The design tests: what a new engine, window kind or operator needs, and nothing else."""

import inspect

import numpy as np
import pytest

import oracle
import skyband as sb
from skyband.engines import Answers, EngineEntry, Objects, Traits
from skyband.engines.protocol import OneGroupEngine
from skyband.windows import WindowAssigner

# ---------------------------------------------------------------- an engine: one module, one entry of the registry


class SortEveryWindow(OneGroupEngine):
    """Keep every row, and sort the rows of each window that closes."""

    def __init__(self, family, resume=None, *, reserve=0):
        self._assigner, self._k = WindowAssigner.of(family.query.window), family.query.k
        self._rows = Objects.empty() if resume is None else Objects.restore(resume)
        self._done = -(1 << 62) if resume is None else int(resume["done"])
        self.peak = reserve

    def advance(self, arrivals, upto, moved=None):  # noqa: ARG002 - of the protocol
        goal, assigner = int(np.asarray(upto).item()), self._assigner
        self._rows = Objects.concat([self._rows, arrivals])
        held = (np.arange(assigner.first(time), assigner.last(time) + 1) for time in self._rows.time.tolist())
        steps = np.unique(np.concatenate([np.empty(0, np.int64), *held]))
        ends = assigner.end(steps)
        steps = steps[(ends > self._done) & (ends <= goal)]
        lists = [self._best(assigner.start(step), assigner.end(step)) for step in steps]
        rows, self._done = Objects.concat(lists), goal
        first, group = np.cumsum([0, *(len(one.id) for one in lists)]), np.zeros(len(steps), np.int32)
        self._rows = self._rows.take(self._rows.time >= goal - assigner.size)
        return Answers(steps, assigner.end(steps), group, first, rows.id, rows.score)

    def _best(self, start, end):
        inside = (self._rows.time >= start) & (self._rows.time < end)
        return self._rows.take(inside).by_rank().take(slice(self._k))

    def candidates(self):
        return self._rows.by_rank()

    def snapshot(self):
        return {**self._rows.snapshot(), "done": np.array(self._done)}


ENTRY = EngineEntry(
    "sort_every_window",
    f"{__name__}:SortEveryWindow",
    Traits(windows=frozenset({"slide"}), minimal=False, cost="O(n log n)", memory="every row", paper="none"),
    options=("reserve",),
)


@pytest.fixture
def registered(monkeypatch):
    monkeypatch.setattr(sb.ENGINES, "_entries", dict(sb.ENGINES._entries))
    sb.ENGINES.register(ENTRY)
    return ENTRY.name


@pytest.fixture
def rows():
    rng = np.random.default_rng(5)
    return {"t": np.sort(rng.integers(0, 60, 200)), "x": rng.integers(0, 40, 200), "g": rng.choice(["a", "b"], 200)}


def expected(rows, k, size, slide):
    """The oracle's lists, as (window end, score) of each row."""
    drawn = [(float(x), int(t), at) for at, (t, x) in enumerate(zip(rows["t"], rows["x"], strict=True))]
    return [(w * slide + size, row[0]) for w, best in oracle.sliding(drawn, k, size, slide) for row in best]


def query(**options):
    return sb.TopK(**{"k": 3, "by": "x", "window": sb.Sliding("10 us", "5 us"), "time": "t", "unit": "us", **options})


def answers(table):
    ends = table["window_end"].cast("int64").to_pylist()
    return list(zip(ends, table["score"].to_pylist(), strict=True))


def test_an_engine_is_a_class_and_an_entry_of_the_registry(registered, rows):
    assert answers(sb.run(query(), rows, engine=registered)) == expected(rows, 3, 10, 5)
    assert sb.explain(query(), engine=registered).engine == registered


def test_groups_and_workloads_need_no_line_of_the_engine(registered, rows):
    per = query(per="g")
    assert sb.run(per, rows, engine=registered).equals(sb.run(per, rows))
    several = [query(name="a"), query(name="b", k=1, window=sb.Sliding("20 us", "10 us"))]
    assert sb.run(several, rows, engine=registered).equals(sb.run(several, rows))


def test_options_and_windows_of_an_engine_are_checked_by_its_entry(registered, rows):
    assert sb.run(query(), rows, engine=registered, options={"reserve": 5}).num_rows
    with pytest.raises(sb.QueryError, match=f"{registered}.*'depth'.*reserve"):
        sb.run(query(), rows, engine=registered, options={"depth": 5})
    with pytest.raises(sb.QueryError, match=f"engine='{registered}' does not serve"):
        sb.run(query(window=sb.Sliding("10 us", "row")), rows, engine=registered)


def test_a_name_is_registered_once(registered):
    with pytest.raises(sb.QueryError, match=registered):
        sb.ENGINES.register(ENTRY)


def test_every_entry_of_the_registry_names_a_class():
    for entry in sb.ENGINES.values():
        parameters = inspect.signature(entry.engine_class()).parameters
        assert list(parameters)[:2] == ["family", "resume"], entry.name
