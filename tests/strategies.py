"""Shared Hypothesis strategies: small numbers, so that ties, empty panes and expiries are common; and edge values."""

import math
import sys

import pyarrow as pa
from hypothesis import strategies as st

import skyband as sb

MIN64, MAX64, MAX_UNSIGNED = -(1 << 63), (1 << 63) - 1, (1 << 64) - 1
FAR = 1 << 61  # microseconds from 1970: the last that can be counted
LIMITS = [sys.float_info.max, -sys.float_info.max, 5e-324, -5e-324, 2.0**63, -(2.0**63), 2.0**64, 2.0**53]

scores = st.one_of(
    st.integers(0, 5).map(float),
    st.sampled_from([math.inf, -math.inf, 0.0, -0.0, 1e300, -1.5, *LIMITS]),
)
times = st.integers(0, 30)
ids = st.one_of(st.integers(-3, 3), st.sampled_from([MIN64, MIN64 + 1, MAX64 - 1, MAX64]))
groups = st.one_of(st.integers(0, 2), st.sampled_from([None, MIN64, MAX64]))
edges = {  # of each type, values that order as Python orders them, and NULL; NaN is no score
    pa.float64(): st.one_of(st.none(), st.just(math.nan), scores),
    pa.float32(): st.one_of(st.none(), st.sampled_from([math.nan, math.inf, -math.inf, 0.0, -0.0, 2.0**-149, 1.5])),
    pa.int64(): st.one_of(st.none(), ids),
    pa.uint64(): st.one_of(st.none(), st.sampled_from([0, 1, MAX64, MAX64 + 1, MAX_UNSIGNED - 1, MAX_UNSIGNED])),
    pa.int8(): st.one_of(st.none(), st.sampled_from([-128, -127, -1, 0, 1, 126, 127])),
    pa.bool_(): st.sampled_from([None, True, False]),
}


@st.composite
def streams(draw, scores=scores, times=times, most=40, *, all_time=True):
    """Rows (score, time, id) by time and id; ids rise along the stream. With `all_time` also at the ends of time."""
    rows = draw(st.lists(st.tuples(scores, times), max_size=most))
    orders = ["as drawn", "rising", "falling", "one moment", "far apart"]
    shape = draw(st.sampled_from([*orders, "all time"] if all_time else orders))
    if shape in ("rising", "falling"):
        ordered = sorted((s for s, _ in rows), key=lambda s: (s is not None, s or 0.0), reverse=shape == "falling")
        rows = [(s, t) for s, (_, t) in zip(ordered, sorted(rows, key=lambda r: r[1]), strict=True)]
    if shape == "one moment":
        rows = [(s, 7) for s, _ in rows]
    if shape == "far apart":
        rows = [(s, t * 1_000_003 if t > 15 else t) for s, t in rows]
    if shape == "all time":
        rows = [(s, FAR - 30 + t if t > 15 else t - FAR) for s, t in rows]
    times_only = sorted(t for _, t in rows)
    return [(s, t, i) for i, ((s, _), t) in enumerate(zip(rows, times_only, strict=True))]


@st.composite
def shapes(draw):
    """(k, size, slide): every ratio, also sizes that are no multiple of the slide."""
    size = draw(st.integers(1, 12))
    return draw(st.integers(1, 6)), size, draw(st.integers(1, size))


def time_query(k, size, slide, origin=0, **more):
    """A query over microseconds."""
    window = sb.Sliding(f"{size} us", f"{slide} us" if slide else "row", origin=f"{origin} us")
    return sb.TopK(k=k, by="x", window=window, time="t", unit="us", **more)


def count_query(k, size, slide, **more):
    return sb.TopK(k=k, by="x", window=sb.Counting(size, slide), **more)


cuts = st.lists(st.integers(0, 40), max_size=4).map(sorted)


@st.composite
def stretches(draw, most=60):
    """Scores in stretches that fall or rise, with ties or without, stay or jump about; NaN is a row without a score."""
    score, found = 0.0, []
    for _ in range(draw(st.integers(1, 6))):
        kind = draw(st.sampled_from(["falls", "rises", "falls with ties", "rises with ties", "stays", "jumps"]))
        rows = draw(st.integers(1, most))
        seed = draw(st.integers(1, 1 << 16))
        for i in range(rows):
            chance = (seed * (i + 7) * 2654435761 >> 8) % 1000 / 1000
            ties = kind.endswith("ties")
            if kind.startswith("falls"):
                score -= round(chance) if ties else chance + 0.001
            elif kind.startswith("rises"):
                score += round(chance) if ties else chance + 0.001
            elif kind == "jumps":
                score += 20 * (chance - 0.5)
            found.append(score)
        score += draw(st.sampled_from([0.0, 0.0, 0.5, -0.5, 30.0, -30.0]))
    odd = st.tuples(st.integers(0, len(found) - 1), st.sampled_from([math.nan, math.inf, -math.inf, 1e9, -1e9]))
    for at, value in draw(st.lists(odd, max_size=3)):
        found[at] = value
    return found


def point_family(kind, queries, window, emit="arrivals"):
    """A family of points: queries (target, weights, k) by a metric, or by a weighted sum."""
    from skyband.workload.family import families

    found = []
    for target, weight, k in queries:
        names = [f"x{j}" for j in range(len(target))]
        by = sb.weighted(dict(zip(names, weight, strict=True)))
        if kind != "sum":
            by = sb.distance(names, to=target, metric=kind, weights=weight)
        found.append(sb.TopK(k=k, by=by, window=window, emit=emit, time=None if window.counts else "t"))
    (family,) = families(found, few=0)
    return family
