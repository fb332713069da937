"""Hypothesis profiles, and the streams that tests share."""

import os
import random
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings

# Small streams would never be compiled for. Spark's workers inherit the choice.
os.environ.setdefault("SKYBAND_KERNELS", "compiled")

# no deadline: a first call compiles
settings.register_profile(
    "default", deadline=None, max_examples=100, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "nojit", deadline=None, max_examples=25, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
# other cases in every run, as many as FUZZ_EXAMPLES says; a failure prints how to reproduce it
settings.register_profile(
    "long",
    deadline=None,
    max_examples=int(os.environ.get("FUZZ_EXAMPLES", "3000")),
    derandomize=False,  # or it would be inherited: "default" is the name of the profile that all others begin with
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
_STARTED = time.monotonic()


def pytest_collection_modifyitems(items):
    """With FUZZ_SECONDS, run the property tests alone, in another order each time: the time may not do for all."""
    if os.environ.get("FUZZ_SECONDS"):
        items[:] = [item for item in items if is_hypothesis_test(getattr(item, "obj", None))]
        random.shuffle(items)


def pytest_runtest_setup(item):  # noqa: ARG001 - pytest's name
    """Skip what is left when FUZZ_SECONDS have passed."""
    limit = os.environ.get("FUZZ_SECONDS")
    if limit and time.monotonic() - _STARTED > float(limit):
        pytest.skip(f"{limit} seconds have passed")


@pytest.fixture(scope="session")
def real_data():
    """The folder of real streams that SKYBAND_DATA names."""
    folder = os.environ.get("SKYBAND_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("REAL DATA MISSING: SKYBAND_DATA names no folder")
    return Path(folder)
