"""Many queries over points agree with a naive twin, whatever the grid, the rule and the stream."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
import skyband as sb
from skyband.engines import ENGINES, Objects, QueryFamily, build
from skyband.engines.grid_engine import cut, slices_for
from skyband.kernels.grid import Aims, cells_of, watch
from strategies import point_family

METRICS = {
    "euclidean": lambda p, t, w: -np.sqrt(sum((c * abs(a - b)) * (c * abs(a - b)) for a, b, c in zip(p, t, w))),  # noqa: B905
    "manhattan": lambda p, t, w: -sum(c * abs(a - b) for a, b, c in zip(p, t, w, strict=True)),
    "chebyshev": lambda p, t, w: -max(c * abs(a - b) for a, b, c in zip(p, t, w, strict=True)),
    "sum": lambda p, _, w: sum(c * a for a, c in zip(p, w, strict=True)),
}
coordinate = st.one_of(st.integers(-3, 3).map(float), st.sampled_from([0.1, 1e6, -1e6]))
GRIDS = ("sweep", "cpm", "snn")  # one engine for each rule by which lists are kept
WATCHED = [name for name, entry in ENGINES.items() if entry.traits.points == "watched"]
every_rule = pytest.mark.parametrize("engine", GRIDS)


@st.composite
def cases(draw, counts):
    """Points, their times, and queries: kind, targets, weights, k, window size."""
    d = draw(st.integers(1, 3))
    some = st.tuples(*[coordinate] * d)
    rows = draw(st.lists(some, max_size=50))
    if draw(st.booleans()):
        rows = [tuple(math.nan if draw(st.integers(0, 9)) == 0 else x for x in r) for r in rows]
    times = sorted(draw(st.lists(st.integers(0, 30), min_size=len(rows), max_size=len(rows))))
    queries = draw(
        st.lists(
            st.tuples(some, st.tuples(*[st.sampled_from([1.0, 0.5, 3.0])] * d), st.integers(1, 4)),
            min_size=1,
            max_size=5,
        )
    )
    kind = draw(st.sampled_from(list(METRICS)))
    if kind == "sum":
        queries = [(t, tuple(c * draw(st.sampled_from([-1, 1])) for c in w), k) for t, w, k in queries]
    return np.array(rows).reshape(-1, d), range(len(rows)) if counts else times, kind, queries, draw(st.integers(1, 14))


def fed(many, points, times, cuts=(), counts=True):
    """[(step, query, [(id, score)], ranks)] that come from points given in parts."""
    found = []
    time, number = np.array(times, np.int64), np.arange(len(points))
    bounds = [0, *sorted(min(c, len(points)) for c in cuts), len(points)]
    for low, high in zip(bounds, bounds[1:], strict=False):
        part = slice(low, high)
        a = many.advance(Objects(points[part], time[part], number[part]), high if counts else 1 << 60)
        order = np.lexsort((a.step, a.query, a.end))
        assert order.tolist() == list(range(len(order))), "lists come by end, query and step"
        for i, step in enumerate(a.step.tolist()):
            rows = slice(a.first[i], a.first[i + 1])
            ranks = None if a.rank is None else a.rank[rows].tolist()
            found.append(
                (step, int(a.query[i]), list(zip(a.id[rows].tolist(), a.score[rows].tolist(), strict=True)), ranks)
            )
    return sorted(found, key=lambda line: line[:2])


def lists(points, times, kind, query, size, counts):
    """The oracle's lists of one query, [(step, rows)], empty ones too."""
    target, weight, k = query
    rows = []
    for i, (p, t) in enumerate(zip(points, times, strict=True)):
        rows.append((None if np.isnan(p).any() else float(METRICS[kind](p, target, weight)), t, i))
    found = dict(oracle.counting(rows, k, size, 1, len(rows)) if counts else oracle.after_every_row(rows, k, size))
    return [(step, found.get(step, [])) for step in range(1, len(rows) + 1)]


