"""One raw file a run: written when it ends, skipped when it is there, read again by all that comes later."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from skyband.errors import SourceError
from skyband.reproduce.grid import FULL, QUICK, Figure, Run

FOLDER = Path("benchmarks") / "results" / "reproduce"
"""Where raw files are in a checkout."""

Record = dict[str, Any]


def place(folder: Path, run: Run) -> Path:
    """The file of a run."""
    return folder / run.paper / run.figure / run.mode / f"{run.name}.json"


def found(folder: Path, run: Run) -> Record | None:
    """What a run gave, or None where it has not ended yet, or was run with other settings."""
    try:
        record: Record = json.loads(place(folder, run).read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    return record if record.get("settings") == _plain(run.settings) else None


def carried_out(folder: Path, run: Run, data: Path | None = None) -> Record:
    """Do a run and write its file, whole or not at all."""
    from skyband import __version__
    from skyband.reproduce.kinds import KINDS

    began = time.perf_counter()
    figures = KINDS[run.kind](run.settings, data)
    record = {
        "paper": run.paper,
        "figure": run.figure,
        "mode": run.mode,
        "settings": _plain(run.settings),
        "figures": {name: rounded(value) for name, value in figures.items()},
        "seconds": rounded(time.perf_counter() - began),
        "version": __version__,
    }
    path = place(folder, run)
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_suffix(f".{os.getpid()}.part")
    half.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    half.replace(path)
    return record


def run_all(  # noqa: PLR0913 - one name for each thing that can be chosen
    figures: Iterable[Figure],
    mode: str,
    folder: Path,
    *,
    again: bool = False,
    data: Path | None = None,
    watch: Callable[[list[Run], list[Run]], None] = lambda _todo, _there: None,
    lacks: dict[str, Exception] | None = None,
) -> Iterator[tuple[Run, Record]]:
    """Do what is missing, run after run; `again` does all. `watch` is told first what is to do and what is there.

    A run that lacks its data or a library is left out where there is a `lacks` to note why.
    """
    wanted = list({(run.paper, run.figure, run.name): run for one in figures for run in one.runs(mode)}.values())
    todo = [run for run in wanted if again or found(folder, run) is None]
    watch(todo, [run for run in wanted if run not in todo])
    for run in todo:
        try:
            record = carried_out(folder, run, data)
        except (ImportError, SourceError) as error:
            if lacks is None:
                raise
            lacks.setdefault(str(error), error)
            continue
        yield run, record


def rows_of(folder: Path, figure: Figure) -> tuple[str, list[Record]]:
    """Settings and figures of all runs, a row each: of the full grid where it is complete, else of the quick one."""
    for mode in (FULL, QUICK):
        records = [(run, found(folder, run)) for run in figure.runs(mode)]
        if records and all(record is not None for _, record in records):
            return mode, [row for run, record in records if record is not None for row in _rows(run, record)]
    return "", []


def _rows(run: Run, record: Record) -> list[Record]:
    """One row a run, or one for each of its lines."""
    figures = dict(record["figures"])
    lines = figures.pop("lines", [{}])
    return [{"figure": run.figure, **record["settings"], **figures, **line} for line in lines]


def rounded(value: Any, digits: int = 5) -> Any:
    """Numbers to what they are worth; lists and maps alike.

    Examples
    --------
    >>> rounded({"a": [1.23456789, 3]}), rounded(float("nan"))
    ({'a': [1.2346, 3]}, None)
    """
    if isinstance(value, dict):
        return {name: rounded(one, digits) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(one, digits) for one in value]
    if isinstance(value, float):
        return float(f"{value:.{digits}g}") if abs(value) < float("inf") else None
    return value


def _plain(settings: Any) -> Any:
    return json.loads(json.dumps(dict(settings)))
