"""A view over a table agrees with sorting the table, whatever changes, whatever fails and however slow it is."""

import math
import threading
import time

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import skyband as sb
from skyband.tables import ArrayTable
from skyband.view.core import Core
from skyband.view.policy import Adaptive, Fixed, Modelled, Root, Seen
from skyband.view.restore import resumed
from skyband.view.stats import Meter
from skyband.view.swings import Stretch, Swing, Swings


class Trouble(ArrayTable):
    """A table that fails when told to, waits when told to, and remembers what it was asked."""

    def __init__(self, value):
        super().__init__(value)
        self.failing, self.gate, self.asked, self.passed = 0, None, [], 0

    def ranked(self, by, columns, *, ascending=False):
        super().ranked(by, columns, ascending=ascending)
        self._sign = -1.0 if ascending else 1.0
        return self

    def top(self, n, below=None):
        self.asked.append((n, below))
        found = super().top(n, below)
        if self.gate is not None:  # the rows are as of now, but come later
            opened = self.gate.wait(20)
            self.passed += 1
            assert opened
        if self.failing:
            self.failing -= 1
            raise sb.TableError("out of order", retry_after=0.0)
        return found


def naive(values, k, *, ascending=False):
    """(score, id) of the k best rows."""
    ranked = [(-v if ascending else v, i) for i, v in enumerate(values) if not math.isnan(v)]
    return [(-s if ascending else s, i) for s, i in sorted(ranked, reverse=True)[:k]]


def told(view):
    table = view.read()
    return list(zip(table["score"].to_pylist(), table["id"].to_pylist(), strict=True))


values = st.one_of(st.integers(0, 5).map(float), st.sampled_from([math.nan, math.inf, -0.0]))
tables = st.lists(values, min_size=1, max_size=20)
changes = st.lists(st.tuples(st.integers(0, 19), values), max_size=40)


@settings(max_examples=60)
@given(tables, changes, st.integers(1, 5), st.integers(0, 6), st.booleans(), st.integers(1, 7))
def test_a_view_agrees_with_sorting(start, changes, k, more, ascending, batch):
    table = ArrayTable(np.array(start + [math.nan] * (20 - len(start))))
    view = sb.View(table, k, "value", kmax=k + more, ascending=ascending)
    assert told(view) == naive(table.value, k, ascending=ascending)
    for low in range(0, len(changes), batch):
        part = changes[low : low + batch]
        for i, v in part:
            table.value[i] = v
        view.apply({"id": [i for i, _ in part], "value": [v for _, v in part]})
        view._core._check()
        assert view.complete
        assert told(view) == naive(table.value, k, ascending=ascending)
    assert view.size <= k + more
    assert sum(view._core.counts) == len(changes) == view.stats.updates


@settings(max_examples=60)
@given(st.data(), tables, st.integers(1, 4), st.integers(0, 5))
def test_old_versions_never_win(data, start, k, more):
    """Changes of a row may come in any order and more than once: the newest version counts."""
    table = ArrayTable(np.array(start + [math.nan] * (20 - len(start))))
    view = sb.View(table, k, "value", kmax=k + more, ordered=False)
    rows = data.draw(st.lists(st.tuples(st.integers(0, 19), values), max_size=25))
    log = [(i, v, n) for n, (i, v) in enumerate(rows)]
    for i, v, _ in log:  # the table is ahead of its change stream
        table.value[i] = v
    order = data.draw(st.permutations([*log, *log[:5]]))
    for i, v, n in order:
        view.apply({"id": [i], "value": [v], "_version": [n]})
    assert told(view) == naive(table.value, k)


class Behind(ArrayTable):
    """A copy of a table, asked at whatever state it has come to: before or after what the stream has told."""

    def ranked(self, by, columns, *, ascending=False):
        del by, columns, ascending
        return self


