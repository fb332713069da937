"""skyband doctor: check the machine, a pipeline file and a checkpoint."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skyband.cli._common import ExitCode, stdout_console

if TYPE_CHECKING:
    from skyband.lang import Job

HELP = """Check this machine, a pipeline file and a checkpoint, and say what to do about each finding.

Checks Java, Spark, libraries, memory and disk; for a file also its variables, source and checkpoint. It starts only
`java -version`, contacts nothing, and prints no value of a variable. The exit code is 5 if something is wrong.

Examples:

  skyband doctor

  skyband doctor pipeline.yaml

  skyband doctor --checkpoint state/trades --json
"""

OK, WARNING, ERROR = "ok", "care", "wrong"
_LABELS = {OK: ("ok", "green"), WARNING: ("warning", "yellow"), ERROR: ("ERROR", "bold red")}
_GB = 1 << 30
_JAVA = 17
_SPARK = (4, 2)


@dataclass(frozen=True)
class Finding:
    """The result of one check: what was checked, its state, what was found, and what to do."""

    what: str
    state: str
    found: str
    do: str = ""


def doctor(
    *,
    file: Annotated[str | None, typer.Argument(help="A pipeline file to check.")] = None,
    checkpoint: Annotated[str | None, typer.Option(help="A checkpoint to check.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list of the findings.")] = False,
) -> None:
    """Print the findings."""
    findings = list(check_machine())
    if file is not None:
        from skyband.lang import load

        findings += check_pipeline(load(file))
    if checkpoint is not None:
        findings += check_checkpoint(checkpoint)
    if as_json:
        print(json.dumps([asdict(finding) for finding in findings]))
    else:
        _print(findings)
    if any(finding.state == ERROR for finding in findings):
        raise typer.Exit(ExitCode.ENVIRONMENT)


def _print(findings: list[Finding]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column()
    for finding in findings:
        label, style = _LABELS[finding.state]
        text = Text(finding.found)
        if finding.do:
            text.append(f"\n→ {finding.do}", style="bold")
        table.add_row(Text(label, style=style), finding.what, text)
    stdout_console().print(table)


# ---------------------------------------------------------------- the machine


def check_machine() -> Iterator[Finding]:
    """Check Python, libraries, Java, memory, disk and compiled code."""
    version = ".".join(map(str, sys.version_info[:3]))
    old = sys.version_info < (3, 11)
    yield Finding("Python", ERROR if old else OK, version, "use Python 3.11 or later" if old else "")
    yield from _check_libraries()
    yield check_java()
    yield _check_memory()
    yield _check_disk("scratch", Path(os.environ.get("SPARK_LOCAL_DIRS", tempfile.gettempdir()).split(",")[0]))
    yield _check_kernels()
    yield check_bytecode()


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _check_libraries() -> Iterator[Finding]:
    for name in ("numpy", "numba", "pyarrow", "sqlglot"):
        found = _version(name)
        yield Finding(name, OK if found else ERROR, found or "not installed", "" if found else f"pip install {name}")
    spark = _version("pyspark")
    if spark is None:
        yield Finding("Spark", WARNING, "not installed", 'to run on Spark: pip install "skyband[spark]"')
    else:
        old = tuple(int(part) for part in re.findall(r"\d+", spark)[:2]) < _SPARK
        yield Finding("Spark", ERROR if old else OK, spark, "skyband needs Spark 4.2 or later" if old else "")
        pandas = _version("pandas")
        if pandas is None or int(pandas.split(".")[0]) >= 3:
            do = 'Spark\'s stateful operators need pandas 2: pip install "pandas<3"'
            yield Finding("pandas", ERROR, pandas or "not installed", do)
    extras = {"lark": "lang", "sqlalchemy": "sql", "httpx": "remote", "fastapi": "dashboard"}
    missing = sorted({extra for name, extra in extras.items() if _version(name) is None})
    do = f'if you need them: pip install "skyband[{",".join(missing)}]"' if missing else ""
    yield Finding("extras", OK, f"without {', '.join(missing)}" if missing else "all installed", do)


def check_java() -> Finding:
    """Check the Java that Spark would start."""
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home, "bin", "java")) if home else shutil.which("java")
    do = f"install Java {_JAVA} or later and set JAVA_HOME, or use the one that `make env` finds or downloads"
    if program is None:
        noted = Path(sys.prefix, "java-home")
        if noted.is_file():
            return Finding("Java", WARNING, "not on the PATH", f"export JAVA_HOME={noted.read_text().strip()}")
        return Finding("Java", WARNING, "not found: Spark cannot start", do)
    command = [program, "-XshowSettings:properties", "-version"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603 - Java
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding("Java", ERROR, f"{program} does not start: {error}", do)
    number = re.search(r"java\.specification\.version = (\d+)(?:\.(\d+))?", done.stderr)
    parts = [int(part or 0) for part in number.groups()] if number is not None else [0, 0]
    version = parts[1] if parts[0] == 1 else parts[0]  # Java 8 reports 1.8
    if done.returncode or version < _JAVA:
        return Finding("Java", ERROR, f"version {version or 'unknown'} at {program}", do)
    return Finding("Java", OK, f"version {version}")


def _check_memory() -> Finding:
    """Check the memory for Spark and its Python workers."""
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
    except OSError:
        return Finding("memory", OK, "unknown on this system")
    kb = {name: int(number) for name, number in re.findall(r"(\w+):\s+(\d+) kB", text)}
    total, free = kb.get("MemTotal", 0) << 10, kb.get("MemAvailable", 0) << 10
    group = Path("/sys/fs/cgroup")
    with contextlib.suppress(OSError, ValueError):  # a container may have less than the machine
        limit = int((group / "memory.max").read_text(encoding="ascii"))
        used = int((group / "memory.current").read_text(encoding="ascii"))
        total, free = min(total, limit), max(0, min(free, limit - used))
    found = f"{free / _GB:.1f} GB free of {total / _GB:.1f} GB"
    if free < 2 * _GB:
        do = "Spark and its Python workers need 2 GB: stop other programs, or set spark.driver.memory: 512m"
        return Finding("memory", WARNING, found, do)
    return Finding("memory", OK, found)


def _check_disk(what: str, path: Path) -> Finding:
    """Check the disk for state and shuffles."""
    existing = next((parent for parent in (path, *path.absolute().parents) if parent.exists()), Path("/"))
    if not os.access(existing, os.W_OK):
        return Finding(what, ERROR, f"{existing} is not writable", "choose another folder, or change its permissions")
    free = shutil.disk_usage(existing).free
    do = "free disk space: state, shuffles and checkpoints are written there" if free < _GB else ""
    return Finding(what, WARNING if do else OK, f"{free / _GB:.1f} GB free at {existing}", do)


def _check_kernels() -> Finding:
    """Check whether compiled kernels can be stored for later processes."""
    try:
        from skyband.kernels._jit import cache_folder

        usable, temporary = cache_folder()
    except ImportError as error:
        return Finding("kernels", ERROR, f"cannot be loaded: {error}", "pip install numba")
    do = "set NUMBA_CACHE_DIR to a folder that is writable and permanent"
    if not usable:
        found = "cannot be stored: no folder is writable, so every process compiles them, for up to some minutes"
        return Finding("kernels", WARNING, found, do)
    if temporary is not None:
        found = f"stored in {temporary} only: neither the package's folder nor the home folder is writable"
        return Finding("kernels", WARNING, found, do)
    return Finding("kernels", OK, "stored for later processes")


def check_bytecode() -> Finding:
    """Check whether Python stores the modules that it compiles: Spark starts a Python for every worker."""
    if not os.environ.get("PYTHONDONTWRITEBYTECODE"):
        return Finding("modules", OK, "compiled once")
    missing = [name for name in ("numpy", "pandas", "pyarrow", "pyspark", "skyband") if not _has_bytecode(name)]
    if not missing:
        return Finding("modules", OK, "compiled already, though PYTHONDONTWRITEBYTECODE is set")
    found = f"PYTHONDONTWRITEBYTECODE is set, but these are not compiled: {', '.join(missing)}"
    do = "unset PYTHONDONTWRITEBYTECODE, or every Python worker of Spark compiles them again: 3 to 4 seconds"
    return Finding("modules", WARNING, found, do)


def _has_bytecode(name: str) -> bool:
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        return True
    return Path(importlib.util.cache_from_source(spec.origin)).exists()


# ---------------------------------------------------------------- a pipeline file and its checkpoint


def check_pipeline(job: Job) -> Iterator[Finding]:
    """Check whether what a pipeline file names exists."""
    from skyband.lang.text import variables_in

    queries = "1 query" if len(job.statements) == 1 else f"{len(job.statements)} queries"
    yield Finding("pipeline", OK, f"{job.name}: {queries}, {job.source.kind} to {job.sink.kind}")
    missing = sorted(name for name, default in variables_in(job).items() if default is None and name not in os.environ)
    if missing:
        yield Finding("variables", ERROR, f"not set: {', '.join(missing)}", f"export {missing[0]}=...")
        return
    if job.source.path is not None:
        path = job.source.path.get()
        if "://" not in path and not Path(path).exists():
            yield Finding("source", ERROR, f"{job.source.path} does not exist", "check source.path of the file")
        else:
            yield Finding("source", OK, str(job.source.path))
    if job.checkpoint is None:
        yield Finding("checkpoint", WARNING, "none", "add checkpoint: state/name, or a restart begins without state")
    else:
        yield from check_checkpoint(job.checkpoint.get())


def check_checkpoint(where: str) -> Iterator[Finding]:
    """Check whether a restart can continue from a checkpoint."""
    if "://" in where:
        yield Finding("checkpoint", OK, f"{where} is not on this machine, and was not checked")
        return
    path = Path(where)
    if not path.exists():
        disk = _check_disk("checkpoint", path)
        yield replace(disk, found=f"{path} does not exist: the first start creates it; {disk.found}")
        return
    do = "move the folder away to begin without state; its pipeline must not be running"
    try:
        query = str(json.loads((path / "metadata").read_text(encoding="utf-8"))["id"])
    except (OSError, ValueError, KeyError):
        if not any(path.iterdir()):
            yield Finding("checkpoint", OK, f"{path} is empty: the first start fills it")
            return
        yield Finding("checkpoint", ERROR, f"{path} has no readable metadata: not a checkpoint, or damaged", do)
        return
    offsets, commits = (_batch_files(path / name) for name in ("offsets", "commits"))
    damaged = [file for file in (*offsets[-2:], *commits[-2:]) if not _is_complete(file)]  # a restart reads these
    if damaged:
        found = f"{damaged[0].relative_to(path)} is truncated: a disk was full, or a machine failed"
        yield Finding("checkpoint", ERROR, found, do)
        return
    started, done = (int(files[-1].name) if files else -1 for files in (offsets, commits))
    if done > started or started > done + 1:
        found = f"batch {started} was started, but {done} is the last one done: files are missing"
        yield Finding("checkpoint", ERROR, found, do)
        return
    unfinished = f"; batch {started} will be repeated" if started > done else ""
    yield Finding("checkpoint", OK, f"{done + 1} batches done, query {query[:8]}{unfinished}")
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    large = size > 5 * _GB
    do = "consider a shorter window" if large else ""
    yield Finding("state", WARNING if large else OK, f"{size / (1 << 20):.1f} MB", do)


def _batch_files(folder: Path) -> list[Path]:
    files = [file for file in folder.iterdir() if file.name.isdigit()] if folder.is_dir() else []
    return sorted(files, key=lambda file: int(file.name))


def _is_complete(file: Path) -> bool:
    """A log begins with its version, v1, followed by JSON lines (- for a source without an offset)."""
    try:
        first, *rest = file.read_text(encoding="utf-8").split("\n")
        for line in rest:
            if line and line != "-":
                _ = json.loads(line)
    except (OSError, ValueError, UnicodeDecodeError):
        return False
    return re.fullmatch(r"v\d+", first) is not None and bool(rest)
