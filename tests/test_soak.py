"""What the soak says of its samples."""

import json

import pytest

pytest.importorskip("matplotlib")
from scripts.soak import told


def samples(**grows):
    """An hour of samples, flat but for a saw and what grows by so much from the start to the end."""
    flat = {
        "java_mb": 1600.0, "python_mb": 200.0, "workers_mb": 300.0, "heap_mb": 400.0, "kept_rows": 3000.0,
        "checkpoint_kb": 9000.0, "state_kb": 40_000.0, "latency_s": 1.5, "behind_s": 0.2, "rows_per_s": 50_000.0,
    }  # fmt: skip
    found = []
    for at in range(720):
        made = {name: value * (1 + grows.get(name, 0.0) * at / 720 + (at % 7) / 1000) for name, value in flat.items()}
        found.append({"seconds": 5.0 * (at + 1), **made})
    return found


@pytest.mark.parametrize(
    ("grows", "wrong"),
    [
        ({}, []),
        ({"java_mb": 0.05}, []),  # of which two thirds are seen
        ({"workers_mb": 1.0}, ["memory_mb", "workers_mb"]),
        ({"workers_mb": 0.1}, ["workers_mb"]),
        ({"kept_rows": 1.0}, ["kept_rows"]),
        ({"checkpoint_kb": 5.0, "state_kb": 9.0}, ["checkpoint_kb", "state_kb"]),
        ({"latency_s": 1.0}, ["latency_s"]),
        ({"behind_s": 200.0}, ["behind_s"]),
        ({"heap_mb": 1.0}, ["heap_mb"]),
    ],
)
def test_what_grows_is_named(tmp_path, capsys, grows, wrong):
    status = told(samples(**grows), 50_000.4, tmp_path / "soak.jsonl", tmp_path / "soak.svg")
    said = capsys.readouterr().out
    assert [line.split()[0] for line in said.splitlines() if line.endswith("GROWN")] == wrong
    assert status == bool(wrong)
    head, *rest = [json.loads(line) for line in (tmp_path / "soak.jsonl").read_text().splitlines()]
    assert (head["rate"], head["minutes"], head["flat"], len(rest)) == (50_000, 60.0, not wrong, 720)
    assert (tmp_path / "soak.svg").read_text().count("<svg") == 1


def test_a_few_samples_say_nothing(tmp_path, capsys):
    assert told(samples()[:11], 1.0, tmp_path / "soak.jsonl", tmp_path / "soak.svg") == 1
    assert "too few" in capsys.readouterr().err
