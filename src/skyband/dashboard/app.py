"""The application: the page, the JSON API with its OpenAPI description, the events and the metrics."""

from __future__ import annotations

import asyncio
import hashlib
import json
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import FastAPI, HTTPException, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, StreamingResponse

from skyband import __version__
from skyband.dashboard import metrics, models
from skyband.dashboard.guard import SIGN_IN, cookie_name, pass_for, same
from skyband.dashboard.wire import MAX_CLIENTS, Wanted

if TYPE_CHECKING:
    from skyband.dashboard.board import Board
    from skyband.dashboard.guard import Message, Receive, Send
    from skyband.dashboard.hub import Hub, Key
    from skyband.dashboard.wire import Wire

MOST_BOARDS = 64
_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_MISSING: dict[int | str, dict[str, Any]] = {404: {"model": models.Trouble}}

Search = Annotated[str, Query(max_length=200, description="Words that the query or the group must hold.")]
Boards = Annotated[list[str] | None, Query(description='A board as JSON: ["query", "group"].')]
Group = Annotated[list[str] | None, Query(description="The values of the group as JSON (a text or null), in order.")]


def build(hub: Hub, wire: Wire, *, token: str | None = None, secure: bool = False) -> FastAPI:
    """The application that shows `hub`."""
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
        """Say what is wrong with a request, without what it held: a token, or half of a surrogate pair."""
        return JSONResponse(
            {"detail": [{name: one[name] for name in ("type", "loc", "msg")} for one in error.errors()]}, 422
        )

    _page(app)
    _api(app, hub)
    _events(app, hub, wire)

    if token is not None:
        trouble: dict[int | str, dict[str, Any]] = {status: {"model": models.Trouble} for status in (400, 401)}

        @app.post(SIGN_IN, status_code=204, responses=trouble)
        async def sign_in(given: models.SignIn) -> Response:
            """Change the token for a cookie, which scripts cannot read and other sites cannot use."""
            if not same(given.token, token):
                await asyncio.sleep(0.5)  # guessing is slow
                raise HTTPException(401, "this is not the token")
            done = Response(status_code=204)
            name = cookie_name(secure=secure)
            done.set_cookie(name, pass_for(token), httponly=True, secure=secure, samesite="strict", path="/")
            return done

    return app


def _page(app: FastAPI) -> None:
    shipped = {
        file.name: file.read_bytes()
        for file in (files("skyband.dashboard") / "page").iterdir()
        if file.name.rpartition(".")[2] in _TYPES
    }
    marks = {name: f'"{hashlib.sha256(body).hexdigest()[:16]}"' for name, body in shipped.items()}

    def given(name: str, request: Request) -> Response:
        headers = {"etag": marks[name], "cache-control": "no-cache"}
        if request.headers.get("if-none-match") == marks[name]:
            return Response(status_code=304, headers=headers)
        return Response(shipped[name], media_type=_TYPES[name.rpartition(".")[2]], headers=headers)

    @app.get("/", include_in_schema=False)
    async def index(request: Request) -> Response:
        return given("index.html", request)

    @app.get("/static/{name}", include_in_schema=False)
    async def static(name: str, request: Request) -> Response:
        if name not in shipped:  # looked up by name, never opened by it
            raise HTTPException(404, "there is no such file")
        return given(name, request)