@settings(max_examples=60)
@given(st.data(), tables, st.integers(1, 4), st.integers(0, 4))
def test_a_refill_brings_no_old_row_back(data, start, k, more):
    """The table that is asked may be behind the stream or ahead of it, and the stream out of order."""
    log = data.draw(st.lists(st.tuples(st.integers(0, 19), values), max_size=25))
    begin = np.array(start + [math.nan] * (20 - len(start)))
    copy = Behind(begin.copy())
    view = sb.View(copy, k, "value", kmax=k + more, ordered=False)
    order = data.draw(st.permutations(range(len(log))))
    upto = 0
    for heard, n in enumerate(order):
        upto = max(upto, data.draw(st.integers(0, len(log))))  # how far the copy has come
        copy.value[:] = begin
        for i, v in log[:upto]:
            copy.value[i] = v
        view.apply({"id": [log[n][0]], "value": [log[n][1]], "_version": [n]})
        if heard == len(order) // 2:
            view = resumed(sb.View, copy, view.save(), {"kmax": k + more, "ordered": False})
    for i, v in log:
        begin[i] = v
    view._core._check()
    assert told(view) == naive(begin, k)


def test_what_was_told_is_remembered_until_it_is_forgotten(tmp_path):
    """A row that left while its copy in the table is old comes back by no refill; its columns are the stream's."""
    pytest.importorskip("sqlalchemy")
    rows = {"name": list("abcde"), "x": [5.0, 4.0, 3.0, 2.0, 1.0], "note": list("vwxyz")}
    with sb.tables.open_table(f"sqlite:///{tmp_path}/a.db", "stock", key="name", rows=rows) as table:
        view = sb.View(table, 2, "x", kmax=2, columns=["note"], ordered=False)
        change = {"name": ["d", "a", "b"], "x": [3.5, None, None], "note": ["new", None, None]}
        view.apply({**change, "_change_type": ["update", "delete", "delete"], "_version": [7, 8, 9]})
        assert [(r["score"], r["name"], r["note"]) for r in view.read().to_pylist()] == [
            (3.5, "d", "new"),
            (3.0, "c", "x"),
        ]
        view.apply({"name": ["a"], "x": [9.0], "note": ["old"], "_version": [7]})
        assert view.stats.stale == 1
        view.forget(8)
        assert view.save()["seen_version"].tolist() == [9]
        with pytest.raises(sb.SchemaError, match="lacks the column '_version'"):
            view.apply({"name": ["a"], "x": [9.0], "note": ["old"]})


def test_a_view_tells_what_changed():
    table = ArrayTable(np.array([9.0, 7.0, 5.0, 3.0]))
    view = sb.View(table, 2, "value", kmax=3)
    assert view.changes()["_change_type"].to_pylist() == ["insert", "insert"]
    view.apply({"id": [3, 0], "value": [8.0, 9.5]})
    columns = ["_change_type", "rank", "score", "id"]
    assert [tuple(r.values()) for r in view.changes().select(columns).to_pylist()] == [
        ("delete", 2, 7.0, 1), ("update_preimage", 1, 9.0, 0), ("update_postimage", 1, 9.5, 0), ("insert", 2, 8.0, 3),
    ]  # fmt: skip
    assert view.changes().num_rows == 0
    view.apply({"id": [3], "value": [10.0]})
    assert view.changes(ranks=True)["_change_type"].to_pylist() == ["update_preimage", "update_postimage"] * 2


@settings(max_examples=40)
@given(tables, changes, st.integers(1, 4), st.integers(1, 5), st.integers(0, 40))
def test_changes_during_a_refill_are_not_lost(start, changes, k, more, late):
    """The table answers with what it held when it was asked, after more has changed."""
    table = Trouble(np.array(start + [math.nan] * (20 - len(start))))
    view = sb.View(table, k, "value", kmax=k + more, refill_at=k + 1)
    table.gate = threading.Event()
    for n, (i, v) in enumerate(changes):
        table.value[i] = v
        view.apply({"id": [i], "value": [v]})
        if n == late:
            table.gate.set()
            view.settle()
            table.gate = threading.Event()
    table.gate.set()
    table.gate = None
    assert view.settle(20) or view.refill()
    view._core._check()
    assert told(view) == naive(table.value, k)


