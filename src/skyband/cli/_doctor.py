"""What could be wrong with a machine, a pipeline file or a checkpoint, and what to do about it."""

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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skyband.lang.job import Job

FINE, CARE, WRONG = "ok", "care", "wrong"
_GB = 1 << 30
_JAVA = 17
_SPARK = (4, 2)


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    what: str
    state: str
    found: str
    do: str = ""


def machine() -> Iterator[Finding]:
    """Python, libraries, Java, memory and disk."""
    version = ".".join(map(str, sys.version_info[:3]))
    old = sys.version_info < (3, 11)
    yield Finding("Python", WRONG if old else FINE, version, "use Python 3.11 or later" if old else "")
    yield from _libraries()
    yield java()
    yield memory()
    yield disk("scratch", Path(os.environ.get("SPARK_LOCAL_DIRS", tempfile.gettempdir()).split(",")[0]))
    yield _kernels()
    yield bytecode()


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _libraries() -> Iterator[Finding]:
    for name in ("numpy", "numba", "pyarrow", "sqlglot"):
        found = _version(name)
        do = "" if found else f"pip install {name}"
        yield Finding(name, FINE if found else WRONG, found or "not installed", do)
    spark = _version("pyspark")
    if spark is None:
        yield Finding("Spark", CARE, "not installed", 'to run on Spark: pip install "skyband[spark]"')
    else:
        old = tuple(int(part) for part in re.findall(r"\d+", spark)[:2]) < _SPARK
        yield Finding("Spark", WRONG if old else FINE, spark, "skyband needs Spark 4.2 or later" if old else "")
        pandas = _version("pandas")
        if pandas is None or int(pandas.split(".")[0]) >= 3:
            do = 'Spark\'s stateful operators need pandas 2: pip install "pandas<3"'
            yield Finding("pandas", WRONG, pandas or "not installed", do)
    extras = {"lark": "lang", "sqlalchemy": "sql", "httpx": "remote", "fastapi": "dashboard"}
    missing = sorted({extra for name, extra in extras.items() if _version(name) is None})
    do = f'if you need them: pip install "skyband[{",".join(missing)}]"' if missing else ""
    yield Finding("extras", FINE, f"without {', '.join(missing)}" if missing else "all there", do)


