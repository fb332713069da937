"""Rows of closed panes, taken as long as a window that holds them is open: the rule in plain Python, and streams."""

from dataclasses import replace
from itertools import groupby

import pyarrow as pa
from hypothesis import strategies as st

import skyband as sb
from skyband.operators.plan import plan_operators
from skyband.spark.pack import TIE
from skyband.windows import MIN_TIME, WindowAssigner

SCHEMA = pa.schema([("t", pa.int64()), ("x", pa.float64()), ("i", pa.int64()), ("g", pa.string()), ("n", pa.int64())])


class Rules:
    """Which rows each window has, by the rule; `previous` is the watermark before the first batch."""

    def __init__(self, queries, late, previous=MIN_TIME):
        self.queries, self.late = queries, late
        self.newest, self.watermark = MIN_TIME, previous
        self.windows = {}  # (query, group, end): rows
        self.late_rows = self.without_score = 0

    def add(self, rows, watermark=None):
        for row in rows:
            taken = False
            for number, query in enumerate(self.queries):
                assigner, group = WindowAssigner.of(query.window), row["g"] if query.per else None
                for window in range(assigner.first(row["t"]), assigner.last(row["t"]) + 1):
                    if assigner.end(window) > self.watermark:
                        taken = True
                        if row["x"] is not None:
                            self.windows.setdefault((number, group, assigner.end(window)), []).append(row)
            self.late_rows += not taken
            self.without_score += taken and row["x"] is None
        self.newest = max([self.newest, *(row["t"] for row in rows)])
        told = self.newest - self.late if rows else MIN_TIME
        self.watermark = max(self.watermark, told if watermark is None else watermark)

    def lists(self):
        """By query and group, the ends of windows and their k best rows; also of the windows between that are empty."""
        found = {}
        for number, group in sorted({key[:2] for key in self.windows}, key=str):
            query = self.queries[number]
            slide = WindowAssigner.of(query.window).slide
            ends = [end for *key, end in self.windows if key == [number, group]]
            found[number, group] = [
                (end, sorted(self.windows.get((number, group, end), []), key=rank(query))[: query.k])
                for end in range(min(ends), max(ends) + slide + 1, slide)
            ]
        return found

    def emitted(self, emit):
        """Results as (query, group, window end, rank, row), changes with their type."""
        out = []
        last = max(self.watermark, self.newest)
        for (number, group), lists in self.lists().items():
            key, before, seen = (self.queries[number].name, group), {}, set()
            shift = WindowAssigner.of(self.queries[number].window).shift
            for closed, rows in lists:
                end = closed - shift
                ranked = {row["n"]: at for at, row in enumerate(rows, 1)}
                if emit == "changes":
                    if not ranked and closed > last:
                        continue
                    out += [(*key, end, at, n, "delete") for n, at in before.items() if n not in ranked]
                    new = [n for n in ranked if n not in before]
                    if self.queries[number].ranks:
                        moved = [n for n in ranked if before.get(n, ranked[n]) != ranked[n]]
                        out += [(*key, end, before[n], n, "update_preimage") for n in moved]
                        out += [(*key, end, ranked[n], n, "update_postimage") for n in moved]
                    out += [(*key, end, ranked[n], n, "insert") for n in new]
                    before = ranked
                else:
                    out += [(*key, end, at, n) for n, at in ranked.items() if emit == "answers" or n not in seen]
                    seen |= ranked.keys()
        return sorted(out, key=str)


def tie(number):
    return number * 7919 % 101


def rank(query):
    """Of equal scores the later row first, then that with the larger id, or tie on Spark."""
    sign = 1 if query.ascending else -1

    def key(row):
        last = (-row.get("tie", 0),) if query.id is None else (row["i"] is None, -(row["i"] or 0))
        return (sign * row["x"], -row["t"], *last, -row["n"])

    return key


def found_in(tables, queries, many):
    """Results as `Rules.emitted` returns them."""
    out = []
    for table in tables:
        lists = []
        for row in table.to_pylist():
            key = (row["query"] if many else queries[0].name, row["g"] if queries[0].per else None)
            lists.append((row["window_end"], *key))
            change = [row["_change_type"]] if "_change_type" in row else []
            out.append((*key, row["window_end"], row["rank"], row["n"], *change))
        lists = [each for each, _ in groupby(lists)]
        assert len(lists) == len(set(lists))
        assert [each[:2] for each in lists] == sorted(each[:2] for each in lists)
    return sorted(out, key=str)


@st.composite
def workloads(draw):
    """A query, or a family of them."""
    emit = draw(st.sampled_from(["answers", "changes", "arrivals"]))
    shared = {
        "by": "x",
        "time": "t",
        "unit": "us",
        "emit": emit,
        "ranks": emit == "changes" and draw(st.booleans()),
        "per": draw(st.sampled_from([(), ("g",)])),
        "id": draw(st.sampled_from([None, "i"])),
        "ascending": draw(st.booleans()),
    }
    queries = []
    for number in range(draw(st.integers(1, 3))):
        size = draw(st.integers(1, 16))
        window = sb.Sliding(
            f"{size} us",
            f"{draw(st.integers(1, size))} us",
            origin=f"{draw(st.integers(0, 3))} us",
            closed=draw(st.sampled_from(["left", "right"])),
        )
        queries.append(sb.TopK(k=draw(st.integers(1, 4)), window=window, name=f"q{number}", **shared))
    return queries


@st.composite
def batches(draw):
    """Batches of rows that are out of order, each with the watermark of a source, or none."""
    found, number, base = [], 0, 0
    for _ in range(draw(st.integers(1, 7))):
        rows = []
        for _ in range(draw(st.integers(0, 6))):
            time = max(0, base + draw(st.integers(-18, 6)))
            score = draw(st.sampled_from([None, 0.0, 1.0, 1.0, 2.0, 3.0]))
            tie, group = draw(st.sampled_from([None, -1, 0, 0, 1])), draw(st.sampled_from(["a", "b", None]))
            rows.append({"t": time, "x": score, "i": tie, "g": group, "n": number})
            number += 1
        watermark = base + draw(st.integers(-12, 3)) if draw(st.booleans()) else None
        found.append((rows, watermark))
        base += draw(st.sampled_from([0, 1, 3, 5, 9, 30]))
    return found


def planned(queries, engine="auto"):
    specs = plan_operators(queries if len(queries) > 1 else queries[0], engine)[1]
    return [replace(spec, late_rows="window") for spec in specs]


def table(rows, *, ties=False):
    schema = SCHEMA.append(pa.field("tie", pa.int64())) if ties else SCHEMA
    found = pa.Table.from_pylist(rows, schema)
    return found.rename_columns([*SCHEMA.names, TIE]) if ties else found
