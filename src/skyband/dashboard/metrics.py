"""Figures for Prometheus. No name or value of a user's data becomes a label."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skyband.dashboard.figures import FIGURES, Figure

if TYPE_CHECKING:
    from skyband.dashboard.hub import Hub
    from skyband.dashboard.wire import Wire

TYPE = "text/plain; version=0.0.4; charset=utf-8"

_OWN = {
    "queries": Figure("gauge", "skyband_queries", "Queries behind the dashboard."),
    "failed": Figure("gauge", "skyband_failed", "1 while the run shows an error."),
    "clients": Figure("gauge", "skyband_dashboard_clients", "Screens that follow."),
    "sent": Figure("counter", "skyband_dashboard_boards_total", "Boards sent to screens."),
}


def written(hub: Hub, wire: Wire) -> str:
    """All figures in Prometheus' text format."""
    own = {
        "queries": hub.queries,
        "failed": int(hub.state == "failed"),
        "clients": wire.clients,
        "sent": wire.sent,
    }
    lines = []
    for known, values in ((FIGURES, hub.figures), (_OWN, own)):
        for name, (kind, metric, says) in known.items():
            if name in values:
                lines += [f"# HELP {metric} {says}", f"# TYPE {metric} {kind}", f"{metric} {float(values[name])!r}"]
    return "\n".join(lines) + "\n"