def expected(lists_of, emit):
    """What all queries together should tell, as `fed` writes it."""
    found = []
    for q, mine in enumerate(lists_of):
        if emit == "arrivals":
            by_step = {}
            for step, row, rank in oracle.arrivals(mine):
                by_step.setdefault(step, []).append((row, rank))
            found += [
                (s, q, [(r[2], r[0]) for r, _ in rows], [rank for _, rank in rows]) for s, rows in by_step.items()
            ]
        else:
            before = []
            for step, rows in mine:
                if rows != before if emit == "changes" else rows or before:
                    found.append((step, q, [(r[2], r[0]) for r in rows], None))
                before = rows
    return sorted(found, key=lambda line: line[:2])


def nearest(to, k, window=None, **options):
    """A family of queries about the points nearest to targets."""
    ks = [k] * len(to) if isinstance(k, int) else k
    queries = [(target, (1.0,) * len(target), each) for target, each in zip(to, ks, strict=False)]
    return point_family("euclidean", queries, window or sb.Counting(5), **options)


@every_rule
@pytest.mark.parametrize("counts", [True, False])
@settings(max_examples=60)
@given(st.data())
def test_equal_to_the_oracle_at_every_step(engine, counts, data):
    points, times, kind, queries, size = data.draw(cases(counts))
    emit = data.draw(st.sampled_from(["arrivals", "changes", "answers"]))
    how = {"grid": data.draw(st.sampled_from(["uniform", "quantile"])), "slices": data.draw(st.integers(1, 5))}
    window = sb.Counting(size) if counts else sb.Sliding(f"{size} us", "row")
    how["index"] = data.draw(st.booleans())
    running = build(engine, point_family(kind, queries, window, emit), options=how)
    cuts = data.draw(st.lists(st.integers(0, 50), max_size=3))
    found = fed(running, points, times, cuts, counts)
    assert found == expected([lists(points, times, kind, q, size, counts) for q in queries], emit)


@every_rule
@settings(max_examples=25)
@given(st.data())
def test_a_snapshot_goes_on_as_if_nothing_had_happened(engine, data):
    points, times, kind, queries, size = data.draw(cases(counts=True))
    emit = data.draw(st.sampled_from(["arrivals", "changes"]))
    at = data.draw(st.integers(0, len(points)))
    family, number = point_family(kind, queries, sb.Counting(size), emit), np.arange(len(points))
    running = build(engine, family, options={"slices": 3})
    found = fed(running, points[:at], times[:at])
    running = build(engine, family, running.snapshot(), {"slices": 3})
    a = running.advance(Objects(points[at:], number[at:], number[at:]), len(points))
    for i, step in enumerate(a.step.tolist()):
        rows = slice(a.first[i], a.first[i + 1])
        pairs = list(zip(a.id[rows].tolist(), a.score[rows].tolist(), strict=True))
        found.append((step, int(a.query[i]), pairs, None if a.rank is None else a.rank[rows].tolist()))
    assert found == expected([lists(points, times, kind, q, size, True) for q in queries], emit)


def stream(name, rows=6_000, d=2, seed=3):
    rng = np.random.default_rng(seed)
    if name == "uniform":
        return rng.random((rows, d))
    if name == "clustered":
        return rng.random((2, d))[rng.integers(0, 2, rows)] + rng.normal(0, 0.02, (rows, d))
    if name == "ties":
        return rng.integers(0, 8, (rows, d)).astype(float)
    if name == "walk":
        return np.cumsum(rng.normal(size=(rows, d)), axis=0)
    return np.arange(rows)[:, None] * np.ones(d) * (1 if name == "away" else -1)


