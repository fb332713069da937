"""A service that answers with JSON."""

from __future__ import annotations

import json
import math
import time
import weakref
from collections import Counter
from collections.abc import Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import Any, NoReturn
from urllib.parse import urljoin, urlsplit

import pyarrow as pa

from skyband.errors import TableError
from skyband.tables._filled import filled
from skyband.tables._need import need, shown

_BUSY = (429, 503)
_LARGEST = 1 << 28  # bytes that an answer may have
_LONGEST = 86_400.0  # seconds that a service can make us wait


class Http:
    """Rows from a service: GET url?ids=1,2,3 gives a list of objects, or {"items": [...], "next": url}.

    Parameters
    ----------
    url
        Where to ask.
    key
        The field with the key.
    ids
        The name of the parameter with the ids, joined by commas.
    items, next
        Where the rows and the address of the next page are, if the answer is an object.
    headers
        Sent with every call, such as {"Authorization": "Bearer ${TOKEN}"}: `${NAME}`, here and in the address, is
        filled from the environment where the call is made.

    A page that cannot be read, or a connection that breaks, raises a `TableError` that carries the rows of the pages
    before it; 429 and 503 carry the seconds of Retry-After.

    Examples
    --------
    >>> users = Http("https://example.org/users", key="id")
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
        next: str = "next",  # noqa: A002 - what services call it
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.key = key
        self._url, self._ids, self._items, self._next = url, ids, items, next
        self._headers = dict(headers or {})
        self._client: Any = None

    def fetch(self, ids: Sequence[object], columns: Sequence[str], timeout: float | None = None) -> pa.Table:
        """The rows of those ids, page by page."""
        httpx = need("httpx", "remote")
        if self._client is None:
            self._client = httpx.Client(headers={name: filled(value) for name, value in self._headers.items()})
            weakref.finalize(self, self._client.close)
        until = None if timeout is None else time.monotonic() + timeout
        names = [self.key, *columns]
        rows: list[dict[str, Any]] = []
        url: str | None = filled(self._url)
        query: dict[str, str] | None = {self._ids: ",".join(map(str, ids))}
        wrong: TableError | None = None
        try:
            while url is not None:
                page = json.loads(asked(self._client, "GET", url, until, params=query))
                found = self._rows(page)
                rows += [row for row in found if isinstance(row, dict) and self.key in row]
                if any(not isinstance(row, dict) or self.key not in row for row in found):
                    self._refuse()
                after = page.get(self._next) if isinstance(page, dict) else None
                url, query = (self._next_page(url, after), None) if after else (None, None)
        except TableError as error:
            wrong = error
        except (httpx.HTTPError, ValueError, RuntimeError) as error:
            wrong = TableError(shown(f"{self._url} failed: {type(error).__name__} {error}".strip()))
            wrong.__cause__ = error
        return table_of(rows, names, wrong)

    def __getstate__(self) -> dict[str, Any]:
        """What travels: where to ask, and no connection."""
        return {**self.__dict__, "_client": None}

    def _next_page(self, url: str, after: Any) -> str:
        """Where the next page is: on the same service, which alone may see the headers."""
        found = urljoin(url, str(after))
        if urlsplit(found)[:2] != urlsplit(url)[:2]:
            msg = f"{shown(self._url)} names a next page elsewhere, {shown(found)}, and it would get the headers"
            raise TableError(msg)
        return found

    def _rows(self, page: Any) -> list[Any]:
        rows = page.get(self._items) if isinstance(page, dict) else page
        if not isinstance(rows, list):
            self._refuse()
        return rows

    def _refuse(self) -> NoReturn:
        msg = f"{shown(self._url)} gave no list of objects with {self.key!r}"
        raise TableError(msg)


def asked(client: Any, method: str, url: str, until: float | None, **more: Any) -> bytes:
    """The body of an answer that is whole by `until`, however slowly it drips in. Raises TableError."""
    left = None if until is None else max(until - time.monotonic(), 0.001)
    with client.stream(method, url, timeout=left, **more) as found:
        body = bytearray()
        for piece in found.iter_bytes():
            body += piece
            if until is not None and time.monotonic() > until:
                msg = f"{shown(url)} was still answering when the time was over"
                raise TableError(msg)
            if len(body) > _LARGEST:
                msg = f"{shown(url)} gave more than {_LARGEST >> 20} MB"
                raise TableError(msg)
        status, headers = found.status_code, found.headers
    if status < 300:
        return bytes(body)
    wait = _seconds(headers.get("retry-after")) if status in _BUSY else None
    said = bytes(body[:200]).decode(errors="replace").strip() if status >= 400 else ""
    if status < 400 and "location" in headers:
        said = f"it points to {headers['location']}: write that address, if it is the right one"
    raise TableError(shown(f"{url} answered {status}{': ' if said else ''}{said}"), retry_after=wait)


def table_of(rows: list[dict[str, Any]], names: Sequence[str], wrong: TableError | None = None) -> pa.Table:
    """Objects as a table with these columns, NULL where one lacks a field.

    Where values of a column have different types, or `wrong` says that more was to come, a TableError that carries
    what there is.
    """
    try:
        found = _columns(rows, names)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        fit = _fitting(rows, names)
        wrong = TableError(f"values of one column have different types: {error}")
        wrong.__cause__ = error
        found = _columns(fit, names) if fit else None
    if wrong is None:
        return found
    wrong.rows = found if rows else None
    raise wrong


def _columns(rows: list[dict[str, Any]], names: Sequence[str]) -> pa.Table:
    return pa.table({name: pa.array([row.get(name) for row in rows]) for name in names})


def _fitting(rows: list[dict[str, Any]], names: Sequence[str]) -> list[dict[str, Any]]:
    """The rows whose values have the types that most values of their column have."""
    for name in names:
        kinds = [_kind(row.get(name)) for row in rows]
        usual = Counter(kind for kind in kinds if kind is not None).most_common(1)
        rows = [row for row, kind in zip(rows, kinds, strict=True) if kind is None or kind == usual[0][0]]
    return rows


def _kind(value: Any) -> type | None:
    """Which values go together in a column; None goes with all."""
    if isinstance(value, int) and not isinstance(value, bool):
        return float if -(1 << 63) <= value < 1 << 63 else int
    return None if value is None else type(value)


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
    return None if math.isnan(seconds) else min(max(seconds, 0.0), _LONGEST)
