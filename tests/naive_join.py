"""Joins so plain that they are evidently right, and a judge of every row of an answer. Imports nothing of ours.

Times are whole numbers. Every window is ranked anew, from all rows, with the replica as it was when the window
closed. The replica is replayed from a log of what was read. A stream row is a dict with "t", "user" and "x", and the
name of a group if there is one; a remote row is its value y.
"""

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Read(NamedTuple):
    """The remote rows of a key, as a look-up or a pushed change has brought them."""

    seen: int  # windows that end from here on know of it
    at: int  # when it was read
    key: Any
    values: tuple | None  # one for each remote row; None: the replica has forgotten the key
    pushed: bool = False  # a change counts whatever was read before, a look-up only if it is newer


@dataclass
class Asked:
    """What is asked: the k best objects of each window, of each group."""

    k: int
    size: int
    slide: int
    score: Any  # score(row, y, n) gives a number, or None; n is how often the key came in the window
    each: str = "key"
    counted: bool = False  # the score uses n, so that ties are broken by the key
    per: str | None = None
    ascending: bool = False
    closed: str = "left"
    counting: bool = False  # t is the position of a row, and windows end at multiples of the slide
    log: list = field(default_factory=list)


class Best(NamedTuple):
    """One object of a window."""

    score: float
    user: Any
    t: int
    x: Any
    y: Any


class Service:
    """A remote table that logs what it was asked for and what it gave.

    `remote(key, moment)` is what there is: a list of values. `behave(ids, rows)` may raise, or give something else
    than the rows, a list of (key, value); it gives None for what is not to be logged, since it cannot be used.
    """

    key, local = "user", True

    def __init__(self, remote, behave=None, unit=1_000_000, start=0):
        self.remote, self.behave, self.unit, self.start = remote, behave, unit, start
        self.log, self.sent, self.moment = [], [], None

    def __getstate__(self):
        return {}  # it can travel, but leaves all behind

    def at(self, moment):
        self.moment = moment // self.unit - self.start

    def fetch(self, ids, columns, *_):
        assert columns == ["y"]
        self.sent += [(self.moment, key) for key in ids]
        rows = [(key, y) for key in ids for y in self.remote(key, self.moment)]
        if self.behave is not None:
            rows, known = self.behave(ids, rows)
            ids = ids if known else []
        given = {key: tuple(y for other, y in rows if other == key) for key in ids}
        self.log += [Read(self.moment, self.moment, key, values) for key, values in given.items()]
        return {"user": [key for key, _ in rows], "y": [y for _, y in rows]}


def number(value):
    """A number, or None for NULL and NaN."""
    return None if value is None or math.isnan(value) else value


def replica(log, end):
    """{key: (when it was read, values)} as a window that ends at `end` is answered."""
    known = {}
    for read in log:
        if read.seen > end:
            continue
        if read.values is None:
            known.pop(read.key, None)
        elif read.pushed or read.key not in known or known[read.key][0] < read.at:
            known[read.key] = (read.at, read.values)
    return known


def windows(asked, rows):
    """{(start, end, group): the rows inside}, by end. Rows come in the order of time."""
    inside = {}
    origin = int(asked.closed == "right") - asked.size * asked.counting
    for row in rows:
        first = (row["t"] - origin - asked.size) // asked.slide + 1
        last = (row["t"] - origin) // asked.slide
        for w in range(first, last + 1):
            start = w * asked.slide - asked.size * asked.counting
            window = (max(start, 0) if asked.counting else start, start + asked.size)
            inside.setdefault((*window, row[asked.per] if asked.per else None), []).append(row)
    return dict(sorted(inside.items(), key=lambda item: item[0][1]))


def ranked(asked, inside, known):
    """All objects of a window, the best first."""
    newest, count = {}, {}
    for n, row in enumerate(inside):
        newest[n if asked.each == "row" else row["user"]] = (n, row)
        count[row["user"]] = count.get(row["user"], 0) + 1
    objects = []
    for n, row in newest.values():
        values = known.get(row["user"], (None, ()))[1]
        for part, y in enumerate(values or (None,)):
            score = number(asked.score(row, number(y), count[row["user"]]))
            if score is not None:
                place = (-score if asked.ascending else score, row["user"] if asked.counted else n, -part)
                objects.append((place, Best(score, row["user"], row["t"], row["x"], y)))
    return [best for _, best in sorted(objects, key=lambda o: o[0], reverse=True)]


