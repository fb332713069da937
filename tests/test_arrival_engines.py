"""The engines after every object: exact where they say so, within their bounds where they do not."""

import json
import logging

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
import skyband as sb
from skyband.engines import ENGINES, Objects, QueryFamily, build
from skyband.engines.candidate_limit import Limit, limit
from strategies import count_query, cuts, streams, time_query

FILTERED = [name for name, entry in ENGINES.items() if "buffer" in entry.options and entry.traits.exact]
EXACT = ["strict", "relaxed", *FILTERED]
every_exact = pytest.mark.parametrize("engine", EXACT)
every_filtered = pytest.mark.parametrize("engine", FILTERED)
small = st.integers(1, 4), st.integers(1, 14)


def numbered(score, low=0, high=None):
    """Rows `low` to `high` of a stream, by position."""
    at = np.arange(low, len(score) if high is None else high)
    return Objects(np.asarray(score, np.float64)[at], at, at)


def arrivals(engine, score, query, cuts=(), **options):
    """[(step, id, rank)] that an engine reports, given a stream in parts; and the engine."""
    running = build(engine, QueryFamily.of(query), options=options)
    found = []
    bounds = [0, *cuts, len(score)]
    for low, high in zip(bounds, bounds[1:], strict=False):
        answers = running.advance(numbered(score, low, high), np.array([high]))
        step = np.repeat(answers.step, np.diff(answers.first)).tolist()
        found += zip(step, answers.id.tolist(), answers.rank.tolist(), strict=True)
    return found, running


def every_list(running, rows, upto):
    """[(step, rows)] of all rows at once."""
    score, time, number = (np.array([r[i] for r in rows]) for i in range(3))
    answers = running.advance(Objects(score.astype(float), time.astype(int), number.astype(int)), upto)
    known = {r[2]: r for r in rows}
    spans = zip(answers.first[:-1].tolist(), answers.first[1:].tolist(), strict=True)
    lists = [[known[i] for i in answers.id[low:high].tolist()] for low, high in spans]
    return [(step, rows) for step, rows in zip(answers.step.tolist(), lists, strict=True) if rows]


def by_id(found):
    return {number for _, number, _ in found}


