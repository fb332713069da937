"""What the hub keeps of what it is told, and what a board says of it."""

import threading
from datetime import date

import pyarrow as pa
import pytest
from shown import answers

import skyband as sb
from skyband.dashboard import Hub
from skyband.errors import DashboardError


def board(hub, *key):
    found = hub.board(key)
    assert found is not None
    return found.detail(hub.info(key[0]))


def test_a_board_says_who_moved_who_came_and_who_went():
    hub = Hub()
    hub.answers("q", answers(0, ["ann", "bob", "cyd"]))
    first = board(hub, "q")
    assert [(row["label"], row["move"]) for row in first["rows"]] == [("ann", 0), ("bob", 0), ("cyd", 0)]
    assert first["left"] == []
    hub.answers("q", answers(1, ["cyd", "dan", "ann"]))
    now = board(hub, "q")
    assert [(row["rank"], row["label"], row["move"]) for row in now["rows"]] == [
        (1, "cyd", 2), (2, "dan", None), (3, "ann", -2),
    ]  # fmt: skip
    assert [(row["rank"], row["label"]) for row in now["left"]] == [(2, "bob")]
    assert (now["start"], now["end"]) == ("2024-01-02T11:55:30", "2024-01-02T12:00:30")


def test_it_agrees_with_the_changes_of_the_same_query():
    """The board's own account of entries and exits against emit="changes"."""
    import numpy as np

    rng = np.random.default_rng(3)
    rows = {"t": np.arange(400), "x": rng.integers(0, 50, 400), "n": np.arange(400)}
    window = sb.Sliding("40 s", "10 s")
    query = sb.TopK(k=5, by="x", window=window, time="t", id="n", unit="s")
    changes = sb.run(sb.TopK(k=5, by="x", window=window, time="t", id="n", unit="s", emit="changes"), rows).to_pylist()
    table = sb.run(query, rows)
    hub = Hub()
    hub.describe("q", query)
    for end in sorted(set(table["window_end"].to_pylist())):
        hub.answers("q", table.filter(pa.compute.equal(table["window_end"], end)))
        seen = board(hub, "q")
        said = [row for row in changes if row["window_end"] == end]
        if len(hub.board(("q",)).windows) == 1:
            continue
        entered = [row["cells"][2] for row in seen["rows"] if row["move"] is None]
        assert sorted(entered) == sorted(row["n"] for row in said if row["_change_type"] == "insert")
        left = sorted(int(row["key"]) for row in seen["left"])
        assert left == sorted(row["n"] for row in said if row["_change_type"] == "delete")
        for row in seen["left"]:
            assert row["why"] == ("expired" if int(row["key"]) < seen["start"] else "beaten")


def test_groups_have_boards_of_their_own_and_are_found():
    hub = Hub()
    hub.answers("trades", answers(0, ["ann"], per=["A", "B", None]))
    hub.answers("clicks", answers(0, ["eve"]))
    assert hub.boards().boards == [("trades", "A"), ("trades", "B"), ("trades", None), ("clicks",)]
    assert hub.boards("TRA b").boards == [("trades", "B")]
    assert hub.boards("null").boards == [("trades", None)]
    assert hub.boards("nobody") == (0, [])
    assert hub.boards(offset=1, limit=2) == (4, [("trades", "B"), ("trades", None)])
    assert board(hub, "trades", None)["group"] == {"symbol": None}
    assert hub.board(("trades", "C")) is None
    assert hub.board(("trades",)) is None
    assert hub.board(("nothing",)) is None


def test_a_workload_is_one_table():
    hub = Hub()
    for window in range(20):
        tables = [
            answers(window, [name + "1", name + "2"]).append_column("query", pa.array([name] * 2))
            for name in ("p", "q")
        ]
        hub.answers(None, pa.concat_tables(tables))
    assert hub.queries == 2
    assert hub.boards().boards == [("p",), ("q",)]
    assert [row["label"] for row in board(hub, "q")["rows"]] == ["q1", "q2"]
    assert len(hub.board(("p",)).windows) == 20
    assert board(hub, "p")["group"] == {}


def test_many_windows_at_once_are_told_apart():
    hub = Hub(history=10)
    query = sb.TopK(k=3, by="x", window=sb.Counting(50))
    table = sb.run(query, {"x": [i * 37 % 101 for i in range(200)]})
    hub.answers("q", table)
    found = hub.board(("q",))
    assert [end for _, end, _ in found.past()] == list(range(191, 201))
    assert found.past()[-1][2] == table["score"][-1].as_py()


def test_history_is_bounded_and_keeps_its_numbers():
    hub = Hub(history=30)
    for window in range(500):
        hub.answers("q", answers(window, ["ann", "bob"]))
        if window == 480:
            number = hub.board(("q",)).past()[-1][0]
    found = hub.board(("q",))
    assert len(found.windows) == 30
    assert found.detail(hub.info("q"), found.find(number))["end"] == "2024-01-02T16:00:00"
    assert found.find(0) is None
    later = Hub(history=30)  # who looks only at the end sees the same
    for window in range(500):
        later.answers("q", answers(window, ["ann", "bob"]))
    assert later.board(("q",)).past()[-30:] == found.past()


