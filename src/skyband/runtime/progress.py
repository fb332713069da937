"""A progress bar for long work, on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

_PATIENCE = 2.0  # seconds before a bar appears


def shown(
    batches: Iterator[tuple[pa.Table, Any]], total: int | None, *, wanted: bool | None
) -> Iterator[tuple[pa.Table, Any]]:
    """Pass batches through; show how far they have come if it takes long, or if it is `wanted`."""
    if wanted is False or (wanted is None and not sys.stderr.isatty()):
        yield from batches
        return
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
            if wanted or time.monotonic() - began > _PATIENCE:
                bar.start()
    finally:
        bar.stop()