def test_a_failed_refill_leaves_the_view_incomplete_until_the_table_answers():
    table = Trouble(np.arange(10.0))
    view = sb.View(table, 3, "value", kmax=3)
    table.failing = 2
    table.value[9] = math.nan
    view.apply({"id": [9], "value": [None], "_change_type": ["delete"]})
    assert (view.complete, view.stats.failed_refills, told(view)) == (False, 1, [(8.0, 8), (7.0, 7)])
    assert str(view.trouble) == "out of order"
    view.apply({"id": [0], "value": [0.5]})
    assert (view.complete, view.stats.failed_refills) == (False, 2)
    view.apply({"id": [0], "value": [0.25]})
    assert (view.complete, view.stats.refills, told(view)) == (True, 1, [(8.0, 8), (7.0, 7), (6.0, 6)])


def test_a_refill_asks_only_for_what_is_missing():
    table = Trouble(np.arange(10.0))
    view = sb.View(table, 3, "value", kmax=5)
    assert table.asked == [(5, None)]
    for i in (9, 8, 7):
        table.value[i] = 0.0
        view.apply({"id": [i], "value": [0.0]})
    assert table.asked[1:] == [(3, (5.0, 5))]
    assert told(view) == [(6.0, 6), (5.0, 5), (4.0, 4)]


def test_readers_do_not_wait_for_an_eager_refill():
    table = Trouble(np.arange(1000.0))
    view = sb.View(table, 10, "value", kmax=20, refill_at=15)
    table.gate = threading.Event()
    gone = np.arange(999, 993, -1)
    table.value[gone] = np.nan
    view.apply({"id": gone, "value": np.full(6, np.nan)})
    assert [i for _, i in told(view)] == list(range(993, 983, -1))
    assert view.complete
    assert table.passed == 0, "the reader waited for the refill"
    table.gate.set()
    assert view.settle(20)
    assert (view.size, view.stats.refills) == (20, 1)


def test_the_four_kinds_of_change():
    view = sb.View(ArrayTable(np.array([9.0, 7.0, 5.0, 3.0, 1.0])), 2, "value", kmax=3)
    for i, v in [(4, 2.0), (0, 6.0), (3, 8.0), (1, 0.0)]:
        view.apply({"id": [i], "value": [v]})
    assert view._core.counts == (1, 1, 1, 1, 0)


def test_other_columns_and_text_keys_come_along(tmp_path):
    pytest.importorskip("sqlalchemy")
    table = sb.tables.open_table(f"sqlite:///{tmp_path}/shop.db", "stock", key="name", rows={
        "name": ["fig", "pear", "plum", "kiwi", "lime"], "price": [3.0, 5.0, 5.0, 1.0, None], "note": list("abcde"),
    })  # fmt: skip
    view = sb.View(table, 2, "price * 2", kmax=3, columns=["note"])
    assert sorted(view.read()["name"].to_pylist()) == ["pear", "plum"]
    view.apply({"name": ["kiwi", "lime"], "price": [7.0, 0.5], "note": ["x", "y"]})
    assert view.read().to_pylist()[0] == {"rank": 1, "score": 14.0, "name": "kiwi", "note": "x"}


def test_a_view_survives_a_restart_or_is_built_again():
    table = ArrayTable(np.arange(20.0))
    view = sb.View(table, 3, "value", kmax=6)
    table.value[19] = 0.5
    view.apply({"id": [19], "value": [0.5]})
    saved = view.save()
    table.value[18] = 100.0  # not in any log, so the view is built again
    again = sb.View.restore(table, saved, kmax=6)
    assert told(again) == naive(table.value, 3)
    with pytest.raises(sb.SnapshotError, match="this is no saved view"):
        sb.View.restore(table, {"id": np.zeros(1)})