def test_memory_is_bounded():
    hub = Hub(history=1000, memory=1 << 20)
    for window in range(300):
        hub.answers("q", answers(window, [f"name number {i}" for i in range(500)]))
    kept = sum(table.get_total_buffer_size() for _, table in hub._histories["q"].since(0))
    assert kept < 2 << 20
    assert 2 < len(hub.board(("q",)).windows) < 100


def test_queries_may_share_a_table():
    hub = Hub()
    for window in range(2):
        table = answers(window, ["ann", "bob"])
        hub.answers("p", table)
        hub.answers("q", table)
    boards = hub.open_boards([("p",), ("q",)])
    assert [[row["label"] for row in found.detail(hub.info("p"))["rows"]] for found in boards] == [["ann", "bob"]] * 2


def test_a_window_said_again_replaces_the_first_word():
    hub = Hub()
    hub.answers("q", answers(0, ["ann"]))
    hub.answers("q", answers(1, ["bob"]))
    hub.answers("q", answers(1, ["cyd"]))
    assert len(hub.board(("q",)).windows) == 2
    assert [row["label"] for row in board(hub, "q")["left"]] == ["ann"]


def test_rows_alike_in_all_are_told_apart():
    hub = Hub()
    hub.answers("q", answers(0, ["ann", "ann", "ann"]))
    hub.answers("q", answers(1, ["ann", "ann"]))
    now = board(hub, "q")
    assert len({row["key"] for row in now["rows"]}) == 2
    assert len(now["left"]) == 1


def test_other_columns_begin_anew():
    hub = Hub()
    hub.answers("q", answers(0, ["ann"]))
    hub.board(("q",))
    hub.answers("q", answers(1, ["ann"]).append_column("more", pa.array([1])))
    assert len(hub.board(("q",)).windows) == 1


def test_cells_of_every_type_can_be_sent():
    import decimal
    import json
    import math

    columns = {
        "f": [math.nan, math.inf], "i": [2**62, None], "b": [True, False], "s": ["x" * 1000, "\N{GRINNING FACE}"],
        "raw": [b"\xff\x00", b""], "d": [decimal.Decimal("1.50"), None], "day": [date(2024, 1, 2), None],
        "l": [[1, 2], []], "m": [{"a": 1}, None],
    }  # fmt: skip
    times = {
        "t": pa.array([0, None], pa.timestamp("ns")),
        "z": pa.array([0, 1], pa.timestamp("us", tz="Europe/Paris")),
        "dict": pa.array(["a", "b"]).dictionary_encode(),
        "dur": pa.array([1, 2], pa.duration("s")),
        "null": pa.nulls(2),
    }
    table = pa.table(
        {"window_start": [0, 0], "window_end": [9, 9], "rank": [1, 2], "score": [2.0, 1.0], **columns, **times}
    )
    hub = Hub()
    hub.answers("q", table)
    said = board(hub, "q")
    json.dumps(said, allow_nan=False)
    first = dict(zip([column["name"] for column in said["columns"]], said["rows"][0]["cells"], strict=True))
    assert first["i"] == str(2**62)
    assert first["t"] == first["z"] == "1970-01-01T00:00:00"
    assert (first["f"], first["b"], first["raw"], first["d"], first["null"]) == ("nan", "true", "ff00", "1.50", None)
    assert len(first["s"]) < 300


def test_boards_that_are_read_together_say_what_each_says_alone():
    """Groups side by side and mixed, dictionaries with texts twice, columns of other kinds, several windows at once."""
    import numpy as np

    rng = np.random.default_rng(7)
    together, alone = Hub(history=5), Hub(history=5)
    keys = [("p",), ("q",), ("r",), ("s",), ("g", "A", "x"), ("g", None, "y"), ("g", "A", "none"), ("nobody",)]
    for window in range(40):
        names = rng.permutation(list("abcdef"))[: 1 + window % 5].tolist()
        shared = answers(window, names, per=["p", "q"]).rename_columns(
            ["window_start", "window_end", "query", "rank", "score", "who", "id"]
        )
        twice = pa.DictionaryArray.from_arrays(
            pa.array(rng.integers(0, 2, len(names)).tolist() + [2] * len(names)), pa.array(["p", "p", "q"])
        )
        grouped = answers(window, names, per=["A", None]).add_column(
            3, "side", pa.array(["x"] * len(names) + ["y"] * len(names))
        )
        mixed = rng.permutation(len(grouped))
        mixed = mixed[np.argsort(grouped["rank"].to_numpy()[mixed], kind="stable")]
        own = answers(window, names)
        for hub in (together, alone):
            hub.answers(None, shared.set_column(2, "query", twice) if window % 2 else shared)
            hub.answers("r", own)
            hub.answers("s", own.set_column(4, "who", pa.array(range(len(names)))))  # the same names, another kind
            hub.answers("g", grouped.take(mixed))
        if window % 3 == 0:
            opened = together.open_boards(keys)
            assert [found is None for found in opened] == [key in (("g", "A", "none"), ("nobody",)) for key in keys]
            for key, found in zip(keys, opened, strict=True):
                if found is not None:
                    other, info = alone.board(key), alone.info(key[0])
                    assert found.detail(together.info(key[0])) == other.detail(alone.info(key[0]))
                    assert (found.past(), found.card(info)) == (other.past(), other.card(info))
                    assert [row["label"] for row in found.detail(together.info(key[0]))["rows"]] == (
                        names if key != ("s",) else [str(i) for i in range(len(names))]
                    )
    assert together.boards().boards == alone.boards().boards
    assert ("g", None, "y") in together.boards().boards