def java() -> Finding:
    """The Java that Spark would start."""
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home, "bin", "java")) if home else shutil.which("java")
    do = f"install Java {_JAVA} or later and set JAVA_HOME, or use the one that `make env` finds or fetches"
    if program is None:
        remembered = Path(sys.prefix, "java-home")
        if remembered.is_file():
            return Finding("Java", CARE, "not on the PATH", f"export JAVA_HOME={remembered.read_text().strip()}")
        return Finding("Java", CARE, "none found: Spark cannot start", do)
    command = [program, "-XshowSettings:properties", "-version"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603 - Java
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding("Java", WRONG, f"{program} does not start: {error}", do)
    number = re.search(r"java\.specification\.version = (\d+)(?:\.(\d+))?", told.stderr)
    parts = [int(part or 0) for part in number.groups()] if number is not None else [0, 0]
    version = parts[1] if parts[0] == 1 else parts[0]  # Java 8 says 1.8
    if told.returncode or version < _JAVA:
        return Finding("Java", WRONG, f"version {version or 'unknown'} at {program}", do)
    return Finding("Java", FINE, f"version {version}")


def memory() -> Finding:
    """What is free for Spark and its Python workers."""
    total, free = _memory()
    if free is None:
        return Finding("memory", FINE, "unknown on this system")
    found = f"{free / _GB:.1f} GB free of {total / _GB:.1f} GB"
    if free < 2 * _GB:
        do = "Spark and its Python workers want 2 GB: stop other programs, or set spark.driver.memory: 512m"
        return Finding("memory", CARE, found, do)
    return Finding("memory", FINE, found)


def _memory() -> tuple[int, int | None]:
    try:
        told = Path("/proc/meminfo").read_text(encoding="ascii")
    except OSError:
        return 0, None
    kb = {name: int(number) for name, number in re.findall(r"(\w+):\s+(\d+) kB", told)}
    total, free = kb.get("MemTotal", 0) << 10, kb.get("MemAvailable", 0) << 10
    group = Path("/sys/fs/cgroup")
    with contextlib.suppress(OSError, ValueError):  # a container may have less than the machine
        most = int((group / "memory.max").read_text(encoding="ascii"))
        used = int((group / "memory.current").read_text(encoding="ascii"))
        total, free = min(total, most), min(free, most - used)
    return total, max(0, free)


def disk(what: str, path: Path) -> Finding:
    """What is free for state and shuffles."""
    there = next((parent for parent in (path, *path.absolute().parents) if parent.exists()), Path("/"))
    if not os.access(there, os.W_OK):
        return Finding(what, WRONG, f"{there} cannot be written to", "choose a folder of yours, or change its rights")
    free = shutil.disk_usage(there).free
    do = "make room: state, shuffles and checkpoints are written there" if free < _GB else ""
    return Finding(what, CARE if do else FINE, f"{free / _GB:.1f} GB free at {there}", do)


def _kernels() -> Finding:
    """Whether compiled kernels can be kept from one start to the next."""
    try:
        from skyband.kernels._jit import cache_folder

        is_kept, temporary = cache_folder()
    except ImportError as error:
        return Finding("kernels", WRONG, f"cannot be loaded: {error}", "pip install numba")
    do = "set NUMBA_CACHE_DIR to a folder that can be written to and stays"
    if not is_kept:
        found = "not kept: no folder can be written to, so that every process compiles them for up to some minutes"
        return Finding("kernels", CARE, found, do)
    if temporary is not None:
        found = f"kept in {temporary} only: neither the package's folder nor the home can be written to"
        return Finding("kernels", CARE, found, do)
    return Finding("kernels", FINE, "kept between starts")


def bytecode() -> Finding:
    """Whether Python keeps the modules that it compiles: Spark starts a Python for every worker."""
    if not os.environ.get("PYTHONDONTWRITEBYTECODE"):
        return Finding("modules", FINE, "compiled once")
    missing = [name for name in ("numpy", "pandas", "pyarrow", "pyspark", "skyband") if not _compiled(name)]
    if not missing:
        return Finding("modules", FINE, "compiled already, though PYTHONDONTWRITEBYTECODE is set")
    found = f"PYTHONDONTWRITEBYTECODE is set, and {', '.join(missing)} are not compiled"
    do = "unset PYTHONDONTWRITEBYTECODE, or every start of a Python worker of Spark compiles them anew: 3 to 4 seconds"
    return Finding("modules", CARE, found, do)


def _compiled(name: str) -> bool:
    """Whether the compiled form of a library is kept; one that is not installed lacks nothing."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        return True
    return Path(importlib.util.cache_from_source(spec.origin)).exists()


def pipeline(job: Job) -> Iterator[Finding]:
    """Whether what a pipeline file names is there; nothing is contacted, no value is shown."""
    from skyband.lang.env_template import variables_in

    yield Finding("pipeline", FINE, f"{job.name}: {_counted(job.statements)}, {job.source.kind} to {job.sink.kind}")
    missing = sorted(name for name, default in variables_in(job).items() if default is None and name not in os.environ)
    if missing:
        yield Finding("variables", WRONG, f"not set: {', '.join(missing)}", f"export {missing[0]}=...")
        return
    if job.source.path is not None:
        path = job.source.path.get()
        if "://" not in path and not Path(path).exists():
            yield Finding("source", WRONG, f"{job.source.path} does not exist", "check source.path of the file")
        else:
            yield Finding("source", FINE, str(job.source.path))
    if job.checkpoint is None:
        do = "add checkpoint: state/name, or a restart begins from nothing"
        yield Finding("checkpoint", CARE, "none", do)
    else:
        yield from checkpoint(job.checkpoint.get())


def _counted(statements: Sequence[object]) -> str:
    return "1 query" if len(statements) == 1 else f"{len(statements)} queries"


def checkpoint(where: str) -> Iterator[Finding]:
    """Whether a folder holds a checkpoint that a restart can go on from."""
    if "://" in where:
        yield Finding("checkpoint", FINE, f"{where} is not on this machine, and was not looked at")
        return
    path = Path(where)
    if not path.exists():
        room = disk("checkpoint", path)
        yield replace(room, found=f"{path} is not there yet: the first start will make it; {room.found}")
        return
    again = "move the folder away to begin from nothing; its pipeline must not be running"
    try:
        told = json.loads((path / "metadata").read_text(encoding="utf-8"))
        name = str(told["id"])
    except (OSError, ValueError, KeyError):
        if not any(path.iterdir()):
            yield Finding("checkpoint", FINE, f"{path} is empty: the first start will fill it")
            return
        yield Finding("checkpoint", WRONG, f"{path} holds no readable metadata: it is no checkpoint, or damaged", again)
        return
    begun, done = _numbers(path / "offsets"), _numbers(path / "commits")
    broken = [file for file in _logs(path) if not _complete(file)]
    if broken:
        found = f"{broken[0].relative_to(path)} is cut short: a disk was full, or a machine died"
        yield Finding("checkpoint", WRONG, found, again)
        return
    last, safe = max(begun, default=-1), max(done, default=-1)
    if safe > last or last > safe + 1:
        found = f"batch {last} was begun, but {safe} is the last one done: files are missing"
        yield Finding("checkpoint", WRONG, found, again)
        return
    unfinished = f"; batch {last} will be done again" if last > safe else ""
    yield Finding("checkpoint", FINE, f"{safe + 1} batches done, query {name[:8]}{unfinished}")
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    care = size > 5 * _GB
    yield Finding("state", CARE if care else FINE, f"{size / (1 << 20):.1f} MB", "shorten the window?" if care else "")


def _numbers(folder: Path) -> list[int]:
    return [int(file.name) for file in folder.iterdir() if file.name.isdigit()] if folder.is_dir() else []


def _logs(path: Path) -> list[Path]:
    """The newest files of the two logs, which a restart reads."""
    newest: list[Path] = []
    for folder in ("offsets", "commits"):
        numbers = sorted(_numbers(path / folder))[-2:]
        newest += [path / folder / str(number) for number in numbers]
    return newest


def _complete(file: Path) -> bool:
    """A log begins with its version, v1, and goes on with JSON (a source without an offset says -)."""
    try:
        first, *rest = file.read_text(encoding="utf-8").split("\n")
        for line in rest:
            if line and line != "-":
                _ = json.loads(line)
    except (OSError, ValueError, UnicodeDecodeError):
        return False
    return re.fullmatch(r"v\d+", first) is not None and bool(rest)


def worst(findings: list[Finding]) -> str:
    """The state of the whole."""
    states = [finding.state for finding in findings]
    return WRONG if WRONG in states else CARE if CARE in states else FINE