@pytest.mark.parametrize("name", ["uniform", "clustered", "ties", "walk", "away", "towards"])
def test_every_way_gives_the_same_on_longer_streams(name):
    """Grid or not, either grid, every rule, batches small and large: one answer, that of one `sweep` a query."""
    points = stream(name, 3_000)
    family = nearest(np.concatenate([points[::350], points[:3] + 0.5]), [1, 9, 20] * 4, sb.Counting(700))
    ways = [
        ("sweep", {}),
        ("sweep", {"index": False}),
        ("sweep", {"grid": "uniform"}),
        ("sweep", {"grid": "uniform", "slices": 3}),
        ("cpm", {}),
        ("snn", {"slices": 40}),
    ]
    found = [fed(build(engine, family, options=how), points, range(len(points))) for engine, how in ways]
    assert all(other == found[0] for other in found[1:])
    assert fed(build("sweep", family), points, range(len(points)), [7, 8, 900, 2_001]) == found[0]
    table = {"x": points[:, 0], "y": points[:, 1]}
    for q in (0, 5, 11):
        member = family.members[q]
        by = sb.distance(["x", "y"], to=member.by.to)
        query = sb.TopK(k=member.k, by=by, window=sb.Counting(700), emit="arrivals")
        alone = sb.run(query, table)
        mine = [
            (s, -score, r)
            for s, g, rows, ranks in found[0]
            if g == q
            for (_, score), r in zip(rows, ranks, strict=True)
        ]
        assert list(zip(*(alone[c].to_pylist() for c in ("window_end", "score", "rank")), strict=True)) == mine


