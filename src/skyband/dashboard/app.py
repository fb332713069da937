"""The application: the page, the JSON API with its OpenAPI description, events and metrics; limits of connections."""

from __future__ import annotations

import asyncio
import hashlib
import json
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated, Any

import h11
from fastapi import FastAPI, HTTPException, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, StreamingResponse
from uvicorn.protocols.http.h11_impl import H11Protocol

from skyband import __version__
from skyband.dashboard import models
from skyband.dashboard.events import MAX_CLIENTS, Subscription
from skyband.dashboard.hub import METRICS, Metric
from skyband.dashboard.security import SIGN_IN, cookie_name, cookie_value, is_equal

if TYPE_CHECKING:
    from skyband.dashboard.board import Board
    from skyband.dashboard.events import EventStream
    from skyband.dashboard.hub import Hub, Key
    from skyband.dashboard.security import Message, Receive, Send

MAX_CONNECTIONS = 512
"""Connections at a time; a further one is closed at once."""

REQUEST_SECONDS = 10.0
"""Time for sending a complete request, from the opening of the connection or the end of its last response."""

STALL_SECONDS = 30.0
"""Time for which a client may not read what was sent."""

MAX_SUBSCRIPTIONS = 64
"""Boards that a client can follow at once."""

_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
_SERVER_METRICS = {
    "queries": Metric("gauge", "skyband_queries", "Queries on the dashboard."),
    "failed": Metric("gauge", "skyband_failed", "1 while the run has an error."),
    "clients": Metric("gauge", "skyband_dashboard_clients", "Open event streams."),
    "sent": Metric("counter", "skyband_dashboard_boards_total", "Boards sent."),
}
_MEDIA_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}

Search = Annotated[str, Query(max_length=200, description="Words that the query or the group must contain.")]
BoardKeys = Annotated[list[str] | None, Query(description='A board as JSON: ["query", "group"].')]
GroupValues = Annotated[
    list[str] | None, Query(description="The values of the group as JSON (a string or null), in order.")
]
_NOT_FOUND: dict[int | str, dict[str, Any]] = {404: {"model": models.Error}}


def build_app(hub: Hub, stream: EventStream, *, token: str | None = None, secure: bool = False) -> FastAPI:
    """Build the application that shows `hub`."""
    app = FastAPI(
        title="skyband dashboard",
        version=__version__,
        description="The boards of running queries, as JSON. Read only.",
        openapi_url="/api/openapi.json",
        docs_url=None,  # they load scripts from other hosts
        redoc_url=None,
    )

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        """Describe the error without repeating the input, which may be a token or an unpaired surrogate."""
        return JSONResponse(
            {"detail": [{name: one[name] for name in ("type", "loc", "msg")} for one in error.errors()]}, 422
        )

    _add_page(app)
    _add_boards(app, hub)
    _add_progress(app, hub, stream)
    if token is not None:
        _add_sign_in(app, token, secure=secure)
    return app


def _add_sign_in(app: FastAPI, token: str, *, secure: bool) -> None:
    errors: dict[int | str, dict[str, Any]] = {status: {"model": models.Error} for status in (400, 401)}

    @app.post(SIGN_IN, status_code=204, responses=errors)
    async def sign_in(given: models.SignIn) -> Response:
        """Exchange the token for a cookie, which scripts cannot read and other sites cannot use."""
        if not is_equal(given.token, token):
            await asyncio.sleep(0.5)  # slows guessing down
            raise HTTPException(401, "the token is wrong")
        response = Response(status_code=204)
        name, value = cookie_name(secure=secure), cookie_value(token)
        response.set_cookie(name, value, httponly=True, secure=secure, samesite="strict", path="/")
        return response


def _add_page(app: FastAPI) -> None:
    bodies = {
        file.name: file.read_bytes()
        for file in (files("skyband.dashboard") / "page").iterdir()
        if file.name.rpartition(".")[2] in _MEDIA_TYPES
    }
    etags = {name: f'"{hashlib.sha256(body).hexdigest()[:16]}"' for name, body in bodies.items()}

    def send_file(name: str, request: Request) -> Response:
        headers = {"etag": etags[name], "cache-control": "no-cache"}
        if request.headers.get("if-none-match") == etags[name]:
            return Response(status_code=304, headers=headers)
        return Response(bodies[name], media_type=_MEDIA_TYPES[name.rpartition(".")[2]], headers=headers)

    @app.get("/", include_in_schema=False)
    async def index(request: Request) -> Response:
        return send_file("index.html", request)

    @app.get("/static/{name}", include_in_schema=False)
    async def static(name: str, request: Request) -> Response:
        if name not in bodies:  # looked up, never opened by its name
            raise HTTPException(404, "there is no such file")
        return send_file(name, request)


def _add_boards(app: FastAPI, hub: Hub) -> None:
    @app.get("/api/boards")
    async def boards(
        search: Search = "",
        offset: Annotated[int, Query(ge=0, le=1 << 53)] = 0,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    ) -> models.Boards:
        """The boards, in the order in which their queries were added."""
        found = hub.boards(search, offset, limit)
        return models.Boards(total=found.total, boards=[list(key) for key in found.boards])

    @app.get("/api/boards/{query:path}/history", responses=_NOT_FOUND)
    async def history(query: str, group: GroupValues = None) -> models.History:
        """The windows of a board that are kept."""
        past = _find_board(hub, query, group).past()
        return models.History(windows=[models.Past(number=n, end=end, score=score) for n, end, score in past])

    @app.get("/api/boards/{query:path}/windows/{number}", responses=_NOT_FOUND)
    async def window(query: str, number: int, group: GroupValues = None) -> models.Board:
        """One window of a board, with all of its rows."""
        board = _find_board(hub, query, group)
        position = board.find(number)
        if position is None:
            raise HTTPException(404, "this window is no longer kept")
        return models.Board.model_validate(board.detail(hub.info(query), position, rows=None))

    @app.get("/api/boards/{query:path}/about", responses=_NOT_FOUND)
    async def about(query: str) -> models.Query:
        """The definition of a query."""
        if query not in hub:
            raise HTTPException(404, "there is no such query")
        info = hub.info(query)
        return models.Query(
            name=info.name, k=info.k, by=info.by, window=info.window, per=hub.per(query), ascending=info.ascending
        )

    @app.get("/api/boards/{query:path}", responses=_NOT_FOUND)
    async def newest(query: str, group: GroupValues = None) -> models.Board:
        """The newest window of a board, with all of its rows."""
        return models.Board.model_validate(_find_board(hub, query, group).detail(hub.info(query), rows=None))


