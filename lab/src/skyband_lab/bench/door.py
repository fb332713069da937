"""sb.run from end to end: a Parquet file in, a table of answers out."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from skyband.api import run
from skyband.query import Sliding, TopK
from skyband_lab.bench.result import CANDIDATE, Result, scan_limit
from skyband_lab.bench.workloads import trade_table

NAME = "sb.run"
"""What stands for the engine in the results."""

_GROUPS = 10_000


class Case(NamedTuple):
    """One query over one file."""

    k: int
    per: tuple[str, ...]
    quick: int  # rows of a quick run
    full: int

    def __str__(self) -> str:
        return f"k={self.k} win=10min slide=1min parquet" + (f" {_GROUPS} groups" if self.per else "")


CASES = (Case(10, (), 3_000_000, 10_000_000), Case(3, ("symbol",), 2_000_000, 10_000_000))


def measure_all(*, quick: bool, seed: int = 0) -> Iterator[Result]:
    """Measure every case on a file of its own, in a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="skyband-bench-") as folder:
        path = Path(folder) / "trades.parquet"
        for case in CASES:
            yield measure(case, path, case.quick if quick else case.full, seed)


def measure(case: Case, path: Path, rows: int, seed: int = 0) -> Result:
    """Write `rows` made-up trades to `path`, then time `sb.run` over them, the better of two times."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    query = TopK(k=case.k, by="price * volume", window=Sliding("10 minutes", "1 minute"), time="ts", per=case.per)
    table = trade_table(rows, seed, _GROUPS)
    run(query, table.slice(0, 1_000), progress=False)  # compiled, if it was not
    pq.write_table(table, path)
    score = pc.multiply(table["price"], table["volume"]).to_numpy()
    limit = scan_limit(score)
    seconds = []
    for _ in range(2):
        began = time.perf_counter()
        answers, counts = run(query, path, stats=True, progress=False)
        seconds.append(time.perf_counter() - began)
    return Result(
        suite="slide",
        case=str(case),
        engine=NAME,
        rows=rows,
        seconds=min(seconds),
        output_rows=answers.num_rows,
        candidates_peak=counts.peak_candidates,
        candidate_bytes=counts.peak_candidates * CANDIDATE,
        scan_rows_per_s=max(limit, scan_limit(score)),
        filled=False,
    )
