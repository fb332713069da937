"""Remote calls that end when their time is up, however slowly the other side sends."""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

T = TypeVar("T")

TIME_LIMIT = 30.0  # seconds for a call without a limit of its own


def run_within(seconds: float, call: Callable[[], Awaitable[T]]) -> T:
    """Run `call` on the event loop for remote calls; raise TimeoutError when it takes longer than `seconds`.

    The timeout of a socket bounds a single read, so a service that sends one byte at a time never exceeds it.
    Cancelling bounds the call as a whole (name resolution, connection, headers, body) and closes its connection.

    Examples
    --------
    >>> run_within(0.01, asyncio.Event().wait)
    Traceback (most recent call last):
        ...
    TimeoutError: no complete response within 0.01 s
    """

    async def bounded() -> T:
        async with asyncio.timeout(seconds):
            return await call()

    try:
        return asyncio.run_coroutine_threadsafe(bounded(), _event_loop()).result()
    except TimeoutError as error:
        msg = f"no complete response within {seconds:.3g} s"
        raise TimeoutError(msg) from error


class PerLoop:
    """A client that lives on the event loop of this process, opened at its first use and closed with its owner.

    A client belongs to the loop that opened it: a forked process opens another. Call it on the loop.
    """

    def __init__(self, owner: object, opened: Callable[[], Any]) -> None:
        self._owner = weakref.ref(owner)
        self._open = opened
        self._loop: asyncio.AbstractEventLoop | None = None
        self._client: Any = None

    def __call__(self) -> Any:
        """The client."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._client = loop, self._open()
            owner = self._owner()
            if owner is not None:
                weakref.finalize(owner, _close, self._client, loop)
        return self._client


def _close(client: Any, loop: asyncio.AbstractEventLoop) -> None:
    if loop is _LOOP:  # otherwise it is the parent's, which closes it
        asyncio.run_coroutine_threadsafe(client.aclose(), loop)


_LOOP: asyncio.AbstractEventLoop | None = None
_LOCK = threading.Lock()


def _event_loop() -> asyncio.AbstractEventLoop:
    global _LOOP  # noqa: PLW0603 - one for all tables of the process
    with _LOCK:
        if _LOOP is None:
            _LOOP = asyncio.new_event_loop()
            threading.Thread(target=_LOOP.run_forever, daemon=True, name="skyband-calls").start()
        return _LOOP


def _forget() -> None:
    """In a forked process the thread of the loop is gone."""
    global _LOOP, _LOCK
    _LOOP, _LOCK = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
