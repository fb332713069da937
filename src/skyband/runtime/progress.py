"""A progress bar for long work, on a terminal."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

_PATIENCE = 2.0  # seconds before a bar appears


def show_progress(
    batches: Iterator[tuple[pa.Table, Any]], total: int | None, *, at_once: bool
) -> Iterator[tuple[pa.Table, Any]]:
    """Pass batches through; show how far they have come, `at_once` or if it takes long."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    began = time.monotonic()
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    task = bar.add_task("rows", total=total)
    try:
        for rows, watermark in batches:
            yield rows, watermark
            bar.advance(task, rows.num_rows)
            if at_once or time.monotonic() - began > _PATIENCE:
                bar.start()
    finally:
        bar.stop()
