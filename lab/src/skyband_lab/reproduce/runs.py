"""The raw results: one file of JSON lines per figure, one line per run.

A run appends its line when it ends, and is skipped as long as its line is there with the same settings; a run that is
done again replaces its line. Two processes must not run the same figure at the same time.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from skyband.errors import SourceError
from skyband_lab.reproduce.grid import FULL, QUICK, Figure, Run

FOLDER = Path("lab") / "results" / "reproduce"
"""Where the raw results are in a checkout."""

Record = dict[str, Any]
Records = dict[tuple[str, str], Record]
"""The records of a figure by mode and name of the run."""


def results_path(folder: Path, run: Run) -> Path:
    """Return the file that holds the results of a run."""
    return folder / run.paper / f"{run.figure}.jsonl"


def read_records(path: Path) -> Records:
    """Read the results of a figure; a last line cut short by a killed process is ignored."""
    if not path.is_file():
        return {}
    records: Records = {}
    *lines, _unfinished = path.read_text(encoding="utf-8").split("\n")
    for number, line in enumerate(lines, 1):
        try:
            record: Record = json.loads(line)
            records[record["mode"], record["run"]] = record
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise SourceError(
                f"{path}, line {number} must be the JSON record of a run: {error}; delete the line to run it again"
            ) from error
    return records


def find_records(folder: Path, runs: Sequence[Run]) -> list[Record | None]:
    """Return the record of each run, None for one that has not ended yet or was run with other settings."""
    paths = [results_path(folder, run) for run in runs]
    files = {path: read_records(path) for path in dict.fromkeys(paths)}
    found = [files[path].get((run.mode, run.name)) for path, run in zip(paths, runs, strict=True)]
    return [
        record if record is not None and record["settings"] == _plain(run.settings) else None
        for record, run in zip(found, runs, strict=True)
    ]


def store_record(path: Path, record: Record) -> None:
    """Append a record to a file of results, or replace the one of the same run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    records, key = read_records(path), (record["mode"], record["run"])
    complete = not path.is_file() or path.read_bytes().endswith(b"\n")
    if key not in records and complete:
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
        return
    records[key] = record
    rewritten = path.with_suffix(f".{os.getpid()}.part")
    rewritten.write_text("".join(json.dumps(one) + "\n" for one in records.values()), encoding="utf-8")
    rewritten.replace(path)


def execute(folder: Path, run: Run, data: Path | None = None) -> Record:
    """Do a run and store its record."""
    from skyband import __version__
    from skyband_lab.reproduce.kinds import KINDS

    began = time.perf_counter()
    figures = KINDS[run.kind](run.settings, data)
    record = {
        "paper": run.paper,
        "figure": run.figure,
        "mode": run.mode,
        "run": run.name,
        "settings": _plain(run.settings),
        "figures": {name: rounded(value) for name, value in figures.items()},
        "seconds": rounded(time.perf_counter() - began),
        "version": __version__,
    }
    store_record(results_path(folder, run), record)
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
    known = [record is not None and not again for record in find_records(folder, wanted)]
    todo = [run for run, there in zip(wanted, known, strict=True) if not there]
    watch(todo, [run for run, there in zip(wanted, known, strict=True) if there])
    for run in todo:
        try:
            record = execute(folder, run, data)
        except (ImportError, SourceError) as error:
            if lacks is None:
                raise
            lacks.setdefault(str(error), error)
            continue
        yield run, record


def rows_of(folder: Path, figure: Figure) -> tuple[str, list[Record]]:
    """Settings and figures of all runs, a row each: of the full grid where it is complete, else of the quick one."""
    for mode in (FULL, QUICK):
        runs = figure.runs(mode)
        records = [record for record in find_records(folder, runs) if record is not None]
        if runs and len(records) == len(runs):
            return mode, [row for record in records for row in _rows(record)]
    return "", []


def _rows(record: Record) -> list[Record]:
    """One row a run, or one for each of its lines."""
    figures = dict(record["figures"])
    lines = figures.pop("lines", [{}])
    return [{"figure": record["figure"], **record["settings"], **figures, **line} for line in lines]


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
