"""The peers suite: one task through skyband and through what one would take instead, each in an environment of its own.

How each is asked stands in `lab/peers/ask_*.py`, one small file a peer with its requirements on top. Equal
digests are equal answers. Rows a CPU second is the figure to compare: it counts a JVM's threads, and other work on the
machine matters less.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from skyband.errors import SourceError
from skyband_lab.bench.slide import checked
from skyband_lab.checkout import LAB, RESULTS, ROOT

ASKS = LAB / "peers"
KEPT = RESULTS / "peers.jsonl"
_CUT, _PARTS = 5_000, 10  # rows to get warm with; files of a stream
_SECOND = 200_000  # up to so many rows there is a second opinion by heapq
_RATE = 20  # rows a second of event time


class Peer(NamedTuple):
    """Who is asked, how, and over how many rows: as many as take it a bearable time."""

    name: str
    way: str = "plain"
    rows: tuple[int, int, int] = (2_000_000, 2_000_000, 2_000_000)  # at win / slide 10, 60 and 360
    others: int = 2_000_000  # at the other tasks

    def __str__(self) -> str:
        return self.name if self.way == "plain" else f"{self.name}, {self.way}"


PEERS = (
    Peer("skyband"),
    Peer("skyband_spark"),
    Peer("spark", rows=(1_000_000, 200_000, 20_000), others=1_000_000),
    Peer("spark", "panes", rows=(2_000_000, 2_000_000, 200_000), others=1_000_000),
    Peer("flink", rows=(200_000, 20_000, 20_000), others=200_000),
    Peer("flink", "panes", rows=(1_000_000, 200_000, 200_000), others=200_000),
    Peer("duckdb", rows=(1_000_000, 200_000, 200_000)),
    Peer("duckdb", "panes"),
    Peer("polars", rows=(1_000_000, 200_000, 200_000)),
    Peer("polars", "panes"),
    Peer("bytewax", rows=(200_000, 20_000, 20_000), others=20_000),
    Peer("bytewax", "panes", rows=(200_000, 200_000, 200_000), others=200_000),
    Peer("pathway", rows=(20_000, 20_000, 20_000), others=20_000),
    Peer("heapq", rows=(1_000_000, 200_000, 200_000)),
    Peer("sortedlist", rows=(200_000, 200_000, 200_000), others=200_000),
)


class Task(NamedTuple):
    """What is asked."""

    name: str
    win: int
    slide: int
    k: int = 10
    per: bool = False
    counts: bool = False

    @property
    def overlap(self) -> int:
        """In how many windows a row is."""
        return self.win // self.slide


OVERLAPS = tuple(Task(f"win/slide {ratio}", 3_600, 3_600 // ratio) for ratio in (10, 60, 360))
TASKS = (
    *OVERLAPS,
    Task("3 best of 500 symbols", 600, 60, 3, per=True),
    Task("last 100,000 rows", 100_000, 10_000, 100, counts=True),
)


@dataclass(frozen=True)
class Line:
    """What one peer did with one task."""

    task: str
    peer: str
    way: str
    rows: int
    seconds: float | None = None
    cpu_seconds: float | None = None  # of the process and all it has started, while it worked
    peak_mb: int | None = None  # memory of the same, at most, with start-up
    answers: int | None = None
    digest: str | None = None
    cannot: str | None = None  # why there is no answer
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def per_cpu_second(self) -> float | None:
        """Rows a CPU second."""
        return self.rows / self.cpu_seconds if self.cpu_seconds else None

    def as_dict(self) -> dict[str, Any]:
        """The fields by name that have a value."""
        rounded = {"seconds": self.seconds, "cpu_seconds": self.cpu_seconds}
        found = {**asdict(self), **{name: x and float(f"{x:.4g}") for name, x in rounded.items()}}
        return {name: value for name, value in found.items() if value not in (None, {})}


def rows_for(peer: Peer, task: Task, *, quick: bool) -> int:
    """How many rows a peer is given.

    Examples
    --------
    >>> rows_for(Peer("skyband"), OVERLAPS[0], quick=True)
    100000
    """
    rows = peer.rows[OVERLAPS.index(task)] if task in OVERLAPS else peer.others
    return min(rows, 200_000 if task.counts else 100_000) if quick else max(rows, 200_000 * task.counts)


def todo(names: Iterable[str] = (), *, quick: bool) -> list[tuple[Task, Peer, int]]:
    """Who does what: every size at which a peer works is also done by skyband and by heapq, to compare the answers."""
    chosen = checked(names, [peer.name for peer in PEERS], "peer")
    tasks = [OVERLAPS[0], OVERLAPS[2]] if quick else TASKS
    found = []
    for task in tasks:
        peers = [peer for peer in PEERS if not chosen or peer.name in chosen]
        sizes = {rows_for(peer, task, quick=quick) for peer in peers}
        found += [(task, peer, rows_for(peer, task, quick=quick)) for peer in peers]
        found += [(task, Peer("skyband"), size) for size in sizes]
        found += [(task, Peer("heapq"), size) for size in sizes if size <= _SECOND]
    return list(dict.fromkeys((task, peer._replace(rows=(0, 0, 0), others=0), size) for task, peer, size in found))


def run(work: Iterable[tuple[Task, Peer, int]], *, patience: float = 240.0, seed: int = 7) -> Iterator[Line]:
    """One after the other, each in a process of its own that is ended after `patience` seconds."""
    if not ASKS.is_dir():
        raise SourceError(f"the peers are asked by the scripts in {ASKS}, which only a checkout has")
    with tempfile.TemporaryDirectory(prefix="skyband-peers-") as scratch:
        for task, peer, rows in work:
            line = Line(task.name, peer.name, peer.way, rows)
            try:
                python = environment(peer.name)
            except SourceError as why:
                yield Line(**{**asdict(line), "cannot": str(why)})
                continue
            folder = written(Path(scratch), rows, seed)
            yield measured(line, task, python, folder, patience)


def measured(line: Line, task: Task, python: Path, folder: Path, patience: float) -> Line:
    """Ask one peer."""
    told = {**task._asdict(), "way": line.way, "rows": line.rows}
    del told["name"]
    java = ROOT / ".venv" / "java-home"
    env = {**os.environ, "PYSPARK_PYTHON": str(python), "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}"}
    env["PYTHONPATH"] = str(ROOT / "src") if line.peer.startswith("skyband") else ""
    if java.is_file():
        env["JAVA_HOME"] = java.read_text().strip()
    command = [str(python), str(ASKS / f"ask_{line.peer}.py"), json.dumps(told), str(folder)]
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen(command, stdout=out, stderr=err, env=env, cwd=folder, start_new_session=True)  # noqa: S603 - our own scripts
        with _watched(process.pid) as most:
            ended = _waited(process, patience)
        out.seek(0)
        err.seek(0)
        lines = [text for text in out.read().splitlines() if text.startswith("{")]
        if not ended:
            return Line(**{**asdict(line), "peak_mb": most[0] >> 20, "cannot": f"not done after {patience:.0f} s"})
        if not lines:
            why = (err.read().strip().splitlines() or ["no word"])[-1]
            return Line(**{**asdict(line), "cannot": f"failed: {why[:200]}"})
        found = json.loads(lines[-1])
    return Line(**{**asdict(line), "peak_mb": most[0] >> 20, "versions": versions(line.peer, python), **found})


def _waited(process: subprocess.Popen[bytes], patience: float) -> bool:
    """Whether it ended by itself; otherwise it is ended, with all it has started."""
    import psutil

    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        for one in [*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)]:
            one.kill()
        process.wait()
        return False
    return True


class _watched:  # noqa: N801 - used as a function
    """The most memory that a process and all it has started took at once, as a list of one number."""

    def __init__(self, pid: int) -> None:
        self._pid, self._most, self._over = pid, [0], threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def _look(self) -> None:
        import psutil

        while not self._over.wait(0.05):
            try:
                one = psutil.Process(self._pid)
                sizes = [each.memory_info().rss for each in [one, *one.children(recursive=True)]]
            except psutil.Error:  # one of them has ended meanwhile
                continue
            self._most[0] = max(self._most[0], sum(sizes))

    def __enter__(self) -> list[int]:
        self._thread.start()
        return self._most

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


# ---------------------------------------------------------------- environments


def needs(name: str) -> list[str]:
    """What a peer's script declares on top.

    Examples
    --------
    >>> needs("skyband")
    ['skyband']
    """
    text = (ASKS / f"ask_{name}.py").read_text(encoding="utf-8")
    found = re.search(r"^# dependencies = (\[.*\])$", text, re.MULTILINE)
    assert found, f"ask_{name}.py declares no dependencies"
    return list(json.loads(found[1]))


@cache
def environment(name: str) -> Path:
    """The Python of a peer: ours for skyband, else one that is made where there is none yet.

    Environments are in .venv/peers, or where SKYBAND_PEERS says.
    """
    if name.startswith("skyband"):
        return Path(sys.executable)
    folder = Path(os.environ.get("SKYBAND_PEERS") or ROOT / ".venv" / "peers") / name
    python, ready = folder / "bin" / "python", folder / ".ready"
    wanted = "\n".join(needs(name))
    if ready.is_file() and ready.read_text() == wanted:
        return python
    uv = shutil.which("uv", path=f"{ROOT / '.venv' / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}")
    if uv is None:
        raise SourceError("not installed: uv, which makes the environments, was not found")
    shutil.rmtree(folder, ignore_errors=True)
    for command in (
        [uv, "venv", "--quiet", "--python", sys.executable, str(folder)],
        [uv, "pip", "install", "--quiet", "--python", str(python), *needs(name)],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - uv
        if done.returncode:
            why = (done.stderr.strip().splitlines() or ["uv failed"])[0]
            raise SourceError(f"not installed: {why[:200]}")
    ready.write_text(wanted)
    return python


@cache
def versions(name: str, python: Path) -> dict[str, str]:
    """What is installed of what a peer needs, without what all of them need."""
    packages = [re.split(r"[\[<=>]", need)[0] for need in needs(name)]
    if name == "skyband_spark":
        packages.append("pyspark")
    code = "import sys, importlib.metadata as m; print(*(m.version(n) for n in sys.argv[1:]))"
    chosen = [package for package in packages if package not in ("numpy", "pyarrow", "pandas", "setuptools")]
    done = subprocess.run([str(python), "-c", code, *chosen], capture_output=True, text=True, check=False)  # noqa: S603
    return dict(zip(chosen, done.stdout.split(), strict=False))


# ---------------------------------------------------------------- rows


def written(scratch: Path, rows: int, seed: int) -> Path:
    """A folder of rows as every peer can read them, and of a few of them to get warm with."""
    folder = scratch / f"rows-{rows}"
    if not folder.is_dir():
        table = trades(rows, seed)
        _write(folder, table, -(-rows // _PARTS))
        _write(folder / "warm", table.slice(0, _CUT), _CUT)
    return folder


def _write(folder: Path, table: Any, batch: int) -> None:
    import pyarrow.csv as pc
    import pyarrow.parquet as pq

    (folder / "parts").mkdir(parents=True)
    pq.write_table(table, folder / "stream.parquet")
    pc.write_csv(table, folder / "stream.csv", pc.WriteOptions(include_header=False, quoting_style="none"))
    (folder / "last").write_text(str(table["ts"][-1].as_py()))
    for number, low in enumerate(range(0, table.num_rows, batch)):
        path = folder / "parts" / f"{number:05d}.parquet"
        pq.write_table(table.slice(low, batch), path)
        os.utime(path, (1_700_000_000 + number,) * 2)  # Spark reads files in the order of their times


def trades(rows: int, seed: int = 7) -> Any:
    """Seeded trades in bursts, of 500 symbols, with many equal scores.

    Examples
    --------
    >>> trades(3).schema.names
    ['ts', 'id', 'price', 'volume', 'symbol']
    """
    import pyarrow as pa

    rng = np.random.default_rng(seed)
    gaps = rng.exponential(1 / _RATE, rows) * np.exp(rng.normal(0, 0.5, rows // 1_000 + 1)).repeat(1_000)[:rows]
    symbol = np.minimum(rng.zipf(1.3, rows), 500) - 1
    price = np.exp(rng.normal(3.5, 1.0, 500))[symbol] * np.exp(rng.normal(0, 0.02, rows))
    names = np.array([f"SYM{number:03}" for number in range(500)])
    return pa.table(
        {
            "ts": 1_700_000_040 + np.cumsum(gaps).astype(np.int64),
            "id": np.arange(rows),
            "price": np.maximum(np.round(price, 2), 0.01),
            "volume": (np.maximum(1, np.round(np.exp(rng.normal(1.0, 1.2, rows)))) * 100).astype(np.int32),
            "symbol": names[symbol],
        }
    )


# ---------------------------------------------------------------- what came out


def disagreeing(lines: Iterable[Line]) -> list[tuple[str, int]]:
    """Tasks and sizes at which not all peers gave the same answers."""
    digests: dict[tuple[str, int], set[str]] = {}
    for line in lines:
        if line.digest:
            digests.setdefault((line.task, line.rows), set()).add(line.digest)
    return [key for key, found in digests.items() if len(found) > 1]


def load(path: Path = KEPT) -> list[Line]:
    """The lines of a run that was kept."""
    return [Line(**json.loads(text)) for text in path.read_text(encoding="utf-8").splitlines()]


def plot(lines: Iterable[Line], path: Path) -> None:
    """Rows a CPU second over win / slide, a line for each peer and way."""
    from skyband_lab.bench.plots import pyplot, save

    plt = pyplot()
    figure, axis = plt.subplots(figsize=(8, 6))
    found: dict[str, dict[int, tuple[int, float]]] = {}
    ratios = {task.name: task.overlap for task in OVERLAPS}
    for line in lines:
        if line.task in ratios and line.per_cpu_second:
            points = found.setdefault(str(Peer(line.peer, line.way)), {})
            points[ratios[line.task]] = max(points.get(ratios[line.task], (0, 0.0)), (line.rows, line.per_cpu_second))
    order = sorted(found, key=lambda name: -max(speed for _, speed in found[name].values()))
    for name in order:
        xs = sorted(found[name])
        ours = name.startswith("skyband")
        style = {"linewidth": 3 if ours else 1.2, "marker": "o", "linestyle": "--" if "panes" in name else "-"}
        axis.plot(xs, [found[name][x][1] for x in xs], label=name.replace("_", " on "), **style)
    axis.set(xscale="log", yscale="log", xlabel="win / slide", ylabel="rows a CPU second")
    axis.set_xticks([10, 60, 360], ["10", "60", "360"])
    axis.minorticks_off()
    axis.grid(alpha=0.3)
    axis.legend(fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))
    save(figure, path)