class TestWatched:
    """The paper's engines behind the query grid."""

    @pytest.mark.parametrize("engine", [name for name in WATCHED if ENGINES[name].traits.exact])
    @pytest.mark.parametrize("counts", [True, False])
    @settings(max_examples=25)
    @given(st.data())
    def test_exact_engines_stay_exact(self, engine, counts, data):
        points, times, kind, queries, size = data.draw(cases(counts))
        window = sb.Counting(size) if counts else sb.Sliding(f"{size} us", "row")
        reach = data.draw(st.integers(1, max((size + 1) // 2, 1)))
        how = {"slices": data.draw(st.integers(1, 5)), "index": data.draw(st.booleans())}
        how["buffer"] = reach if counts else f"{reach} us"
        running = build(engine, point_family(kind, queries, window), options=how)
        found = fed(running, points, times, data.draw(st.lists(st.integers(0, 50), max_size=3)), counts)
        assert found == expected([lists(points, times, kind, q, size, counts) for q in queries], "arrivals")

    @pytest.mark.parametrize("name", ["uniform", "clustered", "ties", "walk", "away", "towards"])
    def test_each_engine_tells_what_it_tells_alone(self, name):
        points = stream(name, 4_000)
        family = nearest(points[::500], [1, 5] * 4, sb.Counting(900))
        exact = fed(build("sweep", family), points, range(len(points)))
        number = np.arange(len(points))
        for engine in WATCHED:
            found = fed(build(engine, family), points, number, [11, 1_700])
            if ENGINES[engine].traits.exact:
                assert found == exact
                continue
            for q in (0, 5):
                member = family.members[q]
                query = sb.TopK(k=member.k, by="x", window=sb.Counting(900), emit="arrivals")
                part = (points - member.by.to) ** 2
                score = -np.sqrt(part[:, 0] + part[:, 1])
                alone = build(engine, QueryFamily.of(query)).advance(
                    Objects(score, number, number), np.array([len(points)])
                )
                assert [i for _, g, rows, _ in found if g == q for i, _ in rows] == alone.id.tolist()

    def test_few_queries_are_met(self):
        points = stream("uniform", 20_000)
        family = nearest(points[:100], 5, sb.Counting(8_000))
        for engine in ("probabilistic", "rapf", "sasf"):
            running = build(engine, family)
            number = np.arange(len(points))
            rows = Objects(points, number, number)
            running.advance(rows.take(slice(8_000)), 8_000)
            before = running.counters["met"]
            running.advance(rows.take(slice(8_000, None)), len(points))
            shown = 1 if engine == "probabilistic" else 2  # when it comes, and when it leaves the buffer
            assert running.counters["met"] - before < 0.35 * shown * 100 * 12_000
            assert running.counters["indexed"] > 1

    def test_engines_without_a_threshold_share_no_grid(self):
        queries = [
            sb.TopK(k=1, by=sb.distance(["x"], to=[at]), window=sb.Counting(5), emit="arrivals") for at in (1, 2)
        ]
        assert "grid" in str(sb.explain(queries, engine="rapf"))
        assert "grid" not in str(sb.explain(queries, engine="strict"))


class TestGrid:
    @pytest.mark.parametrize("kind", ["uniform", "quantile"])
    @settings(max_examples=40)
    @given(st.data())
    def test_who_could_matter_is_watching(self, kind, data):
        points, _, score, queries, _ = data.draw(cases(counts=True))
        points = points[~np.isnan(points).any(axis=1)]
        if not len(points):
            return
        grid = cut(points, data.draw(st.integers(1, 6)), kind)
        bar = np.array([data.draw(st.sampled_from([-9.0, -2.5, -1.0, 0.0, 2.0])) for _ in queries])
        to, weight, _ = (np.array(c, np.float64) for c in zip(*queries, strict=True))
        first, query, wide = watch(
            {"sum": 0, "euclidean": 1, "manhattan": 2, "chebyshev": 3}[score], Aims(to, weight), grid, bar
        )
        for p, cell in zip(points, cells_of(points, grid).tolist(), strict=True):
            shown = {*query[first[cell] : first[cell + 1]].tolist(), *np.flatnonzero(wide).tolist()}
            wanted = {q for q, (t, w, _) in enumerate(queries) if METRICS[score](p, t, w) >= bar[q]}
            assert wanted <= shown

    def test_quantiles_follow_the_data(self):
        points = stream("clustered", 20_000)
        used = {
            kind: len(np.unique(cells_of(points, cut(points[:4096], 30, kind)))) for kind in ("uniform", "quantile")
        }
        assert used["quantile"] > 2 * used["uniform"]

    @pytest.mark.parametrize("name", ["uniform", "clustered"])
    def test_an_object_meets_few_queries(self, name):
        points = stream(name, 30_000)
        family = nearest(points[np.random.default_rng(1).integers(0, 30_000, 200)], 9, sb.Counting(8_000))
        met = {}
        for how in ("quantile", "uniform", "none"):
            options = {"index": how != "none", "grid": "quantile" if how == "none" else how}
            running = build("sweep", family, options=options)
            fed(running, points, range(len(points)))
            met[how] = running.counters["met"] / len(points)
        assert met["none"] == 200
        assert met["quantile"] < 12
        assert name == "uniform" or met["quantile"] < met["uniform"]

    def test_a_reserve_makes_searches_rare(self):
        points = stream("uniform", 40_000)
        family = nearest(points[:50], 9, sb.Counting(4_000))
        searches = {}
        for engine in GRIDS:
            running = build(engine, family)
            fed(running, points, range(len(points)))
            searches[engine] = running.counters["searches"]
        assert 20 * searches["sweep"] < searches["cpm"]
        assert searches["snn"] < searches["cpm"]

    def test_slices(self):
        assert slices_for(40_000, 2) == 50
        assert all(slices_for(n, d) ** d <= 1 << 14 or slices_for(n, d) == 2 for n in (1, 10**9) for d in range(1, 11))
        assert slices_for(10**9, 40) == 1, "two of each would make 2^40 cells"

    @pytest.mark.parametrize(
        ("how", "words"),
        [
            ({"grid": "hexagonal"}, "grid must be one of 'quantile', 'uniform', got 'hexagonal'"),
            ({"slices": 0}, "slices must be .* got 0"),
            ({"slices": 5000}, "slices must be an integer from 1 to 2,048, got 5000"),
        ],
    )
    def test_bad_grids_are_refused(self, how, words):
        with pytest.raises(sb.QueryError, match=words):
            build("sweep", nearest([(0, 0)], 1), options=how)


class TestScores:
    def test_distances_show_as_they_are_and_the_nearest_ranks_first(self):
        rows = {"x": [3.0, 0.0, None, 6.0], "y": [4, 1, 1, 8]}
        for metric, score in (("euclidean", [1, 5, 10]), ("manhattan", [1, 7, 14]), ("chebyshev", [1, 4, 8])):
            query = sb.TopK(k=4, by=sb.distance(["x", "y"], to=(0, 0), metric=metric), window=sb.Counting(4, 4))
            answers, counts = sb.run(query, rows, stats=True)
            assert answers["score"].to_pylist() == score
            assert counts.without_score == 1

    def test_weights_and_the_farthest(self):
        rows = {"x": [1, 2, 3], "y": [9, 5, 1]}
        by = sb.distance(["x", "y"], to=(0, 0), metric="manhattan", weights=(3, 1))
        near = sb.TopK(k=3, by=by, window=sb.Counting(3, 3))
        assert sb.run(near, rows)["score"].to_pylist() == [10, 11, 12]
        far = sb.TopK(k=1, by=by, window=sb.Counting(3, 3), ascending=False)
        assert sb.run(far, rows)["score"].to_pylist() == [12]
        mixed = sb.TopK(k=1, by=sb.weighted({"x": 2, "y": -1}), window=sb.Counting(3, 3))
        assert sb.run(mixed, rows)["score"].to_pylist() == [5]

    def test_an_overflow_is_no_score_but_infinity_is(self):
        rows = {"x": [1e308, -1e308, math.inf, 0.0]}
        query = sb.TopK(k=4, by=sb.distance(["x"], to=[1e308], metric="manhattan"), window=sb.Counting(4))
        assert sb.run(query, rows)["score"].to_pylist()[-3:] == [0.0, 1e308, math.inf]
        assert sb.run([query], rows, engine="cpm")["score"].to_pylist()[-3:] == [0.0, 1e308, math.inf]

    def test_two_distances_are_two_fingerprints(self):
        from skyband.spark.state import fingerprint

        window = sb.Counting(3)
        one, two = (sb.TopK(k=1, by=sb.distance(["x"], to=[at]), window=window) for at in (1, 2))
        assert fingerprint(one, 1)["by"] != fingerprint(two, 1)["by"]
        assert one == sb.TopK(k=1, by=sb.distance(["x"], to=[1]), window=window)
        assert hash(one) != hash(two)

    @pytest.mark.parametrize(
        ("make", "words"),
        [
            (lambda: sb.distance("xy", to=(1, 2)), "to must have one finite number for each of xy, got"),
            (lambda: sb.distance(["x", "x"], to=(1, 2)), r"columns must name each column once, got .'x', 'x'"),
            (lambda: sb.distance(["x", "y"], to=(1,)), "to must have one finite number for each of x, y, got"),
            (lambda: sb.distance(["x"], to=[math.inf]), "to must have one finite number for each of x, got"),
            (lambda: sb.distance(["x"], to=["a"]), "to must have one finite number for each of x, got"),
            (lambda: sb.distance(["x"], to=[1], metric="l2"), "metric must be one of .* got 'l2'"),
            (lambda: sb.distance(["x"], to=[1], weights=[0]), "weights must be a number above 0, got 0.0"),
            (lambda: sb.weighted({}), "columns must name at least one column, got"),
            (lambda: sb.weighted(["x"]), "weights must be a mapping, got"),
            (lambda: sb.weighted({"x": 0}), "weights must not be zero"),
        ],
    )
    def test_bad_scores_say_what_to_write(self, make, words):
        with pytest.raises(sb.QueryError, match=words):
            make()

    def test_a_missing_column_is_named(self):
        query = sb.TopK(k=1, by=sb.distance(["x", "z"], to=(0, 0)), window=sb.Counting(2))
        for ask in (sb.run, lambda q, rows: sb.run([q], rows, engine="cpm")):
            with pytest.raises(sb.SchemaError, match="by names column 'z'"):
                ask(query, {"x": [1], "y": [2]})
