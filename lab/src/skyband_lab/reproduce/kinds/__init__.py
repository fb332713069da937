"""HOW each kind of experiment is run: a function from settings to figures, on the suites of `bench`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

Settings = Mapping[str, Any]
Kind = Callable[[Settings, Path | None], dict[str, Any]]


def _later(module: str, name: str) -> Kind:
    """A kind that loads when it is first run."""

    def kind(settings: Settings, data: Path | None) -> dict[str, Any]:
        found: dict[str, Any] = getattr(import_module(f"skyband_lab.reproduce.kinds.{module}"), name)(settings, data)
        return found

    return kind


KINDS: Mapping[str, Kind] = {
    "slide": _later("slide", "slide"),
    "response": _later("slide", "response"),
    "workload": _later("workload", "workload"),
    "nearest": _later("arrival", "nearest"),
    "errors": _later("arrival", "errors"),
    "space": _later("arrival", "space"),
    "limit": _later("arrival", "limit"),
    "rank": _later("arrival", "rank"),
    "updates": _later("view", "updates"),
    "refill": _later("view", "refill"),
    "stored": _later("view", "stored"),
    "held": _later("view", "held"),
    "upkeep": _later("view", "upkeep"),
    "adaptive": _later("view", "adaptive"),
    "bounds": _later("view", "bounds"),
    "changes": _later("join", "changes"),
    "mentions": _later("join", "mentions"),
    "policies": _later("join", "policies"),
    "tracked": _later("join", "tracked"),
}
"""The kinds by the names that the grid files use."""
