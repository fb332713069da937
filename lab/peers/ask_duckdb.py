# /// script
# dependencies = ["duckdb==2.0.0", "numpy", "pyarrow"]
# ///
"""DuckDB, one statement over the whole file.

plain: every row is copied into each of its windows, max(row, k) picks the best of each.
panes: the best of each slide first, and only those are copied. It takes insight, and no state is kept between slides.
"""

from pathlib import Path

import duckdb
from _task import Columns, Task, main


def answers(task: Task, folder: Path) -> Columns:
    at = "id" if task.counts else "ts"
    group = "CAST(substr(symbol, 4) AS BIGINT)" if task.per else "0"
    best = f"max({{s: s, ts: ts, id: id}}, {task.k})"
    pane = f"{at} // {task.slide} AS pane"
    rows = f"SELECT {pane}, ts, id, price * volume AS s, {group} AS g FROM '{folder / 'stream.parquet'}'"
    if task.way == "panes":
        panes = f"SELECT pane, g, unnest({best}) AS x FROM ({rows}) GROUP BY pane, g"
        rows = f"SELECT pane, g, x.s AS s, x.ts AS ts, x.id AS id FROM ({panes})"
    ends = f"generate_series((pane + 1) * {task.slide}, pane * {task.slide} + {task.win}, {task.slide})"
    copies = f"SELECT unnest({ends}) AS e, g, s, ts, id FROM ({rows})"
    lists = f"SELECT e, g, {best} AS x FROM ({copies}) GROUP BY e, g"
    connection = duckdb.connect()
    connection.execute("SET threads = 2")
    found = connection.execute(f"SELECT e, g, unnest(range(1, len(x) + 1)) AS r, unnest(x).id AS id FROM ({lists})")
    columns = found.fetchnumpy()
    return columns["e"], columns["g"], columns["r"], columns["id"]


main(answers)
