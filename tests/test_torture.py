"""A slice of the crash suite; `make torture` is the whole: at least 300 faults."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark
ROOT = Path(__file__).resolve().parents[1]


def test_faults_change_no_answer():
    """Two streams, two minutes: workers, disks, clock, Redis, database, service, driver."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
    options = ["--faults", "40", "--each", "40", "--minutes", "2", "--streams", "2", "--seed", "5"]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "scripts.torture", *options],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    said = done.stdout[-5000:] + done.stderr[-2000:]
    assert done.returncode == 0, said
    assert "nothing lost, nothing twice, nothing different" in done.stdout, said
    faults = re.search(r"(\d+) faults \(", done.stdout)
    assert faults is not None, said
    assert int(faults[1]) >= 5, said