def test_a_view_that_is_saved_after_every_batch_watches_its_size_as_one_that_goes_on():
    """As on Spark, where each batch finds the view in its state."""
    rng = np.random.default_rng(5)
    table = ArrayTable(rng.normal(size=500))
    one = sb.View(table, 3, "value", kmax=40)
    other = resumed(sb.View, table, one.save(), {})
    for turn in range(50):
        ids = rng.choice(500, 1 + turn, replace=False)
        table.value[ids] = rng.normal(size=len(ids))
        for view in (one, other):
            view.apply({"id": ids, "value": table.value[ids]})
        saved = other.save()
        other = resumed(sb.View, table, saved, {})
    assert saved["swings"].tolist() == one.save()["swings"].tolist()
    mine, its = one._filling.meter, other._filling.meter
    assert (its._swings.count, its.due, its.updates) == (50, mine.due, mine.updates)
    assert its._laws == mine._swings.laws(one.kmax)
    old = resumed(sb.View, table, {name: value for name, value in saved.items() if name != "swings"}, {})
    assert old._filling.meter.updates == 0  # nothing is known of how far the size fell in those before
    for at, wrong in (((0, 0), -1.0), ((0, 2), 0.0), ((1, 0), 0.0), ((1, 1), 0.0), ((2, 2), -1.0), ((3, 4), np.nan)):
        bad = saved["swings"].copy()
        bad[at] = wrong
        for swings in (bad, bad[:0], bad[:, :5], bad[[0, *[1] * 65]]):
            with pytest.raises(sb.SnapshotError):
                resumed(sb.View, table, {**saved, "swings": swings}, {})


def test_policies():
    seen = Seen(10, 100, 10_000, 9, 9, 1000, 5, 5, 1.0, 1e-4)
    printed = Adaptive(share=1, watch=False)
    assert [p.start(10, 10_000) for p in (Fixed(50), Root(), Adaptive(), printed, Modelled())] == [
        50,
        110,
        91,
        251,
        110,
    ]
    assert printed.refilled(seen) == 150  # T = 1,000 is far below Z0 = 10,000: by half more at most
    assert printed.refilled(seen._replace(updates=4000)) == 125
    assert printed.refilled(seen._replace(updates=9000)) == 100
    assert printed.rested(seen._replace(updates=30_000, least=50)) == (80, 10_000)
    assert printed.rested(seen._replace(updates=30_000, least=2)) == (100, 10_000)  # a table of fewer than k rows
    walk, wild = Swing(1000.0, 5e8), Swing(10_000.0, 5e8)  # 10 rows and 100 in 50,000 updates
    calm = seen._replace(updates=50_000, swing=walk, walk=walk)
    assert Adaptive().rested(calm) == (18, 50_000)
    assert Adaptive().rested(calm._replace(swing=Swing(5.0, 1e4))) == (15, 50_000)  # it swings about a mean
    assert Adaptive().rested(calm._replace(swing=wild)) == (56, 50_000)
    assert Adaptive().rested(calm._replace(relevant=0.0)) == (100, 50_000)  # spare rows cost nothing
    assert Adaptive().rested(calm._replace(refill_cost=0.0)) == (11, 50_000)  # refills cost nothing
    assert Adaptive().refilled(seen._replace(walk=walk, swing=Swing(5.0, 1e4))) == 150  # by half, as printed
    wilder = Swing(40_000.0, 5e8)
    assert Adaptive().refilled(seen._replace(kmax=40, walk=wilder, swing=walk)) == 171  # as far as a walk may fall
    assert Adaptive().refilled(seen._replace(kmax=1000)) == 1010  # capped: k + 10 * sqrt(rows)
    up, down = seen._replace(updates=100_000, good=40_000, bad=30_000), seen._replace(updates=100, good=10, bad=60)
    assert Modelled().refilled(up) < Modelled().refilled(up._replace(good=30_000)) < 1010
    assert Modelled().refilled(down) == 1010
    lucky = seen._replace(updates=1000, good=10, bad=20)  # no proof that p > q
    assert Modelled().refilled(lucky) == Modelled().refilled(lucky._replace(good=20)) < 1010
    rare = seen._replace(kmax=1000, updates=10_000_000, good=100, bad=100)
    assert Modelled().rested(rare) == (13, 10_000_000)  # n (n + 1) / 2p reaches 1.83 * 10 K / 0.05 at n = 3
    assert Modelled().rested(rare._replace(updates=900)) == (1000, 900)