def test_a_row_is_known_again_whatever_it_holds():
    hub = Hub()
    for window in range(2):
        cells = {"x": [float("nan"), 1.0, None], "tags": [["a"], None, []], "n": [1, 1, 1]}
        table = pa.table(
            {"window_start": [0] * 3, "window_end": [window] * 3, "rank": [1, 2, 3], "score": [3, 2, 1], **cells}
        )
        hub.answers("q", table)
    assert [row["move"] for row in board(hub, "q")["rows"]] == [0, 0, 0]


def test_what_is_no_answer_is_refused():
    hub = Hub()
    changes = sb.run(sb.TopK(k=1, by="x", window=sb.Counting(1), emit="changes"), {"x": [1]})
    with pytest.raises(DashboardError, match="emit="):
        hub.answers("q", changes)
    with pytest.raises(DashboardError, match="pyarrow"):
        hub.answers("q", {"score": [1]})
    with pytest.raises(DashboardError, match="must have the column 'query'"):
        hub.answers(None, answers(0, ["ann"]))
    with pytest.raises(DashboardError, match=r"query must be .* got ''"):
        hub.answers("", answers(0, ["ann"]))
    with pytest.raises(DashboardError, match="rows must be a number, got 'many'"):
        hub.progress({"rows": "many"})
    with pytest.raises(DashboardError, match=r"got 'rows\{a\}'"):
        hub.progress({"rows{a}": 1})


@pytest.mark.parametrize(
    "text",
    [
        "postgresql+psycopg://app:hunter2@db:5432/x refused",
        "Authorization: Bearer hunter2hunter2",
        'GET /?api_key=hunter2&x=1 failed, {"password": "hunter2"}',
        "REDIS_TOKEN=hunter2 redis://:hunter2@cache",
        "postgresql://u:hunter2@ss@h/db and u:p@hunter2@h",
        "postgresql://u:hunter2/x@h/db",
        "https://store/a?sv=1&sig=hunter2%2B&se=2030 failed",
        "https://s3/a?X-Amz-Credential=hunter2&X-Amz-Signature=hunter2",
        "Authorization: hunter2",
        "{'Authorization': 'Token hunter2', 'Accept': '*/*'}",
        "Cookie: a=1; session=hunter2",
        r"{\"password\": \"hunter2\"}",
        "password='it\\'s hunter2' host=db",
        "pwd=a,hunter2 AccountKey=hunter2==;EndpointSuffix=x",
        "token eyJhbGciOiJIUzI1NiJ9.hunter2.hunter2",
        "-----BEGIN RSA PRIVATE KEY-----\nhunter2\nhunter2",
    ],
)
def test_secrets_are_not_shown(text):
    hub = Hub()
    hub.error(text)
    assert "hunter2" not in hub.status()["error"]


@pytest.mark.parametrize(
    "text", ["row 7: a plain message", "key='id', k: 3, by: price", "me@e.org at 12:30", "http://h:80/x failed"]
)
def test_what_is_no_secret_is_shown(text):
    hub = Hub()
    hub.error(text)
    assert hub.status()["error"] == text


def test_threads_may_feed_it_while_others_look():
    hub = Hub()
    stop = threading.Event()
    failed = []

    def look():
        while not stop.is_set():
            try:
                hub.boards("q")
                found = hub.board(("q1",))
                if found is not None:
                    ranks = [row["rank"] for row in found.detail(hub.info("q1"))["rows"]]
                    assert ranks == [1, 2]
            except Exception as error:  # noqa: BLE001 - told below
                failed.append(error)
                return

    watcher = threading.Thread(target=look)
    watcher.start()
    feeders = [
        threading.Thread(target=lambda n=n: [hub.answers(f"q{n}", answers(w, ["a", "b"])) for w in range(300)])
        for n in range(3)
    ]
    for feeder in feeders:
        feeder.start()
    for feeder in feeders:
        feeder.join()
    stop.set()
    watcher.join()
    assert not failed
    assert [hub.answer_version(f"q{n}") for n in range(3)] == [600, 600, 600]
