"""How the suites show what they measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skyband_lab.bench.result import Result


def shown(results: Iterator[Result], total: int) -> Iterator[Result]:
    """Pass results through, with a bar and the time left where there is a terminal to see them."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield from results
        return
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("getting ready", total=total)
        for result in results:
            last = f"{result.engine} {short(result.rows_per_s)} rows/s  {result.case}"
            bar.update(task, advance=1, description=last)
            yield result


def print_table(results: list[Result], more: Mapping[str, str] = MappingProxyType({})) -> None:
    """One line a result; `more` names further fields of it and their columns."""
    from rich.table import Table

    from skyband.cli._common import stdout_console

    console = stdout_console()
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("case", no_wrap=True)
    table.add_column("engine", no_wrap=True)
    for name in ("rows/s", "of scan", "candidates", "bytes", "rows out", "rows", "seconds", *more.values()):
        table.add_column(name, justify="right", no_wrap=True)
    best = {r.case: max(o.rows_per_s for o in results if o.case == r.case) for r in results}
    before = ""
    for r in results:
        fastest = "bold green" if r.rows_per_s == best[r.case] else ""
        row: list[Any] = [
            r.case if r.case != before else "",
            r.engine,
            f"[{fastest}]{short(r.rows_per_s)}[/]" if fastest else short(r.rows_per_s),
            f"{r.scan_ratio:.2%}",
            f"{r.candidates_peak:,}",
            short(r.candidate_bytes),
            short(r.output_rows),
            short(r.rows) + ("" if r.filled else "*"),
            f"{r.seconds:.3f}",
            *(short(getattr(r, field)) for field in more),
        ]
        table.add_row(*row)
        before = r.case
    console.print(table)
    if not all(r.filled for r in results):
        console.print("* from a window that was not full yet (sb.run: from the first row of the file)")


def short(number: float) -> str:
    """A count in at most three digits and a letter.

    Examples
    --------
    >>> short(950), short(83_210_000), short(1_040_000_000)
    ('950', '83.2 M', '1.04 G')
    """
    for size, letter in ((1e9, " G"), (1e6, " M"), (1e3, " K")):
        if number >= 0.9995 * size:  # 999,999 is 1 M, not 1000 K
            return f"{number / size:.3g}{letter}"
    return f"{number:.3g}"