def _api(app: FastAPI, hub: Hub) -> None:
    @app.get("/api/health")
    async def health() -> models.Health:
        """Whether the server is there."""
        return models.Health(status="ok", version=__version__)

    @app.get("/api/boards")
    async def boards(
        search: Search = "",
        offset: Annotated[int, Query(ge=0, le=1 << 53)] = 0,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    ) -> models.Boards:
        """The boards, in the order in which their queries came."""
        found = hub.boards(search, offset, limit)
        return models.Boards(total=found.total, boards=[list(key) for key in found.boards])

    @app.get("/api/boards/{query:path}/history", responses=_MISSING)
    async def history(query: str, group: Group = None) -> models.History:
        """The windows of a board that are kept."""
        past = _found(hub, query, group).past()
        return models.History(windows=[models.Past(number=n, end=end, score=score) for n, end, score in past])

    @app.get("/api/boards/{query:path}/windows/{number}", responses=_MISSING)
    async def window(query: str, number: int, group: Group = None) -> models.Board:
        """One window of a board, with all of its rows."""
        board = _found(hub, query, group)
        place = board.at(number)
        if place is None:
            raise HTTPException(404, "this window is no longer kept")
        return models.Board.model_validate(board.shown(hub.about(query), place, rows=None))

    @app.get("/api/boards/{query:path}/about", responses=_MISSING)
    async def about(query: str) -> models.Query:
        """What a query asks."""
        if query not in hub:
            raise HTTPException(404, "there is no such query")
        said = hub.about(query)
        return models.Query(
            name=said.name, k=said.k, by=said.by, window=said.window, per=hub.per(query), ascending=said.ascending
        )

    @app.get("/api/boards/{query:path}", responses=_MISSING)
    async def newest(query: str, group: Group = None) -> models.Board:
        """The newest window of a board, with all of its rows."""
        return models.Board.model_validate(_found(hub, query, group).shown(hub.about(query), rows=None))

    @app.get("/api/progress")
    async def progress() -> models.Progress:
        """The state of the run, its figures, and how they went lately."""
        recent = [models.Moment(at=at, figures=figures) for at, figures in list(hub.recent)]
        return models.Progress(**hub.status(), recent=recent)


def _events(app: FastAPI, hub: Hub, wire: Wire) -> None:
    @app.get("/api/stream", response_class=StreamingResponse, responses={503: {"model": models.Trouble}})
    async def stream(board: Boards = None, brief: Boards = None) -> StreamingResponse:
        """Server-sent events: `status`, and for each board asked for `board` or `brief` when it has changed."""
        wanted = [Wanted(_key(text), brief=False) for text in board or []]
        wanted += [Wanted(_key(text), brief=True) for text in brief or []]
        if len(wanted) > MOST_BOARDS:
            raise HTTPException(422, f"at most {MOST_BOARDS} boards can be followed at once")
        return _EventStream(wire, wanted)

    @app.get("/metrics", response_class=PlainTextResponse)
    async def prometheus() -> PlainTextResponse:
        """Figures for Prometheus."""
        return PlainTextResponse(metrics.written(hub, wire), media_type=metrics.TYPE)


class _EventStream(StreamingResponse):
    """The events of one screen, which is counted from when the response begins until it has ended."""

    def __init__(self, wire: Wire, wanted: list[Wanted]) -> None:
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        super().__init__(wire.events(wanted), media_type="text/event-stream", headers=headers)
        self._wire = wire

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        with self._wire.following() as room:
            if room:
                await super().__call__(scope, receive, send)
            else:
                full = JSONResponse({"detail": f"{MAX_CLIENTS} screens follow already: close one"}, 503)
                await full(scope, receive, send)


def _found(hub: Hub, query: str, group: list[str] | None) -> Board:
    board = hub.board((query, *map(_part, group or [])))
    if board is None:
        raise HTTPException(404, "there is no such board, or it has no answer yet")
    return board


def _part(text: str) -> str | None:
    """A value of a group: a text, or null."""
    return None if text == "null" else _text(text)


def _text(text: str) -> str:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, str) else text


def _key(text: str) -> Key:
    try:
        key = json.loads(text)
    except (ValueError, RecursionError):
        key = None
    if (
        not isinstance(key, list)
        or not key
        or not all(isinstance(part, str) or (part is None and i) for i, part in enumerate(key))
    ):
        raise HTTPException(422, 'a board is named by JSON such as ["query", "group"]')
    return tuple(key)
