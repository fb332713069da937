"""Counts of a run."""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass
from typing import Any


@dataclass
class Stats:
    """What a run has seen and done.

    Examples
    --------
    >>> import skyband as sb
    >>> query = sb.TopK(k=1, by="x", window=sb.Counting(2, 2))
    >>> sb.run(query, {"x": [3, None, 4]}, stats=True)[1].without_score
    1
    """

    rows: int = 0
    without_score: int = 0
    without_time: int = 0
    late_rows: int = 0
    ahead: int = 0
    windows: int = 0  # lists that had rows: one for each window and group
    answer_rows: int = 0
    peak_candidates: int = 0
    switches: tuple[dict[str, Any], ...] = ()  # of an engine that changes its strategy: time, engine, why, exact_from

    @property
    def late(self) -> int:
        """Deprecated name of `late_rows`."""
        return _deprecated(self, "late", "late_rows")

    def as_dict(self) -> dict[str, Any]:
        """Return the counts by name, `late_rows` also as `late`; switches only where there are any."""
        counts = asdict(self) | {"late": self.late_rows}
        if not self.switches:
            del counts["switches"]
        return counts


@dataclass
class JoinStats(Stats):
    """What a run has seen and done, and what became of its look-ups."""

    without_key: int = 0
    wanted: int = 0  # look-ups that the policy asked for
    made: int = 0
    failed: int = 0
    missed_deadline: int = 0  # made, but without a reply by the deadline
    evicted: int = 0
    incomplete: int = 0  # answers of fewer than k rows where a forgotten object may belong
    last_error: str = ""

    @property
    def overdue(self) -> int:
        """Deprecated name of `missed_deadline`."""
        return _deprecated(self, "overdue", "missed_deadline")

    def as_dict(self) -> dict[str, Any]:
        """Return the counts by name, old names included."""
        return super().as_dict() | {"overdue": self.missed_deadline}


def _deprecated(stats: Stats, old: str, new: str) -> int:
    warnings.warn(f"stats.{old} is deprecated: write stats.{new}", DeprecationWarning, stacklevel=3)
    found: int = getattr(stats, new)
    return found
