"""Every row of a join is what its status says: judged by a naive join that replays the replica."""

import threading
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import skyband as sb
from joins import join_of, refreshed
from naive_join import Asked, Read, Service, judge
from skyband.tables import Memory

USERS = 5
POLICIES = ["never", "top", "border", "all", "at-lru", "at-wbm", "wsj-rnd", "wsj-lru", "wsj-wbm", "likely"]
SCORES = {
    "x + 2 * y": lambda row, y, _: None if None in (row["x"], y) else row["x"] + 2 * y,
    "y - x": lambda row, y, _: None if None in (row["x"], y) else y - row["x"],
    "y": lambda _, y, __: y,
    "least(x, y)": lambda row, y, _: min((v for v in (row["x"], y) if v is not None), default=None),
    "x + coalesce(y, 0)": lambda row, y, _: None if row["x"] is None else row["x"] + (y or 0),
    "x * y": lambda row, y, _: None if None in (row["x"], y) else row["x"] * y,
    "CASE WHEN y > 3 THEN x END": lambda row, y, _: row["x"] if y is not None and y > 3 else None,
    "sqrt(x - 1) + y": lambda row, y, _: None if None in (row["x"], y) or row["x"] < 1 else (row["x"] - 1) ** 0.5 + y,
}
COUNTED = {
    "3 * n + y": lambda _, y, n: None if y is None else 3 * n + y,
    "n + coalesce(y, 2)": lambda _, y, n: n + (2 if y is None else y),
}
some = settings(max_examples=max(settings().max_examples * 2 // 5, 1))


@dataclass
class Case:
    """A stream, a remote side that changes, and queries that join the two."""

    rows: list
    history: list  # (time, user, values)
    queries: list
    asked: list
    service: Service
    pushed: list = field(default_factory=list)

    def remote(self, user, moment):
        before = [
            (time, n, values) for n, (time, key, values) in enumerate(self.history) if key == user and time < moment
        ]
        return list(max(before)[2]) if before else []

    def complaints(self, found, stats, until=float("inf")):
        """What is wrong with the answers and the counts of look-ups."""
        right = self.asked[0].closed == "right"
        pushed = [Read(time + (not right), time, user, values, pushed=True) for time, user, values in self.pushed]
        log = sorted([*pushed, *self.service.log], key=lambda read: read.seen)
        rows, wrong = found.to_pylist(), []
        for name, asked in enumerate(self.asked):
            asked.log = log
            mine = [row for row in rows if row.get("query") in (None, f"q{name}")]
            wrong += judge(asked, self.rows, mine, stats.incomplete, until)
        sent = self.service.sent
        made = {row["window_end"]: row["lookups"]["made"] for row in rows}
        wrong += [
            f"at {end} {n} are said to be made" for end, n in made.items() if n != [m for m, _ in sent].count(end)
        ]
        wrong += [] if len(set(sent)) == len(sent) else ["a key was asked for twice at a moment"]
        return wrong + ([] if stats.made == len(sent) else [f"{stats.made} said to be made, {len(sent)} sent"])


def table(rows):
    return pa.table({n: pa.array([row[n] for row in rows], pa.int64()) for n in ("t", "user", "x", "city")})


def behaves(draw):
    """A service that now and then fails, gives what was not asked for, or rows in another order."""
    moods = draw(
        st.lists(st.sampled_from(["fine", "fine", "down", "unasked", "reversed", "text", "no key"]), max_size=6)
    )

    def behave(ids, rows):
        mood = moods.pop() if moods else "fine"
        if mood == "down":
            raise OSError("down")
        if mood == "text":
            return [(key, "many") for key in ids], False
        if mood == "no key":
            return [("nobody", 1)], False
        others = [(key, 7) for key in (*range(USERS), 99) if key not in ids]
        return ([*rows, *others] if mood == "unasked" else rows[::-1] if mood == "reversed" else rows), True

    return behave


@st.composite
def cases(draw, pulled=True, pushed=False):
    whole = st.integers(0, 9)
    row = st.tuples(
        st.integers(0, 30), st.integers(0, USERS - 1), st.one_of(whole, whole, whole, st.none()), st.integers(0, 1)
    )
    rows = draw(st.lists(row, min_size=1, max_size=40))
    stream = [dict(zip(("t", "user", "x", "city"), one, strict=True)) for one in sorted(rows, key=lambda r: r[0])]
    values = st.one_of(
        whole.map(lambda y: (y,)), st.lists(st.one_of(whole, st.none()), max_size=0 if pushed else 2).map(tuple)
    )
    values = st.one_of(whole.map(lambda y: (y,)), st.just((None,))) if pushed else values
    change = st.tuples(st.integers(-5, 30), st.integers(0, USERS - 1), values)
    history = [(-10, user, (user,)) for user in range(USERS)] + sorted(
        draw(st.lists(change, max_size=30)), key=lambda c: c[0]
    )
    case = Case(stream, history, [], [], None)
    case.service = Service(case.remote, behaves(draw))
    case.pushed = history if pushed else []
    windows = [(10, 5), (10, 4), (6, 6), (9, 3)]
    common = {
        "on": "user",
        "columns": ["y"],
        "budget": draw(st.sampled_from([0, 1, 2, 5, 50])),
        "batch": draw(st.sampled_from([1, 100])),
        "retries": 0,
        "deadline": "1 minute",
    }
    if pushed:
        columns = zip(*history, strict=True)
        time, user, y = columns
        common["changes"] = pa.table({"t": time, "user": user, "y": pa.array([v[0] for v in y], pa.int64())})
        windows = [draw(st.sampled_from(windows))]  # changes= asks for one
    closed = draw(st.sampled_from(["left", "left", "right"]))
    for _ in range(draw(st.sampled_from([1, 1, 2, 3]))):
        counted = draw(st.sampled_from([False, False, False, True]))
        by = draw(st.sampled_from(sorted(COUNTED if counted else SCORES)))
        size, slide = draw(st.sampled_from(windows))
        k, spare = draw(st.integers(1, 3)), draw(st.sampled_from([0, 0, 1, 2, 10]))
        per, ascending = draw(st.sampled_from([None, "city"])), draw(st.booleans())
        each = "key" if counted else draw(st.sampled_from(["key", "row"]))
        join = join_of(
            case.service if pulled else None,
            **common,
            each=each,
            spare=spare,
            reserve=draw(st.sampled_from([0, 0, 2])),
            policy=draw(st.sampled_from(POLICIES)),
            unlisted=draw(st.sampled_from(["bound", "ignore"])),
            aggregates={"n": "count(*)"} if counted else {},
        )
        window = sb.Sliding(f"{size} s", f"{slide} s", closed=closed)
        groups = [] if per is None else [per]
        case.queries.append(
            sb.TopK(k=k, by=by, window=window, time="t", unit="s", per=groups, ascending=ascending, join=join)
        )
        score = (COUNTED if counted else SCORES)[by]
        case.asked.append(Asked(k, size, slide, score, each, counted, per, ascending, closed))
    return case


@given(cases(), st.sampled_from(["table", "backwards", "batches"]))
@some
def test_rows_of_a_pulled_join_are_what_their_status_says(case, how):
    source = table(case.rows)
    if how == "backwards":
        source = source.take(pa.array(np.argsort(-source["t"].to_numpy(), kind="stable")))
    elif how == "batches":
        source = iter([source.slice(low, 7) for low in range(0, source.num_rows, 7)])
    found, stats = sb.run(case.queries if len(case.queries) > 1 else case.queries[0], source, stats=True)
    assert case.complaints(found, stats) == []


@given(cases(pulled=False, pushed=True))
@some
def test_rows_of_a_pushed_join_are_what_their_status_says(case):
    found, stats = sb.run(case.queries, table(case.rows), stats=True)
    assert case.complaints(found, stats) == []


@given(cases(pushed=True))
@some
def test_rows_of_a_join_that_is_pulled_and_pushed_are_what_their_status_says(case):
    found, stats = sb.run(case.queries, table(case.rows), stats=True)
    assert case.complaints(found, stats) == []


# ---------------------------------------------------------------- one fault each

USUAL = {"on": "user", "columns": ["y"], "policy": "top", "budget": 1, "spare": 0}


def asked(join, by="x + y", k=1, window=("10 s", "5 s"), **more):
    return sb.TopK(k=k, by=by, window=sb.Sliding(*window), time="t", unit="s", join=join, **more)


def replies(*answers):
    """A table that gives its answers one after the other, {key: y}; the last one again and again."""

    class Replies:
        key, local = "user", True

        def __init__(self):
            self.sent = []

        def fetch(self, ids, *_):
            now = answers[min(len(self.sent), len(answers) - 1)]
            self.sent.append(list(ids))
            there = [key for key in ids if key in now]
            return {"user": there, "y": [now[key] for key in there]}

    return Replies()


def statuses(found, **window):
    end = window.get("end", max(found["window_end"].to_pylist(), default=None))
    return [(r["user"], r["score"], r["status"]) for r in found.to_pylist() if r["window_end"] == end]


START = {"user": [1, 2, 3], "y": [1, 3, 0]}


@pytest.mark.parametrize(("unlisted", "best"), [("bound", (1, 100.0, "bound")), ("ignore", (2, 3.0, "approximate"))])
def test_a_value_read_for_one_group_reaches_the_others(unlisted, best):
    rows = {"t": [0, 1, 2], "user": [1, 2, 1], "x": [0, 0, 0], "city": ["p", "p", "q"]}
    join = join_of(replies({1: 100, 2: 3}), **{**USUAL, "budget": 2}, initial=START, unlisted=unlisted)
    found = sb.run(asked(join, window=("5 s", "5 s"), per=["city"]), rows).to_pylist()
    assert [(r["user"], r["score"], r["status"]) for r in found if r["city"] == "p"] == [best]
    assert [(r["user"], r["score"], r["status"]) for r in found if r["city"] == "q"] == [(1, 100.0, "exact")]


def test_a_value_read_for_one_query_reaches_the_others():
    rows = {"t": [0, 1], "user": [1, 2], "x": [0, 0]}
    join = join_of(replies({1: 100, 2: 3}), **{**USUAL, "budget": 2}, initial=START)
    found = sb.run([asked(join), asked(join, by="x - y")], rows)
    first = [r for r in found.to_pylist() if r["query"] == "q0"]
    assert {(r["user"], r["status"]) for r in first} == {(1, "bound")}


def test_rows_of_a_key_that_were_dropped_count_when_its_value_changes():
    rows = {"t": [0, 1, 2], "user": [1, 1, 2], "x": [7, 3, 4]}
    join = join_of(replies({1: 50}), **USUAL, initial=START, each="row")
    found = sb.run(asked(join, k=2, window=("5 s", "5 s")), rows)
    assert statuses(found) == [(1, 57.0, "exact"), (2, 7.0, "approximate")], "the row with x = 3 has 53"


def test_an_answer_that_lost_a_row_and_may_lack_another_says_so():
    rows = {"t": [0, 1, 2, 6], "user": [1, 2, 3, 1], "x": [9, 5, 1, 9]}
    join = join_of(replies({1: 1}), **{**USUAL, "budget": 2}, initial=START)
    found, stats = sb.run(asked(join, k=2, window=("5 s", "5 s")), rows, stats=True)
    assert statuses(found, end=5) == [(1, 10.0, "approximate")], "2 is gone, and 3 was forgotten"
    assert statuses(found, end=10) == [(1, 10.0, "exact")], "no one else came"
    assert stats.incomplete == 1


def test_an_answer_without_rows_that_may_lack_some_is_counted():
    rows = {"t": [0, 1], "user": [1, 2], "x": [0, 0]}
    join = join_of(replies({}), **USUAL, initial=START)
    found, stats = sb.run(asked(join, window=("5 s", "5 s")), rows, stats=True)
    assert (found.num_rows, stats.incomplete) == (0, 1)
    kept, stats = sb.run(asked(refreshed(join, spare=1), window=("5 s", "5 s")), rows, stats=True)
    assert (statuses(kept), stats.incomplete) == ([(1, 1.0, "exact")], 0)


def test_a_reply_after_the_deadline_reaches_an_object_that_was_dropped_meanwhile():
    late, before = threading.Event(), set(threading.enumerate())

    class Slow:
        key = "user"

        def fetch(self, ids, *_):
            if ids == [1]:
                late.wait(60)
            return {"user": ids, "y": [100 if key == 1 else 3 for key in ids]}

    def batches():
        yield {"t": [0, 5], "user": [1, 2], "x": [0, 0]}  # closes the window to 5, where 1 is asked for
        late.set()
        for thread in set(threading.enumerate()) - before:
            thread.join(60)
        yield {"t": [20], "user": [2], "x": [0]}

    join = join_of(Slow(), **USUAL, initial=START, deadline="50 ms", retries=0, unlisted="ignore")
    found, stats = sb.run(asked(join), batches(), stats=True)
    assert stats.missed_deadline == 1
    assert statuses(found, end=5) == [(1, 1.0, "exact")]
    assert statuses(found, end=10) == [(2, 3.0, "approximate")], "1 has 100, and its row is gone"


def test_a_bound_of_scores_where_less_is_better_is_not_too_good():
    rows = {"t": [0, 1, 2], "user": [1, 2, 3], "x": [5, 2, 1]}
    changes = {"t": [0, 0, 0, 7], "user": [1, 2, 3, 1], "y": [9, 1, 9, 0]}
    join = sb.Join(on="user", columns=["y"], changes=changes, refresh=sb.Refresh(spare=0))
    found = sb.run(asked(join, ascending=True), rows)
    assert statuses(found) == [(2, 3.0, "approximate")], "1 has 5 now: with x from 1 to 5 it may have 1 to 5"


def test_a_forgotten_row_without_a_score_gets_no_bound():
    rows = {"t": [0, 1], "user": [1, 2], "x": [None, 2]}
    changes = {"t": [0, 0, 7], "user": [1, 2, 1], "y": [0, 0, 50]}
    join = sb.Join(on="user", columns=["y"], changes=changes, refresh=sb.Refresh(spare=0))
    assert {row[0] for row in statuses(sb.run(asked(join), rows))} == {2}


def test_a_pushed_score_may_compare_a_text():
    rows = {"t": [0, 1, 2], "user": [1, 2, 3], "x": [5, 4, 3], "city": ["p", "p", "q"]}
    changes = {"t": [0, 0, 0, 7], "user": [1, 2, 3, 2], "y": [1, 1, 1, 0]}
    join = sb.Join(on="user", columns=["y"], changes=changes, refresh=sb.Refresh(spare=0))
    found = sb.run(asked(join, by="CASE WHEN city = 'p' THEN x + y END"), rows)
    assert statuses(found) == [(1, 6.0, "exact")]


def test_a_score_of_remote_columns_alone_is_refreshed_by_likelihood():
    rows = {"t": [0, 1, 2, 6, 7, 8], "user": [1, 2, 3, 1, 2, 3], "x": [0] * 6}
    join = join_of(replies({1: 7, 2: 8, 3: 9}), **{**USUAL, "policy": "likely", "spare": 2}, initial=START)
    found = sb.run(asked(join, by="y", window=("5 s", "5 s")), rows)
    assert set(found["status"].to_pylist()) == {"exact"}


def test_answers_before_and_after_the_first_reply_go_out_together():
    class Down:
        key, local = "user", True

        def fetch(self, ids, *_):
            self.asked = getattr(self, "asked", 0) + 1
            if self.asked == 1:
                raise OSError("down")
            return {"user": ids, "y": [7] * len(ids)}

    join = join_of(Down(), **USUAL, retries=0)
    found = sb.run(
        asked(join, by="x + coalesce(y, 0)", window=("5 s", "5 s")),
        {"t": [0, 6, 12], "user": [1, 1, 1], "x": [1, 1, 1]},
    )
    assert found.select(["score", "y", "staleness"]).to_pylist() == [
        {"score": 1.0, "y": None, "staleness": None},
        {"score": 8.0, "y": 7, "staleness": 0.0},
        {"score": 8.0, "y": 7, "staleness": 0.0},
    ]


def test_a_column_that_is_null_in_every_reply_stops_nothing():
    join = join_of(replies({1: None}), **USUAL)
    rows = {"t": [0, 6, 12], "user": [1, 1, 1], "x": [1, 1, 1]}
    found = sb.run(asked(join, by="x + coalesce(y, 0)", window=("5 s", "5 s")), rows)
    assert found["score"].to_pylist() == [1.0, 1.0, 1.0]


def test_queries_of_rows_and_of_counts_may_share_a_table():
    users = Memory({"user": [1, 2], "y": [5, 6]}, "user")
    rows = {"t": [0, 1, 2], "user": [1, 2, 1], "x": [3, 1, 2]}
    usual = {"on": "user", "columns": ["y"]}
    queries = [
        asked(join_of(users, **usual, each="row"), k=2, window=("5 s", "5 s")),
        asked(join_of(users, **usual, aggregates={"n": "count(*)"}), by="10 * n + y", window=("5 s", "5 s")),
    ]
    found = sb.run(queries, rows).to_pylist()
    assert [(r["query"], r["user"], r["score"]) for r in found] == [("q0", 1, 8.0), ("q0", 1, 7.0), ("q1", 1, 25.0)]


def test_rows_without_a_key_move_counting_windows_on():
    users = Memory({"user": [1, 2], "y": [0, 0]}, "user")
    join = sb.Join(users, on="user", columns=["y"], each="row")
    query = sb.TopK(k=1, by="x + y", window=sb.Counting(4, 2), join=join)
    rows = {"user": pa.array([None, None, 1, 2, 2, 2, 2, 2]), "x": [0, 0, 9, 1, 2, 3, 4, 5]}
    found = sb.run(query, rows).to_pylist()
    assert [(r["window_end"], r["x"]) for r in found] == [(4, 9), (6, 9), (8, 5)]


def test_a_row_has_the_remote_values_of_its_score_whatever_was_evicted():
    users = Memory({"user": [1, 2, 3], "y": [10, 20, 30]}, "user")
    join = join_of(users, **{**USUAL, "spare": 5, "policy": lambda *_: None}, replica_size=1)
    rows = {"t": [0, 1, 2, 6], "user": [1, 2, 3, 1], "x": [0, 0, 0, 0]}
    found, stats = sb.run(asked(join, k=3, window=("10 s", "2 s")), rows, stats=True)
    assert stats.evicted
    assert all(r["score"] == r["y"] and r["staleness"] is not None for r in found.to_pylist())


def test_a_key_that_was_absent_is_asked_for_again():
    table = replies({}, {}, {1: 7})
    rows = {"t": [0, 10, 20, 30], "user": [1, 1, 1, 1], "x": [0, 0, 0, 0]}
    found = sb.run(asked(join_of(table, **{**USUAL, "budget": 2}), window=("5 s", "5 s")), rows)
    assert (found["window_end"].to_pylist(), table.sent) == ([25, 35], [[1], [1], [1], [1]])


def test_keys_that_are_absent_leave_half_of_the_budget_to_the_others():
    table = replies({0: 1})
    users = [0, *range(10, 20)]
    rows = {"t": [5 * w for w in range(8) for _ in users], "user": users * 8, "x": [0] * 8 * len(users)}
    found = sb.run(
        asked(join_of(table, **{**USUAL, "budget": 4, "initial": {"user": [0], "y": [0]}}), window=("5 s", "5 s")), rows
    )
    assert found["staleness"].to_pylist()[3:] == [0.0] * 5
    assert all(len(set(sent) - {0}) == 2 for sent in table.sent[3:])


def test_a_source_that_is_not_in_order_is_looked_up_once():
    table = Memory({"user": list(range(10)), "y": list(range(10))}, "user")
    sent = []

    class Logged:
        key, local = "user", True

        def fetch(self, ids, columns, *_):
            sent.extend(ids)
            return table.fetch(ids, columns)

    n = (1 << 20) + 20  # more than one batch
    rows = {"t": np.append(np.arange(n - 1) * 30 // n, 0), "user": np.arange(n) % 10, "x": np.zeros(n)}
    join = join_of(Logged(), **{**USUAL, "budget": 10})
    for query in (asked(join, window=("10 s", "10 s")), [asked(join, window=("10 s", "10 s"))]):
        sent.clear()
        _, stats = sb.run(query, rows, stats=True)
        assert stats.made == len(sent) == 12  # all ten at first, then the one on the list
