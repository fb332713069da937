"""One line of a suite's results, and the limit it is held against."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

CANDIDATE = 24  # bytes of a row that an engine keeps: score, time and number


@dataclass(frozen=True)
class Result:
    """What one engine did in one case."""

    suite: str
    case: str
    engine: str
    rows: int  # in the measured time
    seconds: float
    output_rows: int  # rows of the answers in the measured time
    candidates_peak: int
    candidate_bytes: int
    scan_rows_per_s: float  # rows a second of reading the scores and comparing each with a constant
    filled: bool  # whether the window was full when the measured time began

    @property
    def rows_per_s(self) -> float:
        """Rows a second."""
        return self.rows / self.seconds

    @property
    def scan_ratio(self) -> float:
        """The part of the limit that was reached; 1 would be as fast as only looking at the scores."""
        return self.rows_per_s / self.scan_rows_per_s

    def as_dict(self) -> dict[str, str | int | float | bool]:
        """The fields by name, the times and rates rounded to what they are worth.

        Examples
        --------
        >>> line = Result("slide", "k=1", "sweep", 1000, 0.5, 10, 3, 72, 8000.0, filled=True).as_dict()
        >>> line["rows_per_s"], line["scan_ratio"]
        (2000, 0.25)
        """
        return {
            **asdict(self),
            "seconds": float(f"{self.seconds:.4g}"),
            "rows_per_s": round(self.rows_per_s),
            "scan_rows_per_s": round(self.scan_rows_per_s),
            "scan_ratio": float(f"{self.scan_ratio:.3g}"),
        }


def scan_limit(score: np.ndarray, times: int = 3, clock: Callable[[], float] = time.perf_counter) -> float:
    """Rows a second of reading `score` and comparing every value with a constant; the best of some times."""
    from skyband.kernels.scan import scan

    bound = float(score[len(score) // 2])
    scan(score[:1], bound)  # compiled, if it was not
    best = min(_seconds(score, bound, clock) for _ in range(times))
    return len(score) / best


def _seconds(score: np.ndarray, bound: float, clock: Callable[[], float]) -> float:
    from skyband.kernels.scan import scan

    began = clock()
    scan(score, bound)
    return max(clock() - began, 1e-9)
