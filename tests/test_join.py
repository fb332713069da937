"""A join agrees with the naive one wherever it promises to."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import skyband as sb
from joins import join_of, refreshed
from naive_join import counted, top_k
from pipelines import Line
from skyband.tables import History, Memory

SECOND = 1_000_000
USERS = 6

rows_of = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, USERS - 1), st.integers(0, 5)), min_size=1, max_size=40
).map(lambda rows: sorted(rows, key=lambda r: r[0]))
changes_of = st.lists(st.tuples(st.integers(-5, 30), st.integers(0, USERS - 1), st.integers(0, 9)), max_size=30).map(
    lambda rows: sorted([(-10, u, u) for u in range(USERS)] + rows, key=lambda r: r[0])
)
windows_of = st.sampled_from([(10, 5), (10, 4), (6, 6), (9, 3)])


def stream(rows):
    time, user, x = zip(*rows, strict=True)
    return {"t": list(time), "user": list(user), "x": list(x)}


def past(changes):
    """The remote side over time; of several changes at one moment the last holds."""
    latest = {(t, u): y for t, u, y in changes}
    time, user = zip(*latest, strict=True)
    return {"user": list(user), "at": list(time), "y": list(latest.values())}


def known(changes):
    def remote(user, now):
        before = [(t, y) for t, u, y in changes if u == user and t < now]
        return [] if not before else [max(enumerate(before), key=lambda e: (e[1][0], e[0]))[1][1]]

    return remote


def query(size, slide, join, by="x + 2 * y", k=3):
    return sb.TopK(k=k, by=by, window=sb.Sliding(f"{size} s", f"{slide} s"), time="t", unit="s", join=join)


def lists(table, *columns):
    """[(window_start, [row, ...])]."""
    found = {}
    for row in table.to_pylist():
        found.setdefault(row["window_start"], []).append(tuple(row[c] for c in columns))
    return sorted(found.items())


@given(rows_of, changes_of, windows_of)
@settings(max_examples=60)
def test_with_everything_refreshed_and_kept_it_is_the_naive_join(rows, changes, window):
    size, slide = window
    table = History(past(changes), key="user", time="at", unit="s")
    join = sb.Join(table, on="user", columns=["y"], refresh=sb.Refresh("all", budget=100, spare=100))
    found, stats = sb.run(query(size, slide, join), stream(rows), stats=True)
    naive = top_k(rows, known(changes), lambda x, y: x + 2 * y, k=3, size=size, slide=slide)
    assert lists(found, "score", "user", "t") == [(w * slide, best) for w, best in naive]
    assert set(found["status"].to_pylist()) <= {"exact"}
    assert set(found["staleness"].to_pylist()) <= {0.0}
    assert stats.made == stats.wanted
    assert stats.failed == stats.missed_deadline == 0


@given(rows_of, changes_of, windows_of)
@settings(max_examples=40)
def test_a_value_over_the_window_is_exact_in_every_window(rows, changes, window):
    size, slide = window
    table = History(past(changes), key="user", time="at", unit="s")
    join = sb.Join(
        table, on="user", columns=["y"], aggregates={"n": "count(*)"}, refresh=sb.Refresh("all", budget=100, spare=100)
    )
    found = sb.run(query(size, slide, join, by="3 * n + y"), stream(rows))
    naive = counted(rows, known(changes), lambda n, y: 3 * n + y, k=3, size=size, slide=slide)
    assert lists(found, "score", "user") == [(w * slide, best) for w, best in naive]


@given(rows_of, changes_of, windows_of)
@settings(max_examples=40)
def test_many_rows_may_share_a_remote_row(rows, changes, window):
    size, slide = window
    table = History(past(changes), key="user", time="at", unit="s")
    join = sb.Join(table, on="user", columns=["y"], each="row", refresh=sb.Refresh("all", budget=100, spare=100))
    found = sb.run(query(size, slide, join), stream(rows))
    naive = top_k(rows, known(changes), lambda x, y: x + 2 * y, k=3, size=size, slide=slide, each="row")
    assert lists(found, "score", "user", "t") == [(w * slide, best) for w, best in naive]


@given(rows_of, windows_of, st.lists(st.tuples(st.integers(0, USERS - 1), st.integers(0, 9)), max_size=12))
@settings(max_examples=40)
def test_one_row_may_have_many_remote_rows(rows, window, remote):
    size, slide = window
    table = Memory(
        pa.table({"user": pa.array([u for u, _ in remote], pa.int64()), "y": [y for _, y in remote]}), "user"
    )
    join = sb.Join(table, on="user", columns=["y"], refresh=sb.Refresh("all", budget=100, spare=100))
    if not remote:
        return
    found = sb.run(query(size, slide, join), stream(rows))
    of = lambda user, _: [y for u, y in remote if u == user]  # noqa: E731
    naive = top_k(rows, of, lambda x, y: x + 2 * y, k=3, size=size, slide=slide)
    assert lists(found, "score", "user") == [(w * slide, [r[:2] for r in best]) for w, best in naive]


@given(rows_of, changes_of, windows_of, st.sampled_from([0, 1, 3]), st.sampled_from(["bound", "ignore"]))
@settings(max_examples=60)
def test_pushed_changes_and_what_is_called_exact_is(rows, changes, window, spare, unlisted):
    size, slide = window
    pushed = {"user": [u for _, u, _ in changes], "t": [t for t, *_ in changes], "y": [y for *_, y in changes]}
    join = sb.Join(on="user", columns=["y"], changes=pushed, refresh=sb.Refresh(spare=spare, unlisted=unlisted))
    found = sb.run(query(size, slide, join, k=2), stream(rows))
    naive = dict(top_k(rows, known(changes), lambda x, y: x + 2 * y, k=2, size=size, slide=slide))
    for row in found.to_pylist():
        true = naive[row["window_start"] // slide]
        if row["status"] == "exact":
            assert true[row["rank"] - 1][0] == row["score"]
        elif row["status"] == "bound":
            whole = top_k(rows, known(changes), lambda x, y: x + 2 * y, k=99, size=size, slide=slide)
            real = next(s for s, u, _ in dict(whole)[row["window_start"] // slide] if u == row["user"])
            assert real >= row["score"]


@given(rows_of, changes_of, windows_of)
@settings(max_examples=30)
def test_pushed_changes_with_enough_spare_are_the_naive_join(rows, changes, window):
    size, slide = window
    pushed = {"user": [u for _, u, _ in changes], "t": [t for t, *_ in changes], "y": [y for *_, y in changes]}
    join = sb.Join(on="user", columns=["y"], changes=pushed, refresh=sb.Refresh(spare=100))
    found = sb.run(query(size, slide, join), stream(rows))
    naive = top_k(rows, known(changes), lambda x, y: x + 2 * y, k=3, size=size, slide=slide)
    assert lists(found, "score", "user", "t") == [(w * slide, best) for w, best in naive]
    assert set(found["status"].to_pylist()) <= {"exact"}


POLICIES = ["never", "top", "border", "all", "at-lru", "at-wbm", "wsj-rnd", "wsj-lru", "wsj-wbm", "likely"]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("value", [{}, {"n": "count(*)"}])
@given(rows_of, changes_of, windows_of, st.integers(0, 4))
@settings(max_examples=8)
def test_no_policy_looks_up_more_than_it_may(policy, value, rows, changes, window, budget):
    table = History(past(changes), key="user", time="at", unit="s")
    join = sb.Join(
        table, on="user", columns=["y"], aggregates=value, refresh=sb.Refresh(policy, budget=budget, spare=1)
    )
    found = sb.run(query(*window, join), stream(rows))
    for row in found.to_pylist():
        assert policy == "all" or row["lookups"]["wanted"] <= budget


@pytest.mark.parametrize("value", [{}, {"n": "count(*)"}])
@given(rows_of, changes_of, windows_of, st.lists(st.integers(0, 40), max_size=4))
@settings(max_examples=25)
def test_neither_batches_nor_a_restart_matter(value, rows, changes, window, cuts):
    def line():
        table = History(past(changes), key="user", time="at", unit="s")
        join = sb.Join(table, on="user", columns=["y"], aggregates=value, refresh=sb.Refresh(budget=2, spare=1))
        whole = pa.table(stream(rows))
        return Line(query(*window, join), whole.schema), whole

    one, whole = line()
    want = pa.concat_tables([one.push(whole), one.finish()], promote_options="permissive").to_pylist()
    many, _ = line()
    parts = []
    edges = sorted({0, len(rows), *(c for c in cuts if c < len(rows))})
    for low, high in zip(edges, edges[1:], strict=False):
        parts.append(many.push(whole.slice(low, high - low)))
        again, _ = line()
        again.pipeline.restore(many.snapshot())
        many = again
    got = pa.concat_tables([*parts, many.finish()], promote_options="permissive").to_pylist()
    assert got == want


def test_unused_look_ups_are_saved():
    table = Memory({"user": list(range(20)), "y": list(range(20))}, "user")
    join = sb.Join(table, on="user", columns=["y"], refresh=sb.Refresh("top", budget=sb.Budget(3, save=6)))
    rows = {"t": [0, 5, 10, 15, *([20] * 12)], "user": [0, 0, 0, 0, *range(12)], "x": [0] * 16}
    found = sb.run(query(5, 5, join), rows).to_pylist()
    assert [r["lookups"]["made"] for r in found if r["rank"] == 1] == [1, 1, 1, 1, 9]


def test_a_small_replica_says_what_it_forgot():
    table = Memory({"user": list(range(20)), "y": list(range(20))}, "user")
    join = sb.Join(table, on="user", columns=["y"], refresh=sb.Refresh(budget=10, replica_size=4))
    rows = {"t": list(range(20)), "user": list(range(20)), "x": [0] * 20}
    found, stats = sb.run(query(5, 5, join), rows, stats=True)
    assert stats.evicted >= 12
    assert found["y"].to_pylist()[:3] == [4, 3, 2]


def test_an_absent_key_is_not_ranked_and_a_null_may_be():
    table = Memory({"user": [1], "y": [7]}, "user")
    rows = {"t": [0, 1], "user": [1, 2], "x": [1, 9]}
    join = sb.Join(table, on="user", columns=["y"])
    assert sb.run(query(5, 5, join), rows)["user"].to_pylist() == [1]
    kind = query(5, 5, join, by="x + coalesce(y, 0)")
    assert sb.run(kind, rows)["user"].to_pylist() == [2, 1]


def test_the_list_is_small_whatever_the_window_holds():
    rng = np.random.default_rng(1)
    sizes = []
    for n in (20_000, 80_000):
        remote = Memory({"user": np.arange(5000), "y": rng.random(5000)}, "user")
        join = sb.Join(
            remote, on="user", columns=["y"], initial=remote.rows, refresh=sb.Refresh("never", budget=0, spare=10)
        )
        rows = {"t": np.sort(rng.integers(0, 1000, n)), "user": rng.integers(0, 5000, n), "x": rng.random(n)}
        _, stats = sb.run(query(100, 10, join, k=5), rows, stats=True)
        sizes.append(stats.peak_candidates)
    assert max(sizes) <= 15 * 2.93 * 2  # (k + spare) * H(10), with room for the worst moment
    assert abs(sizes[0] - sizes[1]) < 20


TWO = Memory({"u": [1], "y": [2]}, "u")


def joined(**options):
    return sb.Join(TWO, on="u", columns="y", **options)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: sb.Join(None, on="u", columns=["y"]), "table must be given .* got None"),
        (lambda: sb.Join(7, on="u", columns=["y"]), "table must have key and fetch.* got 'int'"),
        (
            lambda: sb.Join(TWO, on="", columns=["y"]),
            "on must be a non-empty text, got ''",
        ),
        (
            lambda: sb.Join(TWO, on="u"),
            r"columns must name at least one column, got \(\)",
        ),
        (lambda: sb.Join(Memory({"u": [1]}, "u"), on="u", columns=["u"]), "columns must not have the key 'u', got"),
        (
            lambda: joined(refresh=sb.Refresh(budget=-1)),
            "budget must be .* got -1",
        ),
        (
            lambda: joined(refresh=sb.Refresh("tip")),
            "policy must be one of .* got 'tip': did you mean 'top'",
        ),
        (
            lambda: joined(aggregates={"n": "median(x)"}),
            "aggregates.'n'. must be an aggregate, got 'median",
        ),
        (
            lambda: joined(each="both"),
            "each must be one of 'key', 'row', got 'both'",
        ),
        (
            lambda: joined(refresh=sb.Refresh(unlisted="x")),
            "unlisted must be one of .* got 'x'",
        ),
        (lambda: sb.Join(Memory, on="u", columns="y"), "table must have key and fetch.* got 'Memory'"),
        (
            lambda: sb.Join(TWO, on="u", columns="z"),
            "columns must name columns of the table .* got 'z'",
        ),
        (
            lambda: sb.Join(TWO, on="u", columns=None),
            "columns must name at least one column, got None",
        ),
        (
            lambda: joined(aggregates={"y": "count(*)"}),
            "aggregates must have names .* got 'y'",
        ),
        (
            lambda: joined(aggregates={"n": "sum()"}),
            r"aggregates.'n'. must be an aggregate, got 'sum\(\)'",
        ),
        (
            lambda: joined(aggregates={"n": "sum(x +)"}),
            "aggregates.'n'. must be an expression .* got 'x \\+'",
        ),
        (
            lambda: sb.Join(TWO, on="u", columns="y", refresh=sb.Refresh(deadline="-1 s")),
            "deadline must be .* got '-1 s'",
        ),
        (lambda: sb.Join(on="u", columns="y", changes=True), "changes must be a source of changes, got True"),
        (lambda: sb.Join(on="u", columns="y", changes={}, polcy="top"), "no option 'polcy': did you mean policy"),
        (lambda: refreshed(sb.Join(on="u", columns="y", changes={}), budget=-1), "budget must be .* got -1"),
        (lambda: sb.Join(on="u", columns="y", changes={}, refresh="top"), "refresh must be a sb.Refresh, got 'top'"),
        (lambda: sb.Join(on="u", columns="y", changes={}, aggregates={"n": 3}), r"aggregates\['n'\] must .* got 3"),
        (
            lambda: sb.TopK(
                k=1, by="y", window=sb.Counting(4, 2), join=sb.Join(on="u", columns="y", changes={"u": [1], "y": [1]})
            ),
            "window must be in time .* got Counting",
        ),
        (
            lambda: sb.TopK(k=1, by="sum(y)", of="u", join=sb.Join(on="u", columns="y", changes={"u": [1], "y": [1]})),
            "of must be left out with join=, got ..u",
        ),
        (lambda: query(5, 5, 7), "join must be a sb.Join, got 7"),
        (
            lambda: query(5, 5, joined(), by="x"),
            "by must use a column of the join .* got 'x'",
        ),
        (
            lambda: sb.TopK(k=1, by="y", window=sb.Counting(5), join=joined()),
            "window must have a slide with join=.* got Counting",
        ),
    ],
)
def test_a_bad_join_fails_when_it_is_built(build, words):
    with pytest.raises(sb.QueryError, match=words):
        build()


def test_names_must_not_clash():
    table = Memory({"user": [1], "x": [7]}, "user")
    with pytest.raises(sb.SchemaError, match="different columns, got 'x'"):
        sb.run(query(5, 5, sb.Join(table, on="user", columns="x"), by="x"), {"t": [0], "user": [1], "x": [1]})
    with pytest.raises(sb.SchemaError, match="on names column 'usr'"):
        sb.run(query(5, 5, sb.Join(table, on="usr", columns="x"), by="x"), {"t": [0], "user": [1]})


def test_a_bad_start_or_change_is_named():
    rows = {"t": [0], "user": [1], "x": [1], "name": ["a"]}
    table = Memory({"user": [1], "y": [7]}, "user")

    def run(**ways):
        sb.run(query(5, 5, join_of(on="user", columns="y", **ways)), rows)

    for ways, words in (
        ({"initial": {"user": ["a"], "y": [1]}}, "keys of initial must fit 'user', which is int64"),
        ({"initial": {"user": [1]}}, "initial must have .* got no 'y'"),
        ({"initial": 7}, "initial cannot be read"),
        ({"changes": {"t": [0], "user": ["a"], "y": [1]}}, "keys of changes must fit 'user'"),
        ({"changes": {"t": [0.5], "user": [1], "y": [1]}}, "time 't' of changes must fit .* int64"),
        (
            {"changes": [{"t": [0], "user": [1], "y": [1]}, {"t": [1], "user": [1], "y": ["b"]}]},
            "changes .* same types",
        ),
        ({"changes": 7}, "changes cannot be read"),
        ({"table": table, "aggregates": {"n": "sum(name)"}}, "column 'name' in n must be a number, got string"),
        ({"table": table, "aggregates": {"rank": "count(*)"}}, "one of ours, got 'rank'"),
    ):
        with pytest.raises(sb.SkybandError, match=words):
            run(**ways)
    with pytest.raises(sb.SchemaError, match=r"which neither the source nor the join has: .*, y"):
        sb.run(query(5, 5, sb.Join(table, on="user", columns="y"), by="y + z"), rows)


def test_a_policy_gives_ids_each_once():
    table = Memory({"user": [1, 2], "y": [7, 8]}, "user")
    rows = {"t": [0, 1, 6], "user": [1, 2, 1], "x": [1, 1, 1]}

    def run(policy):
        return sb.run(
            query(10, 5, sb.Join(table, on="user", columns="y", refresh=sb.Refresh(policy))), rows, stats=True
        )[1]

    assert run(lambda c, *_: [int(c.id[0])] * 3).made == 4  # two for the first time, then one at each of two ends
    assert run(lambda *_: None).made == 2
    for wrong in (lambda *_: [99], lambda *_: ["a"], lambda c, *_: c.listed, lambda *_: [0.5]):
        with pytest.raises(sb.QueryError, match=r"policy=<lambda> must return ids of the candidates, got"):
            run(wrong)


def test_whole_numbers_may_turn_out_to_be_none():
    prices = History({"user": [1, 1], "at": [-1, 7], "y": [3.0, 3.5]}, key="user", time="at", unit="s")

    class Json:
        """As JSON has it: 3 and not 3.0."""

        key, local = "user", True
        at = prices.at

        def fetch(self, ids, columns, timeout=None):  # noqa: ARG002 - Table
            found = prices.fetch(ids, columns).to_pydict()
            return {**found, "y": [int(y) if y == int(y) else y for y in found["y"]]}

    rows = {"t": [0, 6, 12], "user": [1, 1, 1], "x": [0, 0, 0]}
    found, stats = sb.run(query(5, 5, sb.Join(Json(), on="user", columns="y"), by="x + y"), rows, stats=True)
    assert (found["score"].to_pylist(), stats.failed) == ([3.0, 3.5, 3.5], 0)
    fixed = sb.Join(Json(), on="user", columns={"y": "long"})
    found, stats = sb.run(query(5, 5, fixed, by="x + y"), rows, stats=True)
    assert (found["score"].to_pylist(), stats.failed) == ([3.0, 3.0, 3.0], 2)


@pytest.mark.parametrize("given", [None, [], 7, {"a": [1]}, {"user": [1]}, {"user": ["a"], "y": [1]}])
def test_nothing_that_a_table_gives_stops_the_stream(given):
    class Odd:
        key = "user"

        def fetch(self, ids, columns, timeout=None):  # noqa: ARG002 - Table
            return given

    start = {"user": [1, 2], "y": [5, 6]}
    rows = {"t": [0, 1], "user": [1, 2], "x": [0, 0]}
    join = sb.Join(Odd(), on="user", columns="y", initial=start, calls=sb.Calls(retries=0))
    found, stats = sb.run(query(5, 5, join, by="x + y"), rows, stats=True)
    assert found["score"].to_pylist() == ([6.0, 5.0] if given != {"user": [1]} else [5.0])
    assert stats.failed
    assert stats.last_error


def test_groups_are_held_against_their_own_truth():
    ours = pa.table({"window_end": [1, 1], "city": ["p", "q"], "rank": [1, 1], "user": ["a", "b"]})
    true = pa.table({"window_end": [1, 1], "city": ["p", "q"], "rank": [1, 1], "user": ["a", "c"]})
    with pytest.raises(sb.SchemaError, match="got 1 twice"):
        sb.evaluate(ours, true, by="user")
    assert sb.evaluate(ours, true, by="user", per="city").precision.tolist() == [1, 0]
    with pytest.raises(sb.QueryError, match=r"k must be an integer .* got 0"):
        sb.evaluate(ours, true, by="user", per="city", k=0)


def test_compare_takes_the_papers_names_and_groups():
    table = History({"user": [1, 2], "at": [-1, -1], "y": [7, 8]}, key="user", time="at", unit="s")
    rows = {"t": [0, 1], "user": [1, 2], "x": [1, 1], "city": ["p", "q"]}
    join = sb.Join(table, on="user", columns="y")
    asked = sb.TopK(k=1, by="x + y", window=sb.Tumbling("5 s"), time="t", unit="s", per="city", join=join)
    found = sb.compare(asked, rows, "AT-TSM").to_pylist()[0]
    assert [found[name] for name in ("policy", "paper", "precision", "lookups")] == ["top", "AT-TSM", 2, 2]
    with pytest.raises(sb.SourceError, match="is an iterator, which only one policy could read"):
        sb.compare(asked, iter([rows]))


def test_keys_that_always_fail_do_not_starve_the_others():
    class Half:
        """Has no answer for keys from 10 on."""

        key, local = "user", True

        def __init__(self):
            self.y = 0

        def fetch(self, ids, columns, timeout=None):  # noqa: ARG002 - Table
            self.y += 1
            if ids[0] >= 10:
                raise sb.TableError("not this one")
            return {"user": ids, "y": [self.y] * len(ids)}

    users = [*range(3), *range(10, 20)]
    rows = {"t": [5 * w for w in range(6) for _ in users], "user": users * 6, "x": [0] * 6 * len(users)}
    start = {"user": [0, 1, 2], "y": [0, 0, 0]}
    join = sb.Join(
        Half(),
        on="user",
        columns="y",
        initial=start,
        refresh=sb.Refresh("top", budget=4),
        calls=sb.Calls(batch=1, retries=0),
    )
    found, stats = sb.run(query(5, 5, join), rows, stats=True)
    assert stats.made == 24
    assert found["staleness"].to_pylist()[-3:] != [35, 35, 35]
    assert stats.failed == 4 + 4 + 3 + 2 + 2 + 2  # ten keys once each, then half of what is left


def test_counting_windows_join_too():
    table = Memory({"user": [1, 2, 3], "y": [1, 2, 3]}, "user")
    join = sb.Join(table, on="user", columns=["y"])
    counting = sb.TopK(k=2, by="x + y", window=sb.Counting(4, 2), join=join)
    found = sb.run(counting, {"user": [1, 2, 3, 1], "x": [9, 0, 0, 0]})
    assert lists(found, "score", "user") == [(0, [(10.0, 1), (2.0, 2), (3.0, 3), (2.0, 2)])]


@given(rows_of, changes_of, windows_of)
@settings(max_examples=25)
def test_groups_have_lists_of_their_own(rows, changes, window):
    table = History(past(changes), key="user", time="at", unit="s")
    join = sb.Join(table, on="user", columns=["y"], refresh=sb.Refresh("all", budget=100, spare=100))
    whole = pa.table(stream(rows))
    whole = whole.append_column("city", pa.array([x % 2 for x in whole["x"].to_pylist()]))
    size = sb.Sliding(f"{window[0]} s", f"{window[1]} s")
    grouped = sb.TopK(k=3, by="x + 2 * y", window=size, time="t", unit="s", per="city", join=join)
    found = sb.run(grouped, whole)
    assert found.column_names[:4] == ["window_start", "window_end", "city", "rank"]
    for city in (0, 1):
        mine = whole.filter(pc.equal(whole["city"], city)).drop_columns(["city"])
        said = found.filter(pc.equal(found["city"], city))
        alone = sb.run(query(*window, join), mine) if mine.num_rows else said
        assert lists(said, "score", "user", "t") == lists(alone, "score", "user", "t")


def test_rows_of_a_group_are_kept_until_their_pane_closes():
    users = Memory({"user": [1, 2], "y": [3, 12]}, key="user")
    join = sb.Join(users, on="user", columns=["y"])
    grouped = sb.TopK(k=5, by="x + y", window=sb.Sliding("6 s", "5 s"), time="t", unit="s", per="city", join=join)
    rows = {"t": [2, 5], "user": [1, 2], "x": [0, 0], "city": ["a", "a"]}
    batches = [{name: column[at : at + 1] for name, column in rows.items()} for at in (0, 1)]
    for source in (rows, [rows], batches):
        found = sb.run(grouped, source)
        assert lists(found, "user") == [(0, [(2,), (1,)]), (5, [(2,)])]


def test_the_peak_counts_lists_that_are_closed():
    users = Memory({"user": [1, 2], "y": [3, 12]}, key="user")
    join = sb.Join(users, on="user", columns=["y"])
    grouped = sb.TopK(k=5, by="x + y", window=sb.Tumbling("5 s"), time="t", unit="s", per="city", join=join)
    batches = [{"t": [t, t], "user": [1, 2], "x": [0, 0], "city": [t // 50, t // 50]} for t in (0, 50, 100)]
    batches.append({"t": [200], "user": [1], "x": [0], "city": [9]})
    peaks = [run.stats.peak_candidates for run in [sb.stream(grouped, batches)] for _ in run]
    assert peaks == sorted(peaks)
    assert peaks[-1] == 2


@given(rows_of, changes_of)
@settings(max_examples=25)
def test_queries_of_a_workload_answer_as_each_alone(rows, changes):
    table = History(past(changes), key="user", time="at", unit="s")
    join = sb.Join(table, on="user", columns=["y"], refresh=sb.Refresh("all", budget=100, spare=100))
    queries = [
        query(10, 5, join),
        query(9, 3, replace(join, aggregates={"n": "count(*)"}), by="n + y", k=1),
        sb.TopK(k=2, by="x", window=sb.Tumbling("6 s"), time="t", unit="s"),
    ]
    found, stats = sb.run(queries, stream(rows), stats=True)
    assert stats.rows == len(rows)
    for name, one in zip(("q0", "q1", "q2"), queries, strict=True):
        said = found.filter(pc.equal(found["query"], name))
        assert lists(said, "score", "user", "t") == lists(sb.run(one, stream(rows)), "score", "user", "t")


def test_a_workload_without_answers_has_the_columns_of_all_queries():
    tables = {name: Memory({"user": [1], name: [3]}, key="user") for name in "yz"}
    counts = {"y": {}, "z": {"n": "count(*)"}}
    queries = [
        query(9, 9, sb.Join(table, on="user", columns=[name], aggregates=counts[name]), by=f"x + {name}")
        for name, table in tables.items()
    ]
    rows = {"t": [1], "user": [1], "x": [1]}
    found, none = (sb.run(queries, {**rows, "x": pa.array(x, pa.int64())}) for x in ([1], [None]))
    assert found.num_rows == 2
    assert none.num_rows == 0
    assert none.schema == found.schema


def test_a_workload_spends_one_budget_at_a_moment():
    table = Memory({"user": list(range(20)), "y": list(range(20))}, "user")
    join = sb.Join(table, on="user", columns=["y"], refresh=sb.Refresh("top", budget=3))
    queries = [query(5, 5, join), query(5, 5, join, by="y - x", k=1), query(10, 10, join)]
    rows = {"t": list(range(20)), "user": list(range(20)), "x": [0] * 20}
    found, stats = sb.run(queries, rows, stats=True)
    moments = {(r["window_end"], r["lookups"]["made"]) for r in found.to_pylist()}
    assert moments == {(5, 3), (10, 3), (15, 3), (20, 3)}
    assert stats.made == 12
    running = sb.Workload(queries)
    answers = sb.stream(running, iter([rows, rows]))
    next(answers)
    with pytest.raises(sb.QueryError, match="runs with joins, whose queries are fixed"):
        running.remove("q1")
    other = query(5, 5, refreshed(join, budget=sb.Budget(4)))
    with pytest.raises(sb.QueryError, match="budget must be the same"):
        sb.run([queries[0], other], rows)


def test_types_that_are_said_hold():
    table = Memory({"user": [1, 2], "y": [1, 2]}, "user")
    typed = sb.Join(table, on="user", columns={"y": "double"})
    found = sb.run(query(5, 5, typed), {"t": [0, 1], "user": [1, 2], "x": [0, 0]})
    assert found.schema.field("y").type == pa.float64()
    wrong = Memory({"user": [1], "y": ["many"]}, "user")
    found, stats = sb.run(query(5, 5, replace(typed, table=wrong)), {"t": [0], "user": [1], "x": [0]}, stats=True)
    assert (found.num_rows, stats.failed) == (0, 1)
    with pytest.raises(sb.QueryError, match=r"the type of column 'y' must be one of .* got 'int'"):
        sb.Join(table, on="user", columns={"y": "int"})
