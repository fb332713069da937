"""Tables of services that answer with JSON over HTTP."""

from __future__ import annotations

import json
import math
import time
import zlib
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import Any, NoReturn
from urllib.parse import urljoin, urlsplit

from skyband.errors import TableError
from skyband.redaction import redact_urls
from skyband.tables.remote import CALL_ERRORS, MAX_VALUES, RemoteTable, Row, fill_env, require, run_until

MAX_BYTES = 32 << 20
"""Decoded bytes of all pages of a call."""

_RETRY_STATUS = (429, 503)
_MAX_RETRY_AFTER = 86_400.0  # seconds
_WINDOW_BITS = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}
_HEADERS = {"Accept-Encoding": "gzip, deflate"}  # what zlib decodes within a limit


class HttpTable(RemoteTable):
    """Base of the tables that send HTTP requests; each call has a limit of time, bytes and values."""

    def __init__(self, url: str, key: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(url, key)
        self._headers = dict(headers or {})

    def _connect(self) -> Any:
        headers = {name: fill_env(value) for name, value in self._headers.items()}
        return require("httpx").AsyncClient(headers={**_HEADERS, **headers}, timeout=None)

    def _errors(self) -> tuple[type[Exception], ...]:
        httpx = require("httpx")
        return (httpx.HTTPError, httpx.InvalidURL, *CALL_ERRORS)

    def _read(self, ids: Sequence[object], columns: Sequence[str], deadline: float) -> Iterator[Row | TableError]:
        require("httpx")
        return self._request(ids, columns, Call(self, deadline))

    @abstractmethod
    def _request(self, ids: Sequence[object], columns: Sequence[str], call: Call) -> Iterator[Row | TableError]:
        """Yield the rows that the responses to `call` hold."""


class Http(HttpTable):
    """Rows from a service: GET url?ids=1,2,3 returns a list of objects, or {"items": [...], "next": url}.

    Parameters
    ----------
    url
        Address of the service.
    key
        The field with the key.
    ids
        Name of the query parameter with the ids, which are joined by commas.
    items, next
        Fields with the rows and with the address of the next page, where the response is an object.
    headers
        Sent with every request, such as {"Authorization": "Bearer ${TOKEN}"}. `${NAME}`, here and in the address, is
        replaced from the environment of the process that calls.

    Notes
    -----
    A page that cannot be read, or a lost connection, raises a `TableError` that carries the rows of the pages before.
    For the statuses 429 and 503 its `retry_after` holds the seconds of the Retry-After header.

    Examples
    --------
    >>> import skyband as sb
    >>> users = sb.tables.Http("https://example.org/users", key="id")
    >>> users.key
    'id'
    """

    def __init__(
        self,
        url: str,
        key: str,
        *,
        ids: str = "ids",
        items: str = "items",
        next: str = "next",  # noqa: A002 - the usual name in services
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(url, key, headers)
        self._ids, self._items, self._next = ids, items, next

    def _request(self, ids: Sequence[object], columns: Sequence[str], call: Call) -> Iterator[Row | TableError]:
        del columns  # the service sends what it has
        url: str | None = fill_env(self._url)
        parameters: dict[str, str] | None = {self._ids: ",".join(map(str, ids))}
        while url is not None:
            page = call.json("GET", url, params=parameters)
            rows = page.get(self._items) if isinstance(page, dict) else page
            if not isinstance(rows, list):
                self._refuse_page()
            yield from (row for row in rows if self._has_key(row))
            if not all(map(self._has_key, rows)):
                self._refuse_page()
            following = page.get(self._next) if isinstance(page, dict) else None
            url, parameters = (self._next_page(url, following) if following else None), None

    def _has_key(self, row: Any) -> bool:
        return isinstance(row, dict) and self.key in row

    def _next_page(self, url: str, following: Any) -> str:
        """Resolve the address of the next page, which must be of the same service: it gets the headers."""
        found = urljoin(url, str(following))
        if urlsplit(found)[:2] != urlsplit(url)[:2]:
            raise TableError(
                f"the next page must be on {redact_urls(self._url)}, since it gets the headers; the service named "
                f"{redact_urls(found)}"
            )
        return found

    def _refuse_page(self) -> NoReturn:
        raise TableError(f"{redact_urls(self._url)} must return a list of objects that have {self.key!r}")


class Call:
    """The requests of one look-up, which share its limits."""

    def __init__(self, table: HttpTable, deadline: float) -> None:
        self._table, self._deadline = table, deadline
        self._bytes, self._values = MAX_BYTES, MAX_VALUES

    def json(self, method: str, url: str, **request: Any) -> Any:
        """Send a request; return the JSON of its response.

        Raises TableError, TimeoutError, ValueError, and errors of httpx.
        """

        async def send() -> tuple[int, Any, bytes]:
            async with self._table.client().stream(method, url, **request) as response:
                pieces, size = [], 0
                async for piece in response.aiter_raw():
                    size += len(piece)
                    if size > self._bytes:
                        self._refuse_size(url)
                    pieces.append(piece)
                return response.status_code, response.headers, b"".join(pieces)

        status, headers, body = run_until(self._deadline, send)
        body = self._decode(url, body, headers.get("content-encoding", ""))
        if status >= 300:
            raise _status_error(url, status, headers, body)
        return self._parse(url, body)

    def _decode(self, url: str, body: bytes, encoding: str) -> bytes:
        """Decompress the body, no further than the limit."""
        encoding = encoding.strip().lower()
        if encoding not in ("", "identity"):
            if encoding not in _WINDOW_BITS:
                raise TableError(
                    f"Content-Encoding must be gzip, deflate or identity, got {encoding[:50]!r} from {redact_urls(url)}"
                )
            bits = _WINDOW_BITS[encoding]
            if encoding == "deflate" and (len(body) < 2 or int.from_bytes(body[:2]) % 31):
                bits = -bits  # without the zlib header of RFC 9110, which many servers omit
            decoder = zlib.decompressobj(bits)
            try:
                body = decoder.decompress(body, self._bytes + 1)
            except zlib.error as error:
                raise TableError(f"{redact_urls(url)} sent a body that is not {encoding}: {error}") from error
            if len(body) <= self._bytes and not decoder.eof:
                raise TableError(f"{redact_urls(url)} sent a body that ends before its {encoding} does")
        if len(body) > self._bytes:
            self._refuse_size(url)
        self._bytes -= len(body)
        return body

    def _parse(self, url: str, body: bytes) -> Any:
        # every value but the first follows one of these; those inside of strings count too, so this is an upper bound
        self._values -= sum(map(body.count, (b",", b"[", b"{", b":")))
        if self._values < 0:
            raise TableError(f"{redact_urls(url)} sent more than {MAX_VALUES:,} JSON values: use a smaller batch=")
        return json.loads(body)

    def _refuse_size(self, url: str) -> NoReturn:
        raise TableError(f"{redact_urls(url)} sent more than {MAX_BYTES >> 20} MB: use a smaller batch=")


def _status_error(url: str, status: int, headers: Mapping[str, str], body: bytes) -> TableError:
    wait = _retry_after(headers.get("retry-after")) if status in _RETRY_STATUS else None
    reason = body[:200].decode(errors="replace").strip() if status >= 400 else ""
    if status < 400 and "location" in headers:
        reason = f"a redirect to {headers['location']}, which is not followed: write that address if it is right"
    return TableError(redact_urls(f"{url} answered {status}{': ' if reason else ''}{reason}"), retry_after=wait)


def _retry_after(value: str | None) -> float | None:
    """Return the seconds of a Retry-After header, which holds seconds or a date."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except (TypeError, ValueError, OverflowError):
            return None
    return None if math.isnan(seconds) else min(max(seconds, 0.0), _MAX_RETRY_AFTER)