@pytest.mark.parametrize("calm", [1e6, 1e7, 1e12])
@pytest.mark.parametrize("refill_cost", [0.001, 0.1, 10.0])
def test_the_adaptive_kmax_shrinks_to_where_rows_and_refills_are_expected_to_cost_least(calm, refill_cost):
    scale = 60 / math.sqrt(math.log1p(1e7 / calm))  # 60 rows in ten million updates
    seen = Seen(100, 1100, 10**6, 900, 900, 10**7, 9, 9, refill_cost, 1e-9, 0.002, Swing(scale, calm))
    found = Adaptive().rested(seen)[0] - 100

    def cost(n):
        a_row = 750 * 0.002 / (1 + 750 * 0.002) / 1100
        usual = n / scale * math.sqrt(1100 / (100 + n))  # a view of that size falls less far
        return n * a_row * 1e-9 + refill_cost / (math.pi / 2 * calm * math.expm1(min(usual**2, 500)))

    least = min(range(1, 4000), key=cost)
    assert cost(found) <= 1.01 * cost(least) if least < 0.95 * 1100 - 100 else found == 1000


def stretches(level):
    """A walk as batches tell it, ten steps each."""
    for at in range(0, len(level) - 10, 10):
        piece = level[at : at + 11] - level[at]
        fall = (np.maximum.accumulate(piece) - piece).max()
        yield Stretch(1000, fall, piece.max(), piece.min(), piece[-1])


def test_stretches_of_all_lengths_are_put_together_from_short_ones():
    level = np.cumsum(np.random.default_rng(1).integers(-2, 3, 641))
    whole, swings = Stretch(0, 0, 0, 0, 0), Swings()
    for one in stretches(level):
        swings.add(one, 10)
        whole = whole.then(one)
    piece = level - level[0]
    assert whole == (64_000, (np.maximum.accumulate(piece) - piece).max(), piece.max(), piece.min(), piece[-1])
    assert swings.count == 64
    assert swings.falls()[-1] == pytest.approx(whole.fall)
    halves = [(np.maximum.accumulate(h) - h).max() for h in (level[:321], level[320:])]
    assert swings.falls()[-2] == pytest.approx(np.mean(halves))
    before = swings.falls()[-1]
    swings.resized()
    swings.add(one, 40)  # with four times as many rows that come and go it falls twice as far
    assert swings.falls()[-1] == pytest.approx(2 * before)


def test_walks_that_turn_back_are_told_from_walks_that_do_not():
    """Twenty of each, over 256 batches: what is foretold for a hundred times as long, against what then happens."""
    told = {"walk": [], "pulled": []}
    for seed in range(20):
        for kind, pull in (("walk", 0.0), ("pulled", 0.02)):
            rng, level, now = np.random.default_rng(seed), [], 0.0
            for step in rng.normal(scale=2.0, size=2561):
                now += step - pull * now
                level.append(now)
            swings = Swings()
            for one in stretches(np.array(level)):
                swings.add(one, 10)
            swing, walk = swings.laws(rows=10)
            far = swing.scale * math.sqrt(math.log1p(2.56e7 / swing.calm))
            told[kind].append(far)
            assert walk.calm > 1e8
            assert walk.interval(40.0) == pytest.approx(4 * walk.interval(20.0), rel=0.01)
    assert 0.5 < np.median(told["walk"]) / (2 * 1.25 * math.sqrt(256_000)) < 2  # 1.25 * sigma * sqrt(T)
    assert 60 < np.median(told["pulled"]) < 140  # sigma 10: 2 * 10 * sqrt(2 * log(256,000 / 50)) = 83
    few = Swings()
    few.add(Stretch(1000, 3, 2, -1, 0), 10)
    assert few.laws(10)[0] == few.laws(10)[1]  # too early to tell
    assert swing != walk
    swings.belied()
    assert swings.laws(10) == (walk, walk)  # it did not do as it was said to


def test_more_rows_that_leave_than_enter_are_met_with_a_cap_and_a_word(caplog):
    rng = np.random.default_rng(3)
    table = ArrayTable(rng.normal(size=2_000))
    view = sb.View(table, 10, "value", kmax="adaptive")
    for _ in range(60):
        ids, _ = view.top()
        table.value[ids] -= 3.0
        view.apply({"id": ids, "value": table.value[ids]})
    assert told(view) == naive(table.value, 10)
    assert view.kmax <= 10 + 10 * math.ceil(math.sqrt(2_000))
    assert "leave" in caplog.text


