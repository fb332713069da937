"""Vibration of machines, joined with the maintenance system.

A machine that shakes is one thing; one that shakes and was not looked after for months is another. Sensors send the
vibration, a database (here SQLite) knows the hours since the last service. It changes while the stream runs: a
technician is on the way, and what is serviced should leave the list. Five look-ups an answer are all it may cost.

    python examples/vibration.py
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

import numpy as np
import sqlalchemy as sa

import skyband as sb
from skyband.tables import SqlTable

MACHINES = 60
MINUTE = 60
WORN = [17, 41]  # about to break, and long without service


def maintenance(url: str, rng: np.random.Generator) -> sa.Engine:
    """The maintenance system: one row for each machine."""
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE machines (machine INTEGER PRIMARY KEY, idle_hours REAL, hall TEXT)"))
        connection.execute(
            sa.text("INSERT INTO machines VALUES (:machine, :hours, :hall)"),
            [
                {"machine": m, "hours": 800.0 if m in WORN else float(rng.integers(10, 900)), "hall": "ABC"[m % 3]}
                for m in range(MACHINES)
            ],
        )
    return engine


def sensors(engine: sa.Engine, rng: np.random.Generator, serviced: dict[int, int]) -> Iterator[dict[str, np.ndarray]]:
    """Eight minutes, one batch each: millimetres a second."""
    for minute in range(8):
        if minute in serviced:  # the technician is done, and writes it down
            with engine.begin() as connection:
                done = sa.text("UPDATE machines SET idle_hours = 0 WHERE machine = :machine")
                connection.execute(done, {"machine": serviced[minute]})
        machine = np.tile(np.arange(MACHINES), 6)
        shaking = rng.gamma(4, 0.5, len(machine)) + 5 * np.isin(machine, WORN)
        yield {"at": minute * MINUTE + np.repeat(np.arange(6) * 10, MACHINES), "machine": machine, "mm_s": shaking}


def main() -> None:
    """Print who should be serviced next, minute by minute."""
    rng = np.random.default_rng(5)
    with tempfile.TemporaryDirectory() as folder:
        engine = maintenance(f"sqlite:///{folder}/maintenance.db", rng)
        table = SqlTable(engine, "machines", key="machine")
        join = sb.Join(
            table,
            on="machine",
            columns=["idle_hours", "hall"],
            initial=table.fetch(range(MACHINES), ["idle_hours", "hall"]),
            aggregates={"shaking": "avg(mm_s)"},
            refresh=sb.Refresh(budget=5, deadline="30 seconds"),
        )
        urgent = sb.TopK(
            k=3, by="shaking * (1 + idle_hours / 200)", window=sb.Tumbling("1 minute"), time="at", unit="s", join=join
        )
        print("Machines to service next: vibration, weighed by the hours without service\n")
        print(f"{'minute':>6}" + "".join(f"{place:>24}" for place in ("1st", "2nd", "3rd")))
        answers = sb.stream(urgent, sensors(engine, rng, serviced={4: 17, 6: 41}))
        for lists in answers:
            rows = lists.to_pylist()
            cells = (f"{r['machine']} in {r['hall']} ({r['shaking']:.1f}, {r['idle_hours']:.0f} h)" for r in rows)
            print(f"{rows[0]['window_end'] // MINUTE:>6}" + "".join(f"{cell:>24}" for cell in cells))
        print(f"\nMachines 17 and 41 were serviced after minutes 3 and 5; {answers.stats.made} look-ups noticed it,")
        print(f"where reading all {MACHINES} machines before every list would have taken {8 * MACHINES}.")
        engine.dispose()


if __name__ == "__main__":
    main()
