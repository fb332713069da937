"""A service that answers with JSON."""

from __future__ import annotations

import time
import weakref
from collections.abc import Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urljoin, urlsplit

import pyarrow as pa

from skyband.errors import TableError
from skyband.tables._filled import filled
from skyband.tables._need import need, shown

_BUSY = (429, 503)


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
        try:
            while url is not None:
                left = None if until is None else max(until - time.monotonic(), 0.001)
                found = self._client.get(url, params=query, timeout=left)
                self._check(found)
                page = found.json()
                rows += self._rows(page)
                after = page.get(self._next) if isinstance(page, dict) else None
                url, query = (self._next_page(url, after), None) if after else (None, None)
            return table_of(rows, names)
        except TableError as error:
            error.rows = table_of(rows, names) if rows else None
            raise
        except (httpx.HTTPError, ValueError, RuntimeError) as error:
            msg = shown(f"{self._url} failed: {type(error).__name__} {error}".strip())
            raise TableError(msg, rows=table_of(rows, names) if rows else None) from error

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

    def _check(self, found: Any) -> None:
        if found.status_code >= 400:
            wait = _seconds(found.headers.get("retry-after")) if found.status_code in _BUSY else None
            msg = f"{shown(self._url)} answered {found.status_code}"
            raise TableError(msg, retry_after=wait)

    def _rows(self, page: Any) -> list[dict[str, Any]]:
        rows = page.get(self._items) if isinstance(page, dict) else page
        if not isinstance(rows, list) or not all(isinstance(row, dict) and self.key in row for row in rows):
            msg = f"{shown(self._url)} gave no list of objects with {self.key!r}"
            raise TableError(msg)
        return rows


def table_of(rows: list[dict[str, Any]], names: Sequence[str]) -> pa.Table:
    """Objects as a table with these columns, NULL where one lacks a field."""
    try:
        return pa.table({name: pa.array([row.get(name) for row in rows]) for name in names})
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        msg = f"values of one column have different types: {error}"
        raise TableError(msg) from error


def _seconds(value: str | None) -> float | None:
    """What Retry-After says: seconds, or a date."""
    if value is None:
        return None
    try:
        return max(float(value), 0.0)
    except ValueError:
        pass
    try:
        return max(parsedate_to_datetime(value).timestamp() - time.time(), 0.0)
    except (TypeError, ValueError):
        return None