def judge(asked, rows, found, incomplete=0, until=math.inf):
    """What is wrong with `found`, the rows of the answers as dicts: a list of texts.

    `incomplete` is how many answers are said to lack rows perhaps. Windows that end after `until` are still open.
    """
    wrong, lists, missing = [], {}, 0
    for row in found:
        group = row[asked.per] if asked.per else None
        lists.setdefault((row["window_start"], row["window_end"], group), []).append(row)
    inside = windows(asked, sorted(rows, key=lambda row: row["t"]))
    wrong += [f"{window}: no row is in it" for window in lists.keys() - inside.keys()]
    for window, its in inside.items():
        said = lists.get(window, [])
        if window[1] > until:
            wrong += [f"{window}: it is still open"] if said else []
            continue
        known = replica(asked.log, window[1])
        whole = ranked(asked, its, known)
        wrong += [f"{window}: {what}" for what in _judge_list(asked, whole, said, known, window[1])]
        due = min(asked.k, len(whole))
        missing += not said and due > 0
        if said and len(said) < due and said[-1]["status"] == "exact":
            wrong.append(f"{window}: {len(said)} of {due} rows, and the last is said to be exact")
    if missing > incomplete:
        wrong.append(f"{missing} windows have objects and no answer, and {incomplete} are said to lack rows")
    return wrong


def _judge_list(asked, whole, said, known, end):
    if [row["rank"] for row in said] != list(range(1, len(said) + 1)) or len(said) > asked.k:
        return [f"its ranks are {[row['rank'] for row in said]}"]
    wrong = []
    for row, true in zip(said, [*whole, *[None] * len(said)], strict=False):
        name = f"rank {row['rank']} {row['status']} {(row['score'], row['user'], row['t'], row['y'])}"
        mine = [best for best in whole if best.user == row["user"] and same(best.y, row["y"])]
        read = known.get(row["user"], (None,))[0]
        if not same(None if read is None else max(end - read, 0), row["staleness"]):
            wrong.append(f"{name}: it was read at {read}, and its staleness is {row['staleness']}")
        if row["status"] == "bound":
            sign = -1 if asked.ascending else 1
            if not any(sign * best.score >= sign * row["score"] for best in mine):
                wrong.append(f"{name}: no lower bound of {mine}")
        elif row["t"] is not None and not any(matches(best, row) for best in mine):
            wrong.append(f"{name}: with a row of the stream, whatever its place, the score is that of {mine}")
        if row["status"] == "exact" and (true is None or not matches(true, row)):
            wrong.append(f"{name}: there is {true}")
        if row["status"] not in ("exact", "bound", "approximate"):
            wrong.append(f"{name}: no status")
    return wrong


def same(a, b):
    """Whether two values are equal, where NULL and NaN are."""
    return number(a) == number(b)


def matches(best, row):
    """Whether a row of an answer is this object."""
    return all(same(value, row[name]) for name, value in best._asdict().items())


def top_k(rows, remote, score, *, k, size, slide, each="key"):
    """[(window, [(score, user, time)])]: rows are (time, user, x) in order; remote(user, now) gives a list of values.

    Arrivals of one user are one object, the newest; with each="row" every row is one.
    """
    asked = Asked(k, size, slide, lambda row, y, _: None if y is None else score(row["x"], y), each=each)
    return [(w, [(best.score, best.user, best.t) for best in its]) for w, its in _answers(asked, rows, remote)]


def counted(rows, remote, score, *, k, size, slide):
    """The same where the score uses how often a user came in the window; ties by user, the larger first."""
    asked = Asked(k, size, slide, lambda _, y, n: None if y is None else score(n, y), counted=True)
    return [(w, [(best.score, best.user) for best in its]) for w, its in _answers(asked, rows, remote)]


def _answers(asked, rows, remote):
    stream = [{"t": time, "user": user, "x": x} for time, user, x in rows]
    for (start, end, _), inside in windows(asked, stream).items():
        known = {row["user"]: (end, tuple(remote(row["user"], end))) for row in inside}
        best = ranked(asked, inside, known)[: asked.k]
        if best:
            yield start // asked.slide, best
