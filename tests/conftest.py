"""Hypothesis profiles, and the streams that tests share."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# no deadline: a first call compiles
settings.register_profile(
    "default", deadline=None, max_examples=100, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "nojit", deadline=None, max_examples=25, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("long", deadline=None, max_examples=3000, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.fixture(scope="session")
def real_data():
    """The folder of real streams that SKYBAND_DATA names."""
    folder = os.environ.get("SKYBAND_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("REAL DATA MISSING: SKYBAND_DATA names no folder")
    return Path(folder)
