"""`make metrics` counts what it says, and its baseline has every figure."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def metrics():
    spec = importlib.util.spec_from_file_location("metrics", ROOT / "scripts" / "metrics.py")
    module = sys.modules["metrics"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules["metrics"]


def test_sizes_are_those_of_the_files(metrics, tmp_path):
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "one.py").write_text(
        '"""Says what.\n\nAnd why.\n"""\n\nSTEP = 1\n"""What it is."""\n\n\ndef wide(a, b, /, c, *d, e, **f):\n'
        '    """Says what."""\n    # why\n    return """\n\n"""\n'
    )
    lines = "".join(f"    x = {n}\n" for n in range(70))
    (tmp_path / "two.py").write_text(f'class A:\n    pass\n\n\ndef long(x):\n    """Says\n    what.\n    """\n{lines}')
    found = metrics.measure_size(tmp_path)
    assert found.figures == {
        "lines": 15 + 78,
        "code_lines": 5 + 73,
        "files": 2,
        "longest_function": 71,
        "longest_kernel": 5,
        "most_parameters": 6,
        "functions_over": 1,
        "kernels_over": 0,
        "parameters_over": 0,
    }
    assert found.over["functions_over"] == ["   71  two.py:5 long"]


def test_a_trace_sees_the_files_that_rows_pass_and_no_others(metrics):
    passed = metrics.trace_files("run", metrics.SOURCE)
    assert {name for name in passed if name.startswith("kernels/")}
    assert not {name for name in passed if name.startswith(("spark/", "dashboard/", "cli/", "join/", "view/"))}
    as_one, each = metrics.count_passed(passed)
    assert 5 < as_one < each < 60


def test_the_baseline_has_every_figure(metrics):
    kept = json.loads(metrics.BASELINE.read_text(encoding="utf-8"))
    assert len(kept["commit"]) == 40
    assert set(kept["figures"]) == set(metrics.LABELS)
    assert set(metrics.GOALS) <= set(metrics.LABELS)
