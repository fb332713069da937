"""Columns of every Arrow type in every role: the oracle's answer, or an error that names the column."""

import decimal
import random
from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
import skyband as sb
from arrow_values import TYPES, column_of, group_of, same, values_of

WINDOW = sb.Sliding("4 s", "2 s")
FAR = 1 << 61
DAY = 86_400_000_000


def base(kind):
    """The type of the values that a column holds, whatever their encoding."""
    while True:
        if isinstance(kind, pa.BaseExtensionType):
            kind = kind.storage_type
        elif pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
            kind = kind.value_type
        else:
            return kind


def undecodable(kind):
    """Whether Arrow cannot decode runs of these values: such columns are refused wherever they are."""
    if not pa.types.is_run_end_encoded(kind):
        return False
    value = kind.value_type
    nested = pa.types.is_nested(value) or pa.types.is_dictionary(value) or isinstance(value, pa.BaseExtensionType)
    return nested or value in (pa.string_view(), pa.binary_view())


def decoded(kind):
    """The type of a column in the answers: runs are decoded, other types stay."""
    return kind.value_type if pa.types.is_run_end_encoded(kind) else kind


def is_plain(kind):
    return not pa.types.is_nested(base(kind))


class Sources:
    """The same rows in several forms: at once, in chunks, in batches, and encoded differently in each batch."""

    def __init__(self, kind, values, **columns):
        self.kind, self.values, self.columns = kind, values, columns

    def table(self, kind, low, high, spare=0):
        """Rows from `low` to `high`, cut out of a longer table."""
        values = self.values[low:high]
        column = column_of(kind, [*values[:1], *values, *values[-1:]], spare).slice(1 if values else 0, len(values))
        kinds = {"t": pa.int64(), "x": pa.float64(), "g": pa.int64()}
        parts = {name: pa.array(rows[low:high], kinds[name]) for name, rows in self.columns.items()}
        return pa.table({**parts, "n": pa.array(range(low, high), pa.int64()), "c": column})

    def cut(self, cut, kinds, spare):
        return [self.table(kinds[0], 0, cut, spare // 3), self.table(kinds[1], cut, len(self.values), spare % 3)]

    def forms(self, cuts=None):
        """(source, whether few queries will do); `cuts` are (place, number of the encoding, spare entries)."""
        middle, pairs = len(self.values) // 2, self.encodings()
        yield self.table(self.kind, 0, len(self.values)), True
        for place, number, spare in cuts or [(middle, number, 2) for number in range(len(pairs))]:
            at = min(place, len(self.values))
            if number % len(pairs) == 0:
                yield pa.concat_tables(self.cut(at, (self.kind, self.kind), spare + 3)), True
            yield self.cut(at, pairs[number % len(pairs)], spare), number % len(pairs) > 0

    def encodings(self):
        """Pairs of types that the column may have in two batches."""
        found, plain = [(self.kind, self.kind)], self.kind
        if pa.types.is_dictionary(plain) or pa.types.is_run_end_encoded(plain):
            plain = plain.value_type
            found.append((self.kind, plain))
            if not undecodable(self.kind) and not isinstance(plain, pa.BaseExtensionType):
                found.append((plain, self.kind))
        return found


def answered(query, source, **options):
    """The answers, or None if the column is refused by an error that names it."""
    try:
        return sb.run(query, source, **options)
    except sb.SkybandError as error:
        refused = str(error)
    assert "'c'" in refused
    return None


def type_of(source):
    """The type of the column as the first batch has it, runs decoded."""
    return decoded((source if isinstance(source, pa.Table) else source[0])["c"].type)


def of_first(answers):
    """Which rows of the answers are those of the first query."""
    return [query == "q0" for query in answers["query"].to_pylist()] if "query" in answers.column_names else None


def lists(answers, *columns):
    """{(window_start, ...): [n]} of answers, of several queries those of the first."""
    found = {}
    keys = [answers["window_start"].to_pylist(), *(map(group_of, values_of(answers[name])) for name in columns)]
    mine = of_first(answers) or [True] * answers.num_rows
    for *key, own, n in zip(*keys, mine, answers["n"].to_pylist(), strict=True):
        if own:
            found.setdefault(tuple(key), []).append(n)
    return found


def expected(rows, k, size=4, slide=2):
    """{(window_start,): [n]} of rows (score, time, n) by the oracle."""
    return {(w * slide,): [row[2] for row in best] for w, best in oracle.sliding(rows, k, size, slide)}


def asked(**more):
    return sb.TopK(**{"k": 3, "by": "x", "window": WINDOW, "time": "t", "unit": "s", **more})


# ------------------------------------------------------------ what each role promises


def check_payload(kind, values, cuts=None):
    scores, times = [float(n * 7 % 5) for n in range(len(values))], [n * 5 % 7 for n in range(len(values))]
    times[len(times) // 3 :: 5] = [None] * len(times[len(times) // 3 :: 5])
    rows = [row for row in zip(scores, times, range(len(values)), strict=True) if row[1] is not None]
    one = asked(id="n")
    for source, few in Sources(kind, values, t=times, x=scores).forms(cuts):
        for query in [one] if few else [one, [one, asked(k=2, id="n", window=sb.Tumbling("6 s"))]]:
            answers = answered(query, source, late=None if isinstance(source, pa.Table) else "90 s")
            if answers is None:
                assert undecodable(kind) or not is_plain(kind), "plain values can be kept"
                continue
            assert answers.schema.field("c").type == type_of(source)
            assert list(map(same, values_of(answers["c"]))) == [same(values[n]) for n in answers["n"].to_pylist()]
            assert lists(answers) == expected(rows, 3)


def check_groups(kind, values, cuts=None):
    times, scores = [n // 3 for n in range(len(values))], [float(n * 7 % 5) for n in range(len(values))]
    groups = list(map(group_of, values))
    want = {}
    for group in set(groups):
        rows = [(scores[n], times[n], n) for n, its in enumerate(groups) if its == group]
        want |= {(*window, group): ns for window, ns in expected(rows, 2).items()}
    one = asked(k=2, per="c")
    for source, few in Sources(kind, values, t=times, x=scores, g=[7] * len(times)).forms(cuts):
        for query in [one] if few else [one, [one, asked(k=1, per="c")], asked(k=2, per=["c", "g"])]:
            answers = answered(query, source, late="9 s")
            assert (answers is not None) == (is_plain(kind) and not undecodable(kind))
            if answers is not None:
                assert lists(answers, "c") == want


def check_keys(kind, values, cuts=None):
    times, keys = [n // 3 for n in range(len(values))], list(map(group_of, values))
    want = Counter(
        (start, key)
        for time, key in zip(times, keys, strict=True)
        for start in range(-2, len(times), 2)
        if start <= time < start + 4
    )
    one = asked(k=100, of="c", by="count(*)")
    ever = sb.TopK(k=100, of="c", by="count(*)")
    for source, few in Sources(kind, values, t=times, g=[7] * len(times)).forms(cuts):
        for query in [one] if few else [one, ever, asked(k=100, of=["c", "g"], by="count(*)")]:
            answers = answered(query, source, **({} if query is ever else {"late": "9 s"}))
            assert (answers is not None) == (is_plain(kind) and not undecodable(kind))
            if answers is None:
                continue
            found = list(map(group_of, values_of(answers["c"])))
            if query is ever:  # the last list is that of all rows
                steps = answers["step"].to_pylist()
                rows = zip(found, answers["score"].to_pylist(), steps, strict=True)
                assert {key: count for key, count, step in rows if step == steps[-1]} == Counter(keys)
                continue
            starts = answers["window_start"].to_pylist()
            assert dict(zip(zip(starts, found, strict=True), answers["score"].to_pylist(), strict=True)) == want
            assert answers.num_rows == len(want)


def check_ids(kind, values, cuts=None):
    order = None
    if pa.types.is_integer(base(kind)):
        order = {group_of(value): value for value in values}
    one = asked(k=100, id="c")
    for source, few in Sources(kind, values, t=[0] * len(values), x=[1.0] * len(values)).forms(cuts):
        for query in [one] if few else [one, [one, asked(k=1, id="c")], asked(k=100, id="c", per="x")]:
            answers = answered(query, source, late="9 s")
            assert (answers is not None) == (is_plain(kind) and not undecodable(kind))
            if answers is None:
                continue
            for ns in lists(answers).values():
                found = [group_of(values[n]) for n in ns]
                if order is None:  # any order will do, if it is the same in all forms
                    order = {key: -place for place, key in enumerate(dict.fromkeys(found))}
                places = [(values[n] is not None, order[group_of(values[n])] or 0, n) for n in ns]
                assert places == sorted(places, reverse=True)
                assert sorted(ns) == list(range(len(values)))


def check_scores(kind, values, cuts=None):
    times = [n // 3 for n in range(len(values))]
    for source, few in Sources(kind, values, t=times).forms(cuts):
        for by, computed in list(SCORES.items())[: 2 if few else None]:
            one = asked(by=by)
            answers = answered(one if few else [one, asked(by=by, k=1)], source, late="9 s")
            if not is_number(kind):
                assert answers is None or "NULL" in by
                continue
            assert (answers is None) == undecodable(kind)
            if answers is None:
                continue
            scores = [computed(number(value)) for value in values]
            assert lists(answers) == expected(list(zip(scores, times, range(len(values)), strict=True)), 3)
            assert answers["score"].to_pylist() == [scores[n] for n in answers["n"].to_pylist()]


def check_totals(kind, values, cuts=None):
    known = [score for score in map(number, values) if score is not None] if is_number(kind) else []
    totals = {"max(c)": max(known, default=None), "min(c)": min(known, default=None)}
    for source, few in Sources(kind, values, t=[0] * len(values), g=[7] * len(values)).forms(cuts):
        for by, total in list(totals.items())[: 1 if few else 2]:
            answers = answered(asked(of="g", by=by, window=sb.Tumbling("4 s")), source, late="9 s")
            assert (answers is not None) == (is_number(kind) and not undecodable(kind))
            if answers is not None:
                assert answers["score"].to_pylist() == ([] if total is None else [total])


def check_times(kind, values, cuts=None):
    counts = pa.types.is_integer(base(kind))
    size, slide = (4_000_000, 2_000_000) if counts else (40 * DAY, 20 * DAY)
    one = asked(window=sb.Sliding(f"{size} us", f"{slide} us"), time="c", unit="s" if counts else None)
    micros = moments(kind, values)
    rows = [(1.0, time, n) for n, time in enumerate(micros or ()) if time is not None]
    want = oracle.sliding(rows, 3, size, slide)
    ends = [time + step for _, time, _ in rows for step in (-size, size)]
    for source, few in Sources(kind, values, x=[1.0] * len(values)).forms(cuts):
        for query in [one] if few else [one, [one, replace(one, k=1)], replace(one, of="x", by="count(*)")]:
            answers = answered(query, source, late="3650000 days")
            first = type_of(source)
            if answers is None:
                if micros is not None and not pa.types.is_dictionary(first) and not undecodable(kind):
                    assert any(abs(time) > FAR for _, time, _ in rows) or not all(fits(first, end) for end in ends)
                continue
            assert micros is not None
            assert answers.schema.field("window_start").type == first
            starts = moments(first, values_of(answers["window_start"]))
            if not isinstance(query, list) and query.of:
                assert starts == [w * slide for w, _ in want]
                continue
            found = zip(starts, answers["n"].to_pylist(), of_first(answers) or [True] * len(starts), strict=True)
            assert [(start, n) for start, n, own in found if own] == [
                (w * slide, r[2]) for w, best in want for r in best
            ]


def check_near_times(kind, values, cuts=None):
    """Without those that are too far for their type."""
    check_times(kind, [v for v in values if not isinstance(v, int) or -2 < v < min(10**14, DAY)] or [None], cuts)


def is_number(kind):
    kind, types = base(kind), pa.types
    known = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean, types.is_null)
    return any(is_one(kind) for is_one in known)


def number(value):
    """A value as a score; None for no score."""
    with decimal.localcontext(prec=100):
        return None if value is None or value != value else float(value)  # noqa: PLR0124 - NaN


SCORES = {
    "c": lambda x: x,
    "-c": lambda x: None if x is None else -x,
    "coalesce(c, 7)": lambda x: 7.0 if x is None else x,
    "CASE WHEN c IS NULL THEN 1 ELSE 0 END": lambda x: float(x is None),
}


def moments(kind, values):
    """Microseconds of each value; None where it is no time, or one that cannot be counted in whole microseconds."""
    kind, types = decoded(kind), pa.types
    kind = kind.value_type if types.is_dictionary(kind) else kind
    if types.is_date32(kind):
        per, parts = DAY, 1
    elif types.is_timestamp(kind) or types.is_date64(kind) or types.is_integer(kind):
        unit = kind.unit if types.is_timestamp(kind) else "ms" if types.is_date64(kind) else "s"
        per, parts = {"s": (10**6, 1), "ms": (1000, 1), "us": (1, 1), "ns": (1, 1000)}[unit]
    else:
        return None
    if any(value is not None and value * per % parts for value in values):
        return None
    return [None if value is None else value * per // parts for value in values]


def fits(kind, micros):
    """Whether a type of time can name a moment."""
    if pa.types.is_integer(kind):
        low = -(1 << kind.bit_width - 1) if pa.types.is_signed_integer(kind) else 0
        return low <= micros // 10**6 < low + (1 << kind.bit_width)
    return not (pa.types.is_timestamp(kind) and kind.unit == "ns") or abs(micros) * 1000 < 1 << 63


ROLES = {
    "payload": check_payload,
    "group": check_groups,
    "key": check_keys,
    "id": check_ids,
    "score": check_scores,
    "total": check_totals,
    "time": check_times,
    "near time": check_near_times,
}


@pytest.mark.parametrize("role", list(ROLES))
@pytest.mark.parametrize(("kind", "values"), [pytest.param(*it[1:], id=it[0]) for it in TYPES])
def test_every_type_in_every_role(role, kind, values):
    found = [*values, *values, None, None, None]
    random.Random(role).shuffle(found)
    ROLES[role](kind, found)


@given(st.sampled_from(list(ROLES)), st.sampled_from(TYPES), st.data())
def test_any_values_in_any_batches(role, known, data):
    _, kind, values = known
    found = data.draw(st.lists(st.sampled_from([*values, None]), min_size=1, max_size=12))
    cut = st.tuples(st.integers(0, len(found)), st.integers(0, 2), st.integers(0, 5))
    ROLES[role](kind, found, [data.draw(cut)])
