"""What a runner can tell of itself: the figures that are known by name, and what they are in Prometheus' terms."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import NamedTuple

from skyband.errors import DashboardError

_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")


class Figure(NamedTuple):
    """One figure of a run."""

    kind: str  # "counter": it only grows; "gauge": it is what it is now
    metric: str
    says: str


FIGURES = {
    "rows": Figure("counter", "skyband_rows_total", "Rows that have come in."),
    "rows_per_second": Figure("gauge", "skyband_rows_per_second", "Rows a second, lately."),
    "batch_seconds": Figure("gauge", "skyband_batch_seconds", "How long the last batch took."),
    "windows": Figure("counter", "skyband_windows_total", "Windows that have been answered."),
    "answer_rows": Figure("counter", "skyband_answer_rows_total", "Rows of all answers."),
    "candidates": Figure("gauge", "skyband_candidates", "Rows that are kept because they may still be in an answer."),
    "window_rows": Figure("gauge", "skyband_window_rows", "Rows in the window."),
    "state_bytes": Figure("gauge", "skyband_state_bytes", "Bytes of state after the last batch."),
    "late": Figure("counter", "skyband_late_rows_total", "Rows dropped because their pane had closed."),
    "ahead": Figure("counter", "skyband_ahead_rows_total", "Rows dropped because their time lay too far ahead."),
    "without_score": Figure("counter", "skyband_rows_without_score_total", "Rows whose score was NULL or NaN."),
    "without_time": Figure("counter", "skyband_rows_without_time_total", "Rows whose time was NULL."),
    "staleness_seconds": Figure("gauge", "skyband_staleness_seconds", "Age of the joined values in use."),
    "refreshes": Figure("counter", "skyband_refreshes_total", "Joined values fetched anew."),
    "refills": Figure("counter", "skyband_refills_total", "Times that a view was filled from its table."),
}
"""By the name under which `Hub.progress` takes them. Others are shown, but are no metric."""


def checked(figures: Mapping[str, float | None]) -> dict[str, float]:
    """The figures that are numbers; what has no value is left out, what can have none is refused.

    Examples
    --------
    >>> checked({"rows": 3, "late": None})
    {'rows': 3}
    >>> checked({"rows": "many"})
    Traceback (most recent call last):
        ...
    skyband.errors.DashboardError: rows='many' is no number: the dashboard shows figures only
    """
    kept: dict[str, float] = {}
    for name, value in figures.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            msg = f"{name!r} is no name of a figure: write lower-case letters, digits and underscores"
            raise DashboardError(msg)
        if value is None:
            continue
        plain = value.item() if hasattr(value, "item") else value  # of NumPy
        if isinstance(plain, bool) or not isinstance(plain, (int, float)):
            msg = f"{name}={value!r} is no number: the dashboard shows figures only"
            raise DashboardError(msg)
        if math.isfinite(plain):
            kept[name] = plain
    return kept