def test_reads_and_ignorable_changes_are_fast():
    """5 M changes a second and reads below 20 microseconds, where nothing else runs.

    Only time can tell, so it is that of the processor, the best of three, with a bound that a loop over rows in Python
    (more than a microsecond a row) still breaks.
    """
    rng = np.random.default_rng(0)
    table = ArrayTable(rng.normal(size=200_000))
    view = sb.View(table, 100, "value", kmax=1000)
    ids = rng.integers(0, 200_000, 1_000_000)
    batch = pa.table({"id": ids, "value": rng.normal(size=200_000)[ids] - 10})
    view.apply(batch.slice(0, 1000))
    costs, reads = [], []
    for _ in range(3):
        began = time.process_time()
        view.apply(batch.slice(0, 500_000))
        costs.append((time.process_time() - began) / 500_000)
        began = time.process_time()
        for _ in range(1000):
            view.top()
        reads.append((time.process_time() - began) / 1000)
    assert min(costs) < 5e-7, min(costs)
    assert min(reads) < 1e-4, min(reads)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"k": 0}, "k must be .* got 0"),
        ({"kmax": 1}, "kmax must be an integer from 2 to .* got 1"),
        ({"kmax": "best"}, "kmax='best' is unknown"),
        ({"kmax": object()}, "is no policy"),
        ({"kmax": Adaptive}, "is no policy"),
        ({"kmax": 2.5}, "is no policy"),
        ({"k": 1 << 40}, "k must be .* got 1099511627776"),
        ({"kmax": 1 << 40}, "kmax must be .* got 1099511627776"),
        ({"refill_at": 1}, "refill_at must be an integer from 2 to .* got 1"),
        ({"refill_at": "soon"}, "refill_at must be .* got 'soon'"),
        ({"refill_at": 9, "kmax": 4}, "refill_at=9 is more than kmax=4"),
        ({"by": "exec(x)"}, "is not allowed"),
        ({"by": None}, "by=None cannot be asked of a table"),
        ({"by": len}, "cannot be asked of a table"),
        ({"columns": ["x", "x"]}, "name each column once"),
        ({"columns": 5}, "columns=5 is no list of distinct column names"),
        ({"ascending": "no"}, "ascending='no' is neither yes nor no"),
        ({"ordered": None}, "ordered=None is neither yes nor no"),
        ({"table": {"id": [1]}}, r"is no table of a database: write sb.tables.open_table"),
    ],
)
def test_bad_views_say_what_to_write(change, words):
    with pytest.raises(sb.QueryError, match=words):
        sb.View(**{"table": ArrayTable(np.arange(4.0)), "k": 2, "by": "value", **change})


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Fixed(0), "kmax must be .* got 0"),
        (lambda: Root(-1.0), "factor=-1.0 is no part or multiple: write a number above 0"),
        (lambda: Adaptive(alpha=0.5), "alpha=0.5 is no part or multiple: write a number above 1"),
        (lambda: Adaptive(gamma=2), "gamma=2 takes away more"),
        (lambda: Adaptive(share=0), "share=0 is no part"),
        (lambda: Modelled(cap="much"), "cap='much' is no part"),
    ],
)
def test_bad_policies_say_what_to_write(make, words):
    with pytest.raises(sb.QueryError, match=words):
        make()


def test_bad_changes_say_what_is_wrong():
    view = sb.View(ArrayTable(np.arange(4.0)), 2, "value", kmax=3)
    with pytest.raises(sb.SchemaError, match="lacks the key column 'id'"):
        view.apply({"value": [1.0]})
    with pytest.raises(sb.SchemaError, match="_change_type is 'upsert'"):
        view.apply({"id": [1], "value": [1.0], "_change_type": ["upsert"]})
    for change, words in [
        ({"id": [1]}, "lacks the column 'value', which by='value' uses"),
        ({"id": [None], "value": [9.0]}, "key 'id' is NULL"),
        ({"id": ["x"], "value": [9.0]}, "column 'id' is int64 in the table and string in its changes"),
        ({"id": [1.5], "value": [9.0]}, "column 'id' is int64 in the table and double in its changes"),
        ({"id": [1], "value": [9.0], "_version": ["x"]}, "_version is string"),
        ({"id": [1], "value": [9.0], "_version": [None]}, "_version is NULL"),
    ]:
        with pytest.raises(sb.SchemaError, match=words):
            view.apply(change)
    assert told(view) == [(3.0, 3), (2.0, 2)]
    view.apply({"id": [3], "_change_type": ["delete"]})  # what is gone has no columns
    assert told(view) == [(2.0, 2), (1.0, 1)]