class TestExact:
    @every_exact
    @pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
    @given(*small, streams(times=st.just(0), most=60))
    def test_equal_to_the_oracle_at_every_step_with_any_buffer(self, engine, share, k, size, drawn):
        rows = [(s, i, i) for i, (s, _, _) in enumerate(drawn)]
        buffer = {"buffer": max(1, round(share * ((size + 1) // 2)))} if engine in FILTERED else {}
        running = build(engine, QueryFamily.of(count_query(k, size, 1)), options=buffer)
        assert every_list(running, rows, np.array([len(rows)])) == oracle.counting(rows, k, size, 1, len(rows))

    @every_filtered
    @pytest.mark.parametrize("share", [0.3, 1.0])
    @given(*small, streams(most=60))
    def test_the_same_for_windows_by_time(self, engine, share, k, size, rows):
        buffer = f"{max(1, round(share * ((size + 1) // 2)))} us"
        running = build(engine, QueryFamily.of(time_query(k, size, 0)), options={"buffer": buffer})
        assert every_list(running, rows, 1 << 61) == oracle.after_every_row(rows, k, size)

    @every_exact
    @given(*small, streams(times=st.just(0), most=60), cuts)
    def test_reports_each_object_once_when_it_is_first_among_the_best(self, engine, k, size, drawn, cuts):
        rows = [(s, i, i) for i, (s, _, _) in enumerate(drawn)]
        query = count_query(k, size, 1, emit="arrivals")
        found, _ = arrivals(engine, [r[0] for r in rows], query, [min(c, len(rows)) for c in cuts])
        lists = oracle.counting(rows, k, size, 1, len(rows))
        assert found == [(step, r[2], rank) for step, r, rank in oracle.arrivals(lists)]

    @pytest.mark.parametrize("order", ["random", "walk", "rising", "falling", "ties"])
    def test_all_agree_on_longer_streams(self, order):
        rng = np.random.default_rng(5)
        score = {
            "random": rng.random(20_000),
            "walk": np.cumsum(rng.normal(size=20_000)),
            "rising": np.arange(20_000.0),
            "falling": -np.arange(20_000.0),
            "ties": rng.integers(0, 30, 20_000).astype(float),
        }[order]
        query = count_query(20, 3_001, 1, emit="arrivals")
        first, *others = (arrivals(engine, score, query)[0] for engine in EXACT)
        assert all(other == first for other in others)
        at_bound = [arrivals(engine, score, query, [7, 9_999], buffer=1_501)[0] for engine in FILTERED]
        assert all(other == first for other in at_bound)

    @every_exact
    def test_a_snapshot_goes_on_with_what_was_reported(self, engine):
        score = np.cumsum(np.random.default_rng(6).normal(size=3_000))
        query = count_query(5, 400, 1, emit="arrivals")
        whole, _ = arrivals(engine, score, query)
        running = build(engine, QueryFamily.of(query))
        found = []
        for low in range(0, 3_000, 500):
            answers = running.advance(numbered(score, low, low + 500), np.array([low + 500]))
            step = np.repeat(answers.step, np.diff(answers.first)).tolist()
            found += zip(step, answers.id.tolist(), answers.rank.tolist(), strict=True)
            running = build(engine, QueryFamily.of(query), resume=running.snapshot())
        assert found == whole

    def test_a_snapshot_of_other_options_is_refused(self):
        query = count_query(5, 400, 1)
        saved = build("rapf", QueryFamily.of(query), options={"buffer": 100}).snapshot()
        with pytest.raises(sb.SnapshotError, match="other options"):
            build("rapf", QueryFamily.of(query), resume=saved, options={"buffer": 99})

    @given(*small, streams(times=st.just(0), most=60))
    def test_an_index_keeps_rows_from_the_filter_but_not_from_the_answers(self, k, size, drawn):
        rows = [(s, i, i) for i, (s, _, _) in enumerate(drawn)]
        for engine in ("sasf", "rarf"):
            running = build(
                engine, QueryFamily.of(count_query(k, size, 1)), options={"cell": 1.5, "buffer": (size + 1) // 2}
            )
            assert every_list(running, rows, np.array([len(rows)])) == oracle.counting(rows, k, size, 1, len(rows))


class TestThroughTheDoor:
    @pytest.mark.parametrize("engine", [*EXACT, "hybrid"])
    def test_the_same_table_as_the_default_engine(self, engine):
        rng = np.random.default_rng(7)
        rows = {"who": rng.choice(["a", "b", "c"], 3_000), "x": rng.integers(0, 500, 3_000), "n": np.arange(3_000)}
        rows["x"] = np.where(rng.random(3_000) < 0.1, np.nan, rows["x"])
        for emit in ("answers", "changes", "arrivals"):
            query = sb.TopK(k=4, by="x", window=sb.Counting(100), per="who", emit=emit)
            assert sb.run(query, rows, engine=engine).equals(sb.run(query, rows)), emit

    @pytest.mark.parametrize("engine", EXACT)
    def test_windows_by_time(self, engine):
        rng = np.random.default_rng(8)
        rows = {"t": np.sort(rng.integers(0, 50_000, 2_000)), "x": rng.random(2_000), "n": np.arange(2_000)}
        for emit in ("answers", "arrivals"):
            query = sb.TopK(k=4, by="x", window=sb.Sliding("2 s", "row"), time="t", unit="ms", emit=emit)
            assert sb.run(query, rows, engine=engine).equals(sb.run(query, rows)), emit

    def test_rows_are_kept_as_long_as_they_may_go_out(self):
        rng = np.random.default_rng(9)
        score = np.concatenate([rng.random(150_000) * 50, np.cumsum(rng.normal(size=150_000))])
        batches = [{"x": score[i : i + 10_000], "n": np.arange(i, i + 10_000)} for i in range(0, 300_000, 10_000)]
        query = sb.TopK(k=3, by="x", window=sb.Counting(20_000), emit="arrivals")
        for engine in ("rapf", "hybrid", "probabilistic"):
            found = sb.run(query, iter(batches), engine=engine)
            assert np.array_equal(score[found["n"].to_numpy()], found["score"].to_numpy()), engine
            assert len(set(found["n"].to_pylist())) == len(found)

    def test_windows_that_slide_are_refused(self):
        query = sb.TopK(k=1, by="x", window=sb.Counting(10, 5))
        with pytest.raises(sb.QueryError, match="does not serve"):
            sb.run(query, {"x": [1]}, engine="strict")

    @pytest.mark.parametrize(
        ("engine", "options", "says"),
        [
            ("strict", {"gamma": 0.2}, "there are none"),
            ("relaxed", {"gama": 0.2}, "did you mean gamma"),
            ("relaxed", {"gamma": -1}, r"gamma must be a number of at least 0, got -1"),
            ("probabilistic", {"sigma": 1}, r"sigma must be a number above 0 and below 1, got 1"),
            ("probabilistic", {"limit": 0}, r"limit must be .* got 0"),
            ("probabilistic", {"additional": 1.5}, r"additional must be an integer .* got 1.5"),
            ("sasf", {"cell": 0}, r"cell must be a number above 0, got 0"),
            ("rapf", {"buffer": 51}, r"buffer must be at most half .* got 51: write at most 50"),
            ("rapf", {"buffer": "1 s"}, r"buffer must be an integer .* got '1 s'"),
            ("hybrid", {"buffer": 0}, r"buffer must be .* got 0"),
            ("sweep", {"buffer": 5}, "there are none"),
        ],
    )
    def test_options_that_make_no_sense_are_refused(self, engine, options, says):
        query = sb.TopK(k=1, by="x", window=sb.Counting(100))
        with pytest.raises(sb.QueryError, match=says):
            sb.run(query, {"x": [1.0]}, engine=engine, options=options)

    @every_filtered
    def test_a_buffer_beyond_half_the_window_is_refused(self, engine):
        build(engine, QueryFamily.of(count_query(2, 7, 1)), options={"buffer": 4})
        with pytest.raises(sb.QueryError, match="write at most 4"):
            build(engine, QueryFamily.of(count_query(2, 7, 1)), options={"buffer": 5})
        build(engine, QueryFamily.of(time_query(2, 8, 0)), options={"buffer": "4 us"})
        for wrong in ("5 us", "0 us", 4):
            with pytest.raises(sb.QueryError, match="write"):
                build(engine, QueryFamily.of(time_query(2, 8, 0)), options={"buffer": wrong})

    def test_explain_tells_what_an_approximate_engine_promises(self):
        told = str(sb.explain(sb.TopK(k=1, by="x", window=sb.Counting(100)), engine="probabilistic"))
        assert "promises: in random order" in told
        assert "sigma * N / n" in told


class TestProbabilistic:
    def test_errors_stay_within_the_bounds_in_random_order(self):
        """Lemma 4.6, over 200 streams of 40 windows each."""
        n, k, sigma, rows, seeds = 500, 5, 0.02, 20_000, 200
        query = count_query(k, n, 1, emit="arrivals")
        missed = false = few = 0
        for seed in range(seeds):
            score = np.random.default_rng(seed).random(rows)
            true = by_id(arrivals("strict", score, query)[0])
            found = by_id(arrivals("probabilistic", score, query, sigma=sigma)[0])
            missed += len(true - found)
            false += len(found - true)
            few += len(true - by_id(arrivals("probabilistic", score, query, limit=2, additional=0)[0]))
        assert missed < sigma * rows / n * seeds
        assert false < 1.5 * sigma * rows / n * seeds
        assert few > sigma * rows / n * seeds, "so there is something to miss"

    def test_fails_on_falling_scores(self):
        """As the paper says: nearly all are top-k objects just before they leave, and nearly all are missed."""
        score = -np.arange(20_000.0)
        query = count_query(5, 1_000, 1, emit="arrivals")
        assert len(arrivals("strict", score, query)[0]) > 19_000
        assert len(arrivals("probabilistic", score, query)[0]) < 1_000

    def test_is_exact_on_rising_scores(self):
        score = np.arange(5_000.0)
        query = count_query(5, 1_000, 1, emit="arrivals")
        assert arrivals("probabilistic", score, query)[0] == arrivals("strict", score, query)[0]

    def test_never_keeps_more_than_it_may(self):
        query = count_query(9, 5_000, 1, emit="arrivals")
        _, running = arrivals("probabilistic", np.random.default_rng(1).random(50_000), query, limit=30, additional=4)
        assert len(running.candidates().id) <= running.peak <= 9 + 30 + 4

    def test_a_snapshot_goes_on(self):
        score = np.random.default_rng(2).random(10_000)
        query = count_query(3, 500, 1, emit="arrivals")
        whole, _ = arrivals("probabilistic", score, query)
        half = build("probabilistic", QueryFamily.of(query))
        first = half.advance(numbered(score, 0, 4_321), np.array([4_321]))
        rest = build("probabilistic", QueryFamily.of(query), resume=half.snapshot()).advance(
            numbered(score, 4_321, 10_000), np.array([10_000])
        )
        assert [*first.id.tolist(), *rest.id.tolist()] == [number for _, number, _ in whole]

    @given(st.integers(1, 6), st.integers(1, 40), streams(times=st.just(0), most=60), cuts)
    def test_any_stream_is_survived_and_cut_at_will(self, k, size, drawn, cuts):
        score = [s for s, _, _ in drawn]
        query = count_query(k, size, 1, emit="arrivals")
        whole, _ = arrivals("probabilistic", score, query, limit=2)
        cut, _ = arrivals("probabilistic", score, query, [min(c, len(score)) for c in cuts], limit=2)
        assert cut == whole
        assert len(by_id(whole)) == len(whole)

    def test_limits_of_small_windows(self):
        assert limit(1, 1, 0.1) == limit(10, 9, 0.1) == Limit(1, 1)
        assert limit(6, 1, 0.1).printed == 3
        assert limit(50, 10, 1e-9) == Limit(32, 31)
        assert limit(50, 10, 1e-9).shortfall == 0


class TestHybrid:
    def stream(self, seed=3):
        """Random, a walk, random again."""
        rng = np.random.default_rng(seed)
        return np.concatenate([rng.random(20_000) * 99, np.cumsum(rng.normal(size=20_000)), rng.random(40_000) * 99])

    def query(self, **more):
        return count_query(9, 4_000, 1, emit="arrivals", **more)

    def test_changes_engines_when_it_sees_order_and_says_when_and_why(self, caplog):
        with caplog.at_level(logging.INFO, "skyband"):
            _, running = arrivals("hybrid", self.stream(), self.query(), buffer=500)
        (to_exact, to_fast) = running.switches
        assert (to_exact.engine, to_exact.why) == ("rapf", "neighbours are alike")
        assert to_exact.time in (20_500, 21_000)
        assert to_exact.exact_from == to_exact.time - 500 + 4_000 - 1
        assert to_fast[1:] == ("probabilistic", "a whole window looked random", None)
        assert to_fast.time >= 44_000, "a whole window after order ended"
        assert "hybrid: rapf from 2" in caplog.text

    def test_exact_after_order_is_seen(self):
        score = self.stream()
        true, _ = arrivals("strict", score, self.query())
        found, running = arrivals("hybrid", score, self.query(), buffer=500)
        low, high = running.switches[0].exact_from, running.switches[1].time
        assert [one for one in found if low < one[0] <= high] == [one for one in true if low < one[0] <= high]
        wrong = [step for step, number, _ in {*true} ^ {*found} if number in by_id(true) ^ by_id(found)]
        assert all(20_000 < step <= low for step in wrong), "only what PA had dropped before can be missed"
        assert len(by_id(found)) == len(found)

    @pytest.mark.parametrize("seed", range(4))
    def test_a_switch_loses_nothing_that_pa_had_not_dropped(self, seed):
        score, before = self.stream(seed), build("hybrid", QueryFamily.of(self.query()), options={"buffer": 500})
        found, running = arrivals("hybrid", score, self.query(), buffer=500)
        at, until = running.switches[0].time, running.switches[1].time
        before.advance(numbered(score, 0, at), np.array([at]))
        assert not before.switches
        held = before.candidates().id
        known = np.full(len(score), np.nan)  # all that there is to know at the switch, and what follows
        known[held], known[at:] = score[held], score[at:]
        told = {number for step, number, _ in found if step <= at}
        true, _ = arrivals("strict", known, self.query())
        want = {one for one in true if at < one[0] <= until and one[1] not in told}
        after = {one for one in found if at < one[0] <= until}
        assert want <= after, "nothing is lost"
        # with fewer rows about, others were among the k best before the switch already
        early = {number for step, number, _ in true if step <= at}
        assert {number for _, number, _ in after - want} <= early

    def test_the_counts_of_a_run_tell_of_switches(self):
        query = sb.TopK(k=9, by="x", window=sb.Counting(4_000), emit="arrivals", per="g")
        rows = {"x": self.stream()[:45_000], "g": np.zeros(45_000, int)}
        answers, counts = sb.run(query, rows, engine="hybrid", options={"buffer": 500}, stats=True)
        (switch, *_) = counts.switches
        assert (switch["engine"], switch["why"]) == ("rapf", "neighbours are alike")
        assert switch["exact_from"] == switch["time"] - 500 + 4_000 - 1
        assert json.loads(answers.schema.metadata[b"skyband"])["switches"][0] == switch
        assert "switches" not in sb.run(query, rows, stats=True)[1].as_dict()

    @pytest.mark.parametrize("sign", [1, -1])
    def test_exact_from_the_start_where_order_is_seen_at_once(self, sign):
        score = sign * np.arange(20_000.0)
        found, running = arrivals("hybrid", score, self.query())
        assert [switch.exact_from for switch in running.switches] == [0]
        assert found == arrivals("strict", score, self.query())[0]

    def test_sees_a_drift_that_no_single_buffer_shows(self):
        rng = np.random.default_rng(4)
        score = rng.normal(size=40_000) - np.arange(40_000) / 4_000
        true, _ = arrivals("strict", score, self.query())
        found, running = arrivals("hybrid", score, self.query(), buffer=200)
        assert running.switches[0].why == "scores rise or fall over the window"
        since = running.switches[0].exact_from
        assert [one for one in found if one[0] > since] == [one for one in true if one[0] > since]

    def test_stays_with_pa_in_random_order(self):
        found, running = arrivals("hybrid", np.random.default_rng(5).random(200_000), self.query())
        assert running.switches == []
        assert len(found) > 100

    def test_neither_batches_nor_a_snapshot_matter(self):
        score = self.stream(8)
        whole, running = arrivals("hybrid", score, self.query(), buffer=500)
        cut, _ = arrivals("hybrid", score, self.query(), [1, 2, 777, 20_600, 20_601, 43_210], buffer=500)
        assert cut == whole
        resumed = build("hybrid", QueryFamily.of(self.query()), options={"buffer": 500})
        ids = []
        for low in range(0, 80_000, 3_333):
            high = min(low + 3_333, 80_000)
            ids += resumed.advance(numbered(score, low, high), np.array([high])).id.tolist()
            resumed = build("hybrid", QueryFamily.of(self.query()), resume=resumed.snapshot(), options={"buffer": 500})
        assert ids == [number for _, number, _ in whole]
        assert resumed.switches == running.switches

    def test_windows_by_time(self):
        rng = np.random.default_rng(6)
        score = np.cumsum(rng.normal(size=5_000))
        query = sb.TopK(k=4, by="x", window=sb.Sliding("500 us", "row"), time="t", unit="us", emit="arrivals")
        rows = {"t": np.sort(rng.integers(0, 5_000, 5_000)), "x": score}
        options = {"buffer": "100 us"}
        assert sb.run(query, rows, engine="hybrid", options=options).equals(sb.run(query, rows))
