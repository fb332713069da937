"""Server-sent events: the boards that a client shows, when they change, at most five times a second."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from skyband.dashboard.board import Board
    from skyband.dashboard.hub import Hub, Key

PERIOD = 0.2
"""Seconds between two checks for changes."""

MAX_CLIENTS = 128
"""Event streams at a time."""

_HEARTBEAT_PERIODS = 15  # without an event before a heartbeat is sent
_CACHE_PERIODS = 50  # that the event of a board which nobody shows is kept
_CACHE_SIZE = 1000
_JSON = json.JSONEncoder(separators=(",", ":"), allow_nan=False)


class Subscription(NamedTuple):
    """A board that a client shows."""

    key: Key
    brief: bool  # as a card among others


@dataclass(slots=True)
class _Event:
    """The last event of a board, which all clients share."""

    body: bytes = b""
    stamp: int = 0  # changes with the body
    version: int = -1  # of the answers that it was made from
    number: int = -1  # of the window that it shows
    tick: int = 0  # when it was last checked


class EventStream:
    """Sends events to any number of clients; the event of a board is made once for all of them.

    All clients wake at the same times. A slow client gets the newest state when it is ready: nothing queues up.

    Cost: one board read and encoded per change and period; one send per client and period.
    """

    def __init__(self, hub: Hub) -> None:
        self.clients = 0
        self.sent = 0  # boards
        self._hub = hub
        self._open = True
        self._events: dict[Subscription, _Event] = {}
        self._status = (-1, b"")

    def close(self) -> None:
        """End all streams at their next wake-up."""
        self._open = False

    @contextmanager
    def client(self) -> Iterator[bool]:
        """Count a client while it is connected; yield whether it is within the limit."""
        accepted = self.clients < MAX_CLIENTS
        self.clients += accepted
        try:
            yield accepted
        finally:
            self.clients -= accepted
            if not self.clients:
                self._events.clear()

    async def events(self, subscriptions: list[Subscription]) -> AsyncIterator[bytes]:
        """Yield the events of one client."""
        loop = asyncio.get_running_loop()
        seen: dict[Subscription, int] = {}
        version, silent = -1, 0
        yield encode_event("hello", {"instance": self._hub.instance})
        last = False
        while not last:
            last = not self._open  # the final state is still sent
            tick = int(loop.time() / PERIOD)
            parts = []
            if version != self._hub.version:
                version, body = self._status_event()
                parts.append(body)
            for subscription, event in zip(subscriptions, self._update(subscriptions, tick), strict=True):
                if event.stamp != seen.get(subscription, 0):
                    seen[subscription] = event.stamp
                    parts.append(event.body)
                    self.sent += 1
            silent = 0 if parts else silent + 1
            if silent >= _HEARTBEAT_PERIODS:
                silent = 0
                parts.append(encode_event("beat", {}))
            if parts:
                yield b"".join(parts)
            if not last:
                await asyncio.sleep((tick + 1) * PERIOD - loop.time())

    def _status_event(self) -> tuple[int, bytes]:
        if self._status[0] != self._hub.version:
            self._status = (self._hub.version, encode_event("status", self._hub.status()))
        return self._status

    def _update(self, subscriptions: list[Subscription], tick: int) -> list[_Event]:
        """Return the current events; boards with new answers are read once per tick."""
        events = [self._cached(subscription, tick) for subscription in subscriptions]
        stale = []
        for subscription, event in zip(subscriptions, events, strict=True):
            version = self._hub.answer_version(subscription.key[0] or "")
            if event.tick != tick and event.version != version:
                event.version = version
                stale.append((subscription, event))
            event.tick = tick
        boards = self._hub.open_boards([subscription.key for subscription, _ in stale])
        for (subscription, event), board in zip(stale, boards, strict=True):
            body = self._encode_board(subscription, event, board)
            if body is not None:
                event.body = body
                event.stamp = event.version or -1
        return events

    def _cached(self, subscription: Subscription, tick: int) -> _Event:
        if subscription not in self._events:
            if len(self._events) > _CACHE_SIZE:
                self._events = {s: e for s, e in self._events.items() if tick - e.tick <= _CACHE_PERIODS}
            self._events[subscription] = _Event()
        return self._events[subscription]

    def _encode_board(self, subscription: Subscription, event: _Event, board: Board | None) -> bytes | None:
        if board is None:
            return encode_event("gone", {"board": subscription.key})
        newest = board.windows[-1].number
        if newest == event.number:  # the answer was of another group
            return None
        event.number = newest
        info = self._hub.info(str(subscription.key[0]))
        if subscription.brief:
            return encode_event("brief", {"board": subscription.key, **board.card(info)})
        return encode_event("board", {"board": subscription.key, **board.detail(info), "windows": board.past()})


def encode_event(name: str, data: Any) -> bytes:
    r"""Encode a server-sent event.

    Examples
    --------
    >>> encode_event("beat", {})
    b'event: beat\ndata: {}\n\n'
    """
    return f"event: {name}\ndata: {_JSON.encode(data)}\n\n".encode()
