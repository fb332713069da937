"""Connections of the server, limited in number, in the time of a request, and in the time of a response."""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_CONNECTIONS = 512
"""Connections at a time; a further one is closed at once."""

REQUEST_SECONDS = 10.0
"""Time for sending a complete request, from the opening of the connection or the end of its last response."""

STALL_SECONDS = 30.0
"""Time for which a client may not read what was sent."""


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
