"""A service that answers with JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn
from urllib.parse import urljoin, urlsplit

import pyarrow as pa

from skyband.errors import TableError
from skyband.tables._filled import filled
from skyband.tables._need import need, shown
from skyband.tables._responses import MAX_VALUES, Connections


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

    Notes
    -----
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
        httpx = need("httpx")
        if self._client is None:
            self._client = Connections(self, self._headers)
        call = self._client.call(timeout)
        names = [self.key, *columns]
        rows: list[dict[str, Any]] = []
        url: str | None = filled(self._url)
        query: dict[str, str] | None = {self._ids: ",".join(map(str, ids))}
        wrong: TableError | None = None
        try:
            while url is not None:
                page = call.json("GET", url, params=query)
                found = self._rows(page)
                rows += [row for row in found if isinstance(row, dict) and self.key in row]
                if any(not isinstance(row, dict) or self.key not in row for row in found):
                    self._refuse()
                after = page.get(self._next) if isinstance(page, dict) else None
                url, query = (self._next_page(url, after), None) if after else (None, None)
        except TableError as error:
            wrong = error
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, ValueError, RuntimeError) as error:
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


def table_of(rows: list[dict[str, Any]], names: Sequence[str], wrong: TableError | None = None) -> pa.Table:
    """Objects as a table with these columns, NULL where one lacks a field.

    Where values of a column have different types, or `wrong` says that more was to come, a TableError that carries
    what there is.
    """
    try:
        found = _columns(rows, names)
    except _UNFIT as error:
        wrong = TableError(f"not every row fits into one table: {error}")
        wrong.__cause__ = error
        try:
            found = _columns(_fitting(rows, names), names)
        except _UNFIT:  # types differ inside nested values
            found = None
    if wrong is None:
        return found
    wrong.rows = found if found is not None and found.num_rows else None
    raise wrong


_UNFIT = (pa.ArrowException, ValueError, TypeError, OverflowError, RecursionError)


def _columns(rows: list[dict[str, Any]], names: Sequence[str]) -> pa.Table:
    columns = {name: [row.get(name) for row in rows] for name in names}
    for values in columns.values():
        if any(isinstance(value, (dict, list)) for value in values):
            _check_width(values, MAX_VALUES)
    return pa.table({name: pa.array(values) for name, values in columns.items()})


def _check_width(values: list[Any], room: int) -> int:
    """Raise where objects with ever new fields make a struct of more than `room` values; return what is left of it.

    Arrow stores a value, mostly NULL, for every field of every object: 20,000 objects of one field each, all
    different, take 3 GB.
    """
    room -= len(values)
    if room < 0:
        msg = f"nested values with more than {MAX_VALUES:,} fields in all"
        raise ValueError(msg)
    items = [item for value in values if isinstance(value, list) for item in value]
    if items:
        room = _check_width(items, room)
    fields = {name for value in values if isinstance(value, dict) for name in value}
    for name in fields:
        room = _check_width([value.get(name) if isinstance(value, dict) else None for value in values], room)
    return room


def _fitting(rows: list[dict[str, Any]], names: Sequence[str]) -> list[dict[str, Any]]:
    """The rows whose values can be stored, and have the types that most values of their column have."""
    rows = [row for row in rows if all(_storable(row.get(name)) for name in names)]
    for name in names:
        kinds = [_kind(row.get(name)) for row in rows]
        usual = Counter(kind for kind in kinds if kind is not None).most_common(1)
        rows = [row for row, kind in zip(rows, kinds, strict=True) if kind is None or kind == usual[0][0]]
    return rows


def _storable(value: Any) -> bool:
    """Whether Arrow has a type for it: half of a surrogate pair is no text, and 10^400 no number."""
    try:
        pa.array([value])
    except _UNFIT:
        return False
    return True


def _kind(value: Any) -> type | None:
    """Which values go together in a column; None goes with all."""
    if isinstance(value, int) and not isinstance(value, bool):
        return float if -(1 << 63) <= value < 1 << 63 else int
    return None if value is None else type(value)