def test_a_view_that_was_saved_takes_few_options(tmp_path):
    view = sb.View(ArrayTable(np.arange(4.0)), 2, "value", kmax=3)
    for options, words in [({"k": 3}, "k=3 cannot be given here"), ({"kmin": 3}, "write one of kmax, refill_at")]:
        with pytest.raises(sb.QueryError, match=words):
            sb.View.restore(view.table, view.save(), **options)
    for policy in (5, "sqrt", Adaptive(share=1, watch=False)):
        view = sb.View(view.table, 2, "value", kmax=policy, refill_at=3)
        again = sb.View.restore(view.table, view.save())  # there is no log: it is built again
        went_on = resumed(sb.View, view.table, view.save(), {})
        for one in (again, went_on):
            assert (one._filling.policy, one._filling.refill_at) == (view._filling.policy, 3)
    assert sb.View.restore(view.table, view.save(), kmax=7)._filling.policy == Fixed(7)
    with pytest.raises(sb.SnapshotError, match="write ordered=True"):
        sb.View.restore(view.table, view.save(), ordered=False)
    with pytest.raises(sb.SnapshotError, match="a folder that exists"):
        view.save(tmp_path / "none" / "view.arrow")


def test_rows_that_come_during_a_refill_are_no_more_than_kmax():
    """The table is asked for what was missing then; more have entered when it answers."""
    table = Trouble(np.arange(100.0))
    view = sb.View(table, 4, "value", kmax=6, refill_at=5)
    for turn in range(5):
        best = view.top()[0][:2]
        table.gate = threading.Event()
        table.value[best] = np.nan
        view.apply({"id": best, "value": [None, None]})
        table.value[turn] = 200.0 + turn
        view.apply({"id": [turn], "value": [200.0 + turn]})
        table.gate.set()
        assert view.settle(20)
        assert 4 <= view.size <= 6
        view._core._check()
    assert view.stats.refills > 1
    assert told(view) == naive(table.value, 4)


class Shrinking:
    """A policy of a user's own: it takes rows away whenever it is asked, and some that the view needs."""

    def start(self, k, rows):
        del rows
        return k + 6

    def refilled(self, seen):
        return seen.kmax

    def rested(self, seen):
        return max(seen.kmax - 2, 0), seen.updates


@pytest.mark.parametrize("kmax", [8, Shrinking()])
def test_rows_that_were_let_go_during_a_refill_are_asked_for_again(kmax):
    """The answer goes on below what the view had when it asked; since then it was full, or was made smaller."""
    table = Trouble(np.arange(40.0))
    view = sb.View(table, 2, "value", kmax=kmax, refill_at=7)
    table.gate = threading.Event()
    table.value[38:] = np.nan
    view.apply({"id": [38, 39], "value": [np.nan, np.nan]})
    now = table.value.copy()  # the table answers with what it holds at this moment
    for ids, value in (([0, 1, 2], 100.0), ([35, 36, 37], 0.0), ([0, 1, 2, 34], 0.0)):
        if 34 in ids:
            table.gate.set()
            assert view.settle(20)
            table.value = now
        now[ids] = value
        view.apply({"id": ids, "value": now[ids]})
    assert view.settle(20)
    view._core._check()
    assert told(view) == naive(now, 2) == [(33.0, 33), (32.0, 32)]


def test_a_policy_takes_no_rows_away_that_are_read():
    table = ArrayTable(np.arange(20.0))
    view = sb.View(table, 3, "value", kmax=Shrinking())
    assert view.kmax == 9
    for turn in range(5):
        table.value[turn] = 0.5
        view.apply({"id": [turn], "value": [0.5]})
    assert (view.kmax, view.size, view.stats.refills) == (3, 3, 0)
    assert told(view) == naive(table.value, 3)