def _add_progress(app: FastAPI, hub: Hub, stream: EventStream) -> None:
    @app.get("/api/health")
    async def health() -> models.Health:
        """Whether the server is up."""
        return models.Health(status="ok", version=__version__)

    @app.get("/api/progress")
    async def progress() -> models.Progress:
        """The state of the run, its metrics, and their recent values."""
        recent = [models.Moment(at=at, figures=values) for at, values in list(hub.recent)]
        return models.Progress(**hub.status(), recent=recent)

    @app.get("/api/stream", response_class=StreamingResponse, responses={503: {"model": models.Error}})
    async def events(board: BoardKeys = None, brief: BoardKeys = None) -> StreamingResponse:
        """Server-sent events: `status`, and `board` or `brief` when one of the requested boards has changed."""
        subscriptions = [Subscription(_parse_key(text), brief=False) for text in board or []]
        subscriptions += [Subscription(_parse_key(text), brief=True) for text in brief or []]
        if len(subscriptions) > MAX_SUBSCRIPTIONS:
            raise HTTPException(422, f"at most {MAX_SUBSCRIPTIONS} boards can be followed at once")
        return _EventResponse(stream, subscriptions)

    @app.get("/metrics", response_class=PlainTextResponse)
    async def prometheus() -> PlainTextResponse:
        """Metrics for Prometheus."""
        return PlainTextResponse(_to_prometheus(hub, stream), media_type=_PROMETHEUS)


def _to_prometheus(hub: Hub, stream: EventStream) -> str:
    """Return all metrics in Prometheus' text format. No name or value of the user's data becomes a label."""
    failed = int(hub.state == "failed")
    server = {"queries": hub.queries, "failed": failed, "clients": stream.clients, "sent": stream.sent}
    lines = []
    for metrics, values in ((METRICS, hub.metrics), (_SERVER_METRICS, server)):
        for key, (kind, name, text) in metrics.items():
            if key in values:
                lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}", f"{name} {float(values[key])!r}"]
    return "\n".join(lines) + "\n"


class _EventResponse(StreamingResponse):
    """The events of one client, which is counted from the start of the response to its end."""

    def __init__(self, stream: EventStream, subscriptions: list[Subscription]) -> None:
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        super().__init__(stream.events(subscriptions), media_type="text/event-stream", headers=headers)
        self._stream = stream

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        with self._stream.client() as accepted:
            if accepted:
                await super().__call__(scope, receive, send)
            else:
                full = JSONResponse({"detail": f"at most {MAX_CLIENTS} clients can follow at once: close one"}, 503)
                await full(scope, receive, send)


def _find_board(hub: Hub, query: str, group: list[str] | None) -> Board:
    board = hub.board((query, *map(_parse_group_value, group or [])))
    if board is None:
        raise HTTPException(404, "there is no such board, or it has no answer yet")
    return board


def _parse_group_value(text: str) -> str | None:
    """Parse a JSON string or null; anything else is taken literally."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if value is None or isinstance(value, str) else text


def _parse_key(text: str) -> Key:
    try:
        key = json.loads(text)
    except (ValueError, RecursionError):
        key = None
    is_list = isinstance(key, list) and key and isinstance(key[0], str)
    if not is_list or not all(part is None or isinstance(part, str) for part in key):
        raise HTTPException(422, 'a board must be named by JSON such as ["query", "group"]')
    return tuple(key)


# ---------------------------------------------------------------- connections


class BoundedProtocol(H11Protocol):
    """The HTTP/1.1 protocol of uvicorn with these limits; uvicorn itself limits idle connections only.

    A request is complete when its body has arrived, so neither headers nor body can be sent byte by byte.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Refuse connections beyond the limit, and wait for the first request."""
        self._request_timer: asyncio.TimerHandle | None = None
        self._stall_timer: asyncio.TimerHandle | None = None
        super().connection_made(transport)
        if len(self.connections) > MAX_CONNECTIONS:
            transport.abort()
        else:
            self._time_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timers."""
        for timer in (self._request_timer, self._stall_timer):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Process a part of a request."""
        super().data_received(data)
        self._time_request()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._time_request()

    def _time_request(self) -> None:
        """Run the timer while a request is awaited or incomplete; data does not restart it."""
        if self.conn.their_state in (h11.IDLE, h11.SEND_BODY) and not self.transport.is_closing():
            if self._request_timer is None:
                self._request_timer = self.loop.call_later(REQUEST_SECONDS, self.transport.abort)
        elif self._request_timer is not None:
            self._request_timer.cancel()
            self._request_timer = None

    def pause_writing(self) -> None:
        """Time a client that does not read."""
        super().pause_writing()
        self._stall_timer = self.loop.call_later(STALL_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """Stop timing a client that reads again."""
        super().resume_writing()
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None
