"""What the Spark suite makes of its runs, without Spark."""

from skyband_lab.bench.spark import Case, Result, cases, settled


def ran(case, way, cpu, batch=5.0):
    return Result("spark", case, way, 100, 1.0, cpu, batch, 0, 10)


def test_the_least_disturbed_run_of_each_way_counts_case_by_case():
    found = [ran("a", "skyband", 3.0), ran("b", "skyband", 1.0), ran("a", "no top-k", 2.0), ran("a", "skyband", 2.5)]
    told = [(run.case, run.way, run.cpu_seconds) for run in settled(found)]
    assert told == [("a", "skyband", 2.5), ("a", "no top-k", 2.0), ("b", "skyband", 1.0)]


def test_the_time_of_a_batch_is_the_middle_one_whatever_the_cpu():
    found = [ran("a", "skyband", cpu, batch) for cpu, batch in ((1.0, 9.0), (2.0, 5.0), (3.0, 4.0))]
    assert [(run.cpu_seconds, run.batch_ms) for run in settled(found)] == [(1.0, 5.0)]


def test_a_result_survives_its_line():
    run = ran("a", "skyband", 2.5)
    assert Result.from_dict(run.as_dict()) == run


def test_a_case_says_its_batches_unless_they_are_the_usual_ones():
    assert str(Case("skyband", 10, 10, 1, 7_000_000, 1_000_000)) == "win/slide=10 k=10 groups=1"
    assert str(Case("skyband", 10, 10, 1, 20_000, 1_000)) == "win/slide=10 k=10 groups=1 batches of 1000"
    assert {case.way for case in cases(quick=True)} == {"skyband", "no top-k", "two-level", "max_by"}
