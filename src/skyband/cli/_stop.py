"""Ctrl-C and SIGTERM as a wish: what is being said to Spark is said to its end."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


@contextlib.contextmanager
def wished() -> Iterator[threading.Event]:
    """An event that Ctrl-C or SIGTERM sets; a second Ctrl-C interrupts as ever.

    Spark's own handler calls the JVM in the middle of another call, which breaks both.

    Examples
    --------
    >>> import os, signal
    >>> with wished() as stop:
    ...     os.kill(os.getpid(), signal.SIGTERM)
    ...     stop.wait(5)
    True
    """
    stop = threading.Event()

    def handle(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            signal.default_int_handler(number, frame)
        stop.set()

    if threading.current_thread() is not threading.main_thread():  # only there can signals be handled
        yield stop
        return
    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
