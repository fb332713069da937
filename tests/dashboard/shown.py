"""Made-up answers, a browser, and a client for the dashboard's tests."""

import json
import shutil
import urllib.error
import urllib.request
from contextlib import contextmanager
from datetime import datetime, timedelta

import pyarrow as pa
import pytest

from skyband_lab.bench import dashboard as bench

NOON = datetime(2024, 1, 2, 12)


def answers(window, names, *, per=None, scores=None, step=30):
    """One window's list: `names`, best first; with `per`, one such list for each of its values."""
    groups = [None] if per is None else per
    k = len(names)
    ends = NOON + timedelta(seconds=step * window)
    columns = {
        "window_start": pa.array([ends - timedelta(minutes=5)] * (k * len(groups)), pa.timestamp("us")),
        "window_end": pa.array([ends] * (k * len(groups)), pa.timestamp("us")),
        "symbol": [group for group in groups for _ in names],
        "rank": list(range(1, k + 1)) * len(groups),
        "score": list(scores or [float(100 * (k - i) + window) for i in range(k)]) * len(groups),
        "who": list(names) * len(groups),
        "id": [sum(map(ord, name)) for name in names] * len(groups),
    }
    if per is None:
        del columns["symbol"]
    return pa.table(columns)


def fetch(url, data=None, method=None, **headers):
    """Status, headers and body of a request; never an exception for a status."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(url, data=data, headers=named, method=method)  # noqa: S310 - our own server
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, error.read()


def fetched(url, **headers):
    """The JSON that a request gives."""
    status, _, body = fetch(url, **headers)
    assert status == 200, body
    return json.loads(body)


@contextmanager
def chromium():
    """A real browser, or a loud skip."""
    if not any(map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))):
        pytest.skip("CHROMIUM MISSING: the dashboard was not tried in a browser (apt-get install chromium)")
    with bench.chromium() as browser:
        yield browser
