"""Server-sent events: what is on a screen, when it has changed, at most five times a second."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from skyband.dashboard.board import Board
    from skyband.dashboard.hub import Hub, Key

PERIOD = 0.2
"""Seconds between two looks at what has changed."""

MAX_CLIENTS = 128
"""Screens that may follow at a time."""

_BEAT = 15  # periods of silence before a sign of life
_IDLE = 50  # periods that a board nobody looks at stays written
_JSON = json.JSONEncoder(separators=(",", ":"), allow_nan=False)


class Wanted(NamedTuple):
    """A board on somebody's screen."""

    key: Key
    brief: bool  # small, among others


class _Written:
    """A board as it was last sent."""

    __slots__ = ("body", "fresh", "number", "stamp", "tick")

    def __init__(self) -> None:
        self.fresh = self.number = -1
        self.stamp = 0  # changes with the body
        self.tick = 0
        self.body = b""


class Wire:
    """Sends events to any number of screens; a board is written once, however many show it.

    All screens wake at the same moments. Who is slow gets the newest state when ready: nothing queues up.

    Cost: one board opened and written per change and period; one send per screen and period.
    """

    def __init__(self, hub: Hub) -> None:
        self.clients = 0
        self.sent = 0  # boards
        self._hub = hub
        self._open = True
        self._written: dict[Wanted, _Written] = {}
        self._status = (-1, b"")

    def close(self) -> None:
        """End all streams at their next wake."""
        self._open = False

    @contextmanager
    def following(self) -> Iterator[bool]:
        """Count a screen while it follows; whether there was room for it."""
        room = self.clients < MAX_CLIENTS
        self.clients += room
        try:
            yield room
        finally:
            self.clients -= room
            if not self.clients:
                self._written.clear()

    async def events(self, boards: list[Wanted]) -> AsyncIterator[bytes]:
        """The stream of one screen that shows `boards`."""
        loop = asyncio.get_running_loop()
        seen: dict[Wanted, int] = {}
        version, silent = -1, 0
        yield event("hello", {"instance": self._hub.began})
        last = False
        while not last:
            last = not self._open  # and the state in which it ended is sent
            tick = int(loop.time() / PERIOD)
            parts = []
            if version != self._hub.version:
                version, body = self._told()
                parts.append(body)
            for wanted, written in zip(boards, self._write(boards, tick), strict=True):
                if written.stamp != seen.get(wanted, 0):
                    seen[wanted] = written.stamp
                    parts.append(written.body)
                    self.sent += 1
            silent = 0 if parts else silent + 1
            if silent >= _BEAT:
                silent = 0
                parts.append(event("beat", {}))
            if parts:
                yield b"".join(parts)
            if not last:
                await asyncio.sleep((tick + 1) * PERIOD - loop.time())

    def _told(self) -> tuple[int, bytes]:
        if self._status[0] != self._hub.version:
            self._status = (self._hub.version, event("status", self._hub.status()))
        return self._status

    def _write(self, boards: list[Wanted], tick: int) -> list[_Written]:
        """The boards as they are to be sent now; those that have changed are opened together."""
        found = [self._kept(wanted, tick) for wanted in boards]
        stale = []
        for wanted, written in zip(boards, found, strict=True):
            if written.tick != tick:
                written.tick = tick
                fresh = self._hub.fresh(wanted.key[0] or "")
                if fresh != written.fresh:
                    written.fresh = fresh
                    stale.append((wanted, written))
        opened = self._hub.opened([wanted.key for wanted, _ in stale])
        for (wanted, written), board in zip(stale, opened, strict=True):
            body = self._body(wanted, written, board)
            if body is not None:
                written.body = body
                written.stamp = written.fresh or -1
        return found

    def _kept(self, wanted: Wanted, tick: int) -> _Written:
        written = self._written.get(wanted)
        if written is None:
            if len(self._written) > 1000:
                old = [w for w, kept in self._written.items() if tick - kept.tick > _IDLE]
                for gone in old:
                    del self._written[gone]
            written = self._written[wanted] = _Written()
        return written

    def _body(self, wanted: Wanted, written: _Written, board: Board | None) -> bytes | None:
        if board is None:
            return event("gone", {"board": wanted.key})
        newest = board.windows[-1].number
        if newest == written.number:  # another group's answer
            return None
        written.number = newest
        about = self._hub.about(str(wanted.key[0]))
        if wanted.brief:
            return event("brief", {"board": wanted.key, **board.brief(about)}, f',"trend":{board.trend()}')
        return event("board", {"board": wanted.key, **board.shown(about), "windows": board.past()})


def event(name: str, data: Any, more: str = "") -> bytes:
    r"""One event; `more` is put at the end of an object, as it is.

    Examples
    --------
    >>> event("beat", {})
    b'event: beat\ndata: {}\n\n'
    """
    return f"event: {name}\ndata: {_JSON.encode(data)[:-1]}{more}}}\n\n".encode()
