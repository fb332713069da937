"""HTTP responses within limits: of time, of decoded bytes, and of what their JSON becomes in memory."""

from __future__ import annotations

import json
import math
import time
import zlib
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from skyband.errors import TableError
from skyband.tables._calls import TIME_LIMIT, PerLoop, run_within
from skyband.tables._filled import filled
from skyband.tables._need import need, shown

MAX_BYTES = 32 << 20
"""Decoded bytes of all pages of a call."""

MAX_VALUES = 2_000_000
"""JSON values of all pages of a call. Parsed, a value takes up to 150 bytes."""

_BUSY = (429, 503)
_MAX_WAIT = 86_400.0  # seconds that Retry-After can ask for
_WINDOW_BITS = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}
_HEADERS = {"Accept-Encoding": "gzip, deflate"}  # what can be decoded piece by piece without another library


class Connections:
    """The connections of one table to its service."""

    def __init__(self, owner: object, headers: Mapping[str, str] | None = None) -> None:
        self._httpx = need("httpx")
        self._headers = dict(headers or {})
        self._client = PerLoop(owner, self._opened)

    def _opened(self) -> Any:
        headers = {name: filled(value) for name, value in self._headers.items()}
        return self._httpx.AsyncClient(headers={**_HEADERS, **headers}, timeout=None)

    def call(self, timeout: float | None) -> Call:
        """Begin a call of one or more requests that share its limits."""
        return Call(self._client, TIME_LIMIT if timeout is None else timeout)


class Call:
    """The requests of one look-up, and what is left of its limits."""

    def __init__(self, client: PerLoop, seconds: float) -> None:
        self._client = client
        self._until = time.monotonic() + seconds
        self._bytes, self._values = MAX_BYTES, MAX_VALUES

    def json(self, method: str, url: str, **request: Any) -> Any:
        """Send a request; return the JSON of its response.

        Raises TableError, TimeoutError, ValueError, and what httpx raises.
        """

        async def sent() -> tuple[int, Any, bytes]:
            async with self._client().stream(method, url, **request) as response:
                pieces, size = [], 0
                async for piece in response.aiter_raw():
                    size += len(piece)
                    if size > self._bytes:
                        self._refuse_size(url)
                    pieces.append(piece)
                return response.status_code, response.headers, b"".join(pieces)

        status, headers, body = run_within(max(self._until - time.monotonic(), 0.0), sent)
        body = self._decoded(url, body, headers.get("content-encoding", ""))
        if status >= 300:
            raise _failure(url, status, headers, body)
        return self._parsed(url, body)

    def _decoded(self, url: str, body: bytes, encoding: str) -> bytes:
        """The body without its encoding, decoded no further than the limit."""
        encoding = encoding.strip().lower()
        if encoding not in ("", "identity"):
            if encoding not in _WINDOW_BITS:
                msg = f"{shown(url)} sent Content-Encoding {encoding[:50]!r}: one of gzip, deflate or identity is read"
                raise TableError(msg)
            bits = _WINDOW_BITS[encoding]
            if encoding == "deflate" and (len(body) < 2 or int.from_bytes(body[:2]) % 31):
                bits = -bits  # without the zlib header that RFC 9110 wants; many servers leave it out
            decoder = zlib.decompressobj(bits)
            try:
                body = decoder.decompress(body, self._bytes + 1)
            except zlib.error as error:
                msg = f"{shown(url)} sent a body that is not {encoding}: {error}"
                raise TableError(msg) from error
            if len(body) <= self._bytes and not decoder.eof:
                msg = f"{shown(url)} sent a body that ends before its {encoding} does"
                raise TableError(msg)
        if len(body) > self._bytes:
            self._refuse_size(url)
        self._bytes -= len(body)
        return body

    def _parsed(self, url: str, body: bytes) -> Any:
        # every value but the first follows one of these; those inside texts count too, so this is an upper bound
        self._values -= sum(map(body.count, (b",", b"[", b"{", b":")))
        if self._values < 0:
            msg = f"{shown(url)} sent more than {MAX_VALUES:,} JSON values: ask for fewer keys in a batch"
            raise TableError(msg)
        return json.loads(body)

    def _refuse_size(self, url: str) -> None:
        msg = f"{shown(url)} sent more than {MAX_BYTES >> 20} MB: ask for fewer keys in a batch"
        raise TableError(msg)


def _failure(url: str, status: int, headers: Mapping[str, str], body: bytes) -> TableError:
    wait = _seconds(headers.get("retry-after")) if status in _BUSY else None
    said = body[:200].decode(errors="replace").strip() if status >= 400 else ""
    if status < 400 and "location" in headers:
        said = f"it points to {headers['location']}: write that address, if it is the right one"
    return TableError(shown(f"{url} answered {status}{': ' if said else ''}{said}"), retry_after=wait)


def _seconds(value: str | None) -> float | None:
    """What Retry-After says: seconds, or a date."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except (TypeError, ValueError, OverflowError):
            return None
    return None if math.isnan(seconds) else min(max(seconds, 0.0), _MAX_WAIT)
