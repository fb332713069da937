"""Metrics of a run: the ones with a name of their own, and their text for Prometheus."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from skyband.errors import DashboardError

if TYPE_CHECKING:
    from skyband.dashboard.events import EventStream
    from skyband.dashboard.hub import Hub

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")


class Metric(NamedTuple):
    """A metric in Prometheus' terms."""

    kind: str  # "counter" or "gauge"
    name: str
    help: str


METRICS = {
    "rows": Metric("counter", "skyband_rows_total", "Rows read."),
    "rows_per_second": Metric("gauge", "skyband_rows_per_second", "Rows read per second, recently."),
    "batch_seconds": Metric("gauge", "skyband_batch_seconds", "Duration of the last batch."),
    "windows": Metric("counter", "skyband_windows_total", "Windows answered."),
    "answer_rows": Metric("counter", "skyband_answer_rows_total", "Rows of all answers."),
    "candidates": Metric("gauge", "skyband_candidates", "Rows kept because they may still enter an answer."),
    "window_rows": Metric("gauge", "skyband_window_rows", "Rows in the window."),
    "state_bytes": Metric("gauge", "skyband_state_bytes", "Bytes of state after the last batch."),
    "late": Metric("counter", "skyband_late_rows_total", "Rows dropped because their pane was closed."),
    "ahead": Metric("counter", "skyband_ahead_rows_total", "Rows dropped because their time was too far ahead."),
    "without_score": Metric("counter", "skyband_rows_without_score_total", "Rows whose score was NULL or NaN."),
    "without_time": Metric("counter", "skyband_rows_without_time_total", "Rows whose time was NULL."),
    "staleness_seconds": Metric("gauge", "skyband_staleness_seconds", "Age of the joined values in use."),
    "refreshes": Metric("counter", "skyband_refreshes_total", "Joined values fetched again."),
    "refills": Metric("counter", "skyband_refills_total", "Refills of a view from its table."),
}
"""By the name that `Hub.progress` takes. Others are shown on the page only."""

_SERVER_METRICS = {
    "queries": Metric("gauge", "skyband_queries", "Queries on the dashboard."),
    "failed": Metric("gauge", "skyband_failed", "1 while the run has an error."),
    "clients": Metric("gauge", "skyband_dashboard_clients", "Open event streams."),
    "sent": Metric("counter", "skyband_dashboard_boards_total", "Boards sent."),
}


def check_metrics(values: Mapping[str, float | None]) -> dict[str, float]:
    """Return the finite numbers among `values`; raise `DashboardError` for other names and types.

    Examples
    --------
    >>> check_metrics({"rows": 3, "late": None})
    {'rows': 3}
    >>> check_metrics({"rows": "many"})
    Traceback (most recent call last):
        ...
    skyband.errors.DashboardError: rows must be a number, got 'many'
    """
    found: dict[str, float] = {}
    for name, value in values.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            msg = f"the name of a metric must have lower-case letters, digits and underscores, got {name!r}"
            raise DashboardError(msg)
        if value is None:
            continue
        number = value.item() if hasattr(value, "item") else value  # of NumPy
        if isinstance(number, bool) or not isinstance(number, (int, float)):
            msg = f"{name} must be a number, got {value!r}"
            raise DashboardError(msg)
        if math.isfinite(number):
            found[name] = number
    return found


def to_prometheus(hub: Hub, stream: EventStream) -> str:
    """Return all metrics in Prometheus' text format. No name or value of the user's data becomes a label."""
    failed = int(hub.state == "failed")
    server = {"queries": hub.queries, "failed": failed, "clients": stream.clients, "sent": stream.sent}
    lines = []
    for metrics, values in ((METRICS, hub.metrics), (_SERVER_METRICS, server)):
        for key, (kind, name, text) in metrics.items():
            if key in values:
                lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}", f"{name} {float(values[key])!r}"]
    return "\n".join(lines) + "\n"