def test_a_view_that_is_refilled_early_keeps_its_spare_rows_beyond_that():
    table = ArrayTable(np.arange(100.0))
    assert [sb.View(table, 2, "value", refill_at=n).kmax for n in (None, 2, 30)] == [12, 12, 40]
    view = sb.View(table, 2, "value", kmax=Shrinking(), refill_at=5)
    assert view.kmax == 11
    for turn in range(6):
        view.apply({"id": [turn], "value": [0.0]})
    assert (view.kmax, view.size, view.stats.refills) == (5, 5, 0)


class Listening(Fixed):
    """A policy of a user's own that notes when it was asked."""

    asked = ()

    def rested(self, seen):
        Listening.asked += (seen.updates,)
        return super().rested(seen)


def test_a_batch_of_one_row_says_little_of_what_an_update_costs():
    core, meter = Core(10), Meter(2)
    core.apply(np.arange(20), np.arange(20.0))
    meter.account(core, 20_000, 20e-6)
    assert (meter.update_cost, meter.relevant) == (pytest.approx(1e-9), 20 / 20_000)
    core.apply(np.array([30]), np.array([30.0]))
    meter.account(core, 1, 10e-6)
    assert meter.update_cost < 2e-9
    assert meter.relevant == pytest.approx(20 / 20_000, rel=0.1)
    for _ in range(40):
        meter.account(core, 20_000, 60e-6)
    assert meter.update_cost == pytest.approx(3e-9, rel=0.01)


def test_a_policy_is_asked_soon_after_a_refill_however_long_the_view_has_been_there():
    table = ArrayTable(np.arange(10.0))
    view = sb.View(table, 2, "value", kmax=Listening(3))
    Listening.asked = ()

    def rest(batches):
        for _ in range(batches):
            view.apply({"id": [0], "value": [0.0]})

    rest(300)
    first = (1, 4, 13, 32, 39, 47, 57)
    assert Listening.asked[:7] == first
    assert len(Listening.asked) < 20
    table.value[8:] = 0.0
    view.apply({"id": [8, 9], "value": [0.0, 0.0]})
    assert view.stats.refills == 1
    Listening.asked = ()
    rest(60)
    assert Listening.asked == first


def test_every_refill_but_the_first_belies_what_was_foretold():
    table = ArrayTable(np.arange(100.0))
    view = sb.View(table, 2, "value", kmax=3)
    swings = view._filling.meter._swings
    for turn in range(40):
        view.apply({"id": [turn], "value": [0.0]})
    assert swings._enough == 32
    table.value[98:] = 0.0
    view.apply({"id": [98, 99], "value": [0.0, 0.0]})
    assert (view.stats.refills, swings._enough) == (1, 2 * 41)
    for turn in range(97, 17, -2):
        view.apply({"id": [turn, turn - 1], "value": [0.0, 0.0]})
    assert view.stats.refills > 40
    assert swings._enough <= 2 * swings.count  # refills now and then may be the cheapest: its falls are still looked at


def test_changes_that_are_applied_again_after_a_refill_are_no_falls():
    table = Trouble(np.arange(40.0))
    view = sb.View(table, 2, "value", kmax=8, refill_at=7)
    table.gate = threading.Event()
    table.value[38:] = np.nan
    view.apply({"id": [38, 39], "value": [np.nan, np.nan]})
    view.apply({"id": [31], "value": [0.0]})  # it is outside; but the table gives it as it was
    table.gate.set()
    assert view.settle(20)
    assert (view.size, view._filling.meter.least) == (7, 7)
    assert view._core.take_stretch(0) == (0, 0, 0, 0, 0)


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 30), values), max_size=60), st.integers(1, 8), st.integers(1, 8))
def test_the_core_keeps_the_best_whatever_its_size(changes, kmax, other):
    core, now = Core(kmax), {}
    for n, (i, v) in enumerate(changes):
        core.apply(np.array([i]), np.array([v]))
        now[i] = v
        core._check()
        if n == 20:
            core.resize(other)
    again = Core.resume(core.snapshot())
    ranked = sorted(((v, i) for i, v in now.items() if not math.isnan(v)), reverse=True)
    known = [r for r in ranked if core.bound is None or r >= core.bound]
    for one in (core, again):
        one._check()
        assert list(zip(one.top(99)[1].tolist(), one.top(99)[0].tolist(), strict=True)) == known
