"""The server: on this machine only, unless a token and TLS are given."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from skyband.dashboard.events import EventStream
from skyband.dashboard.security import AccessControl, is_loopback
from skyband.errors import DashboardError

if TYPE_CHECKING:
    from skyband.dashboard.hub import Hub

_SERVER_SECONDS = 20.0  # for the server to start or to stop


class Dashboard:
    """Serves the boards of a hub, in a thread of its own.

    Parameters
    ----------
    hub
        What to show.
    host, port
        Where to listen. A host that others can reach needs `token` and `tls`. Port 0 takes a free one.
    token
        Secret that clients must present: at least 16 characters. Keep it in the environment or a file.
    tls
        Paths of the certificate and its key.
    names
        Host names of the server, such as "boards.example.org". Addresses need not be given.

    Examples
    --------
    >>> from skyband.dashboard import Dashboard, Hub
    >>> with Dashboard(Hub(), port=0) as dashboard:
    ...     print(dashboard.url.rpartition(":")[0])
    http://127.0.0.1
    """

    def __init__(
        self,
        hub: Hub,
        host: str = "127.0.0.1",
        port: int = 8765,
        token: str | None = None,
        tls: tuple[str | Path, str | Path] | None = None,
        *,
        names: Sequence[str] = (),
    ) -> None:
        _check_access(host, port, token, tls)
        self.hub, self.host, self.port = hub, host, port
        self._token, self._tls, self._names = token, tls, tuple(names)
        self._server: Any = None
        self._thread: threading.Thread | None = None
        self._stream = EventStream(hub)

    def __repr__(self) -> str:
        return f"Dashboard({self.url})"  # without the token

    @property
    def url(self) -> str:
        """Address of the page, without the token: the page asks for it."""
        host = "127.0.0.1" if self.host in ("0.0.0.0", "::") else self.host  # noqa: S104 - compared, not bound
        return f"http{'s' * (self._tls is not None)}://{f'[{host}]' if ':' in host else host}:{self.port}"

    @property
    def thread(self) -> int | None:
        """Id of the server's thread, to measure its CPU time."""
        return None if self._thread is None else self._thread.ident

    @property
    def sent(self) -> int:
        """Number of boards sent to clients."""
        return self._stream.sent

    def start(self) -> Self:
        """Start to listen; return when the page can be opened."""
        if self._thread is not None:
            return self
        uvicorn = _uvicorn()
        from skyband.dashboard.app import BoundedProtocol, build_app

        self._stream = EventStream(self.hub)
        secure = self._tls is not None
        app = build_app(self.hub, self._stream, token=self._token, secure=secure)
        files = {} if self._tls is None else {"ssl_certfile": str(self._tls[0]), "ssl_keyfile": str(self._tls[1])}
        config = uvicorn.Config(
            AccessControl(app, host=self.host, names=self._names, token=self._token, secure=secure),
            log_config=None,  # a log of requests could contain names
            access_log=False,
            lifespan="off",
            http=BoundedProtocol,
            ws="none",
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=2,
            h11_max_incomplete_event_size=32 << 10,
            **files,
        )
        try:
            config.load()
        except (OSError, ValueError) as error:
            raise DashboardError(
                f"tls must be the files of a certificate and its key, got {list(map(str, self._tls or ()))} ({error})"
            ) from None
        bound = self._bind()
        self.port = bound.getsockname()[1]
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [bound]}, name="skyband-dashboard", daemon=True
        )
        self._thread.start()
        until = time.monotonic() + _SERVER_SECONDS
        while not self._server.started and self._thread.is_alive() and time.monotonic() < until:
            time.sleep(0.005)
        if not self._server.started:
            self.stop()
            raise DashboardError(f"the dashboard did not start on {self.url}: try another port")
        return self

    def stop(self) -> None:
        """End all event streams and stop listening."""
        if self._thread is None:
            return
        self._stream.close()
        self._server.should_exit = True
        self._thread.join(_SERVER_SECONDS)
        self._thread = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _bind(self) -> socket.socket:
        try:
            family, kind, proto, _, address = socket.getaddrinfo(
                self.host, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            bound = socket.socket(family, kind, proto)
        except OSError as error:
            raise DashboardError(
                f"host must be an address of this machine, got {self.host!r} ({error.strerror}): write 127.0.0.1"
            ) from None
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind(address)
        except OSError as error:
            bound.close()
            raise DashboardError(
                f"port={self.port} of {self.host} is not free ({error.strerror}): choose another, or 0 for a free one"
            ) from None
        return bound


def _check_access(host: str, port: int, token: str | None, tls: object) -> None:
    if not isinstance(port, int) or not 0 <= port < 1 << 16:
        raise DashboardError(f"port must be an integer from 0 (a free one) to 65535, got {port!r}")
    if token is not None and len(token) < 16:
        raise DashboardError(f"token must have at least 16 characters, got {len(token)}: use secrets.token_urlsafe()")
    if not is_loopback(host) and (token is None or tls is None):
        raise DashboardError(
            f"host={host!r} can be reached by others, so it needs token= and tls=: give both, or use 127.0.0.1"
        )


def _uvicorn() -> Any:
    try:
        import fastapi  # noqa: F401 - the application needs it
        import uvicorn
    except ImportError:
        raise DashboardError('the dashboard needs FastAPI and uvicorn: pip install "skyband[dashboard]"') from None
    return uvicorn
