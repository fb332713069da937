"""A SPARQL endpoint."""

from __future__ import annotations

import json
import re
import time
import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from skyband.errors import TableError
from skyband.tables._filled import filled
from skyband.tables._need import need, shown
from skyband.tables.http import asked, table_of

if TYPE_CHECKING:
    import pyarrow as pa

_IRI = re.compile(r"^[a-zA-Z][a-zA-Z0-9+.-]*:[^\x00-\x20<>\"{}|^`\\]*$")
_NAME = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")
_XSD = "http://www.w3.org/2001/XMLSchema#"
_NUMBERS: dict[str, Any] = {
    **dict.fromkeys(("integer", "int", "long", "short", "byte"), int),
    **dict.fromkeys((f"{sign}Integer" for sign in ("positive", "nonNegative", "negative", "nonPositive")), int),
    **dict.fromkeys(("unsignedLong", "unsignedInt", "unsignedShort", "unsignedByte"), int),
    **dict.fromkeys(("decimal", "double", "float"), float),
}


class Sparql:
    """Rows from an endpoint: one triple pattern a column, the subjects given by VALUES.

    Parameters
    ----------
    url
        The endpoint; `${NAME}` in it is filled from the environment where the call is made.
    key
        What the key column is called.
    properties
        The property of each column, as an IRI.
    subject
        The subject of a key, with {} for the key: "http://example.org/user/{}". Default: the key is the IRI.
    optional
        Whether a subject that lacks a property still has a row.

    Keys and properties reach the query only as checked IRIs.

    Examples
    --------
    >>> users = Sparql("http://localhost:7878/query", "user", {"followers": "http://example.org/followers"},
    ...                subject="http://example.org/user/{}")
    >>> print(users.text(["ann"], ["followers"]))
    SELECT ?subject ?followers WHERE { VALUES ?subject { <http://example.org/user/ann> }
      ?subject <http://example.org/followers> ?followers . }
    """

    def __init__(
        self, url: str, key: str, properties: Mapping[str, str], *, subject: str = "{}", optional: bool = False
    ) -> None:
        self.key = key
        self._url, self._subject, self._optional = url, subject, optional
        for name, iri in properties.items():
            if not _NAME.match(name):
                msg = f"column {name!r} is no SPARQL variable: use letters, digits and _"
                raise TableError(msg)
            _checked(iri)
        self._properties = dict(properties)
        self._client: Any = None

    def text(self, ids: Sequence[object], columns: Sequence[str]) -> str:
        """The query for those ids."""
        for name in columns:
            if name not in self._properties:
                msg = f"column {name!r} has no property: there are {', '.join(self._properties)}"
                raise TableError(msg)
        subjects = " ".join(f"<{self._iri(i)}>" for i in ids)
        triples = [f"?subject <{self._properties[name]}> ?{name} ." for name in columns]
        where = "\n  ".join(f"OPTIONAL {{ {t} }}" if self._optional else t for t in triples)
        names = " ".join(f"?{name}" for name in columns)
        return f"SELECT ?subject {names} WHERE {{ VALUES ?subject {{ {subjects} }}\n  {where} }}"

    def fetch(self, ids: Sequence[object], columns: Sequence[str], timeout: float | None = None) -> pa.Table:
        """The rows of those ids."""
        httpx = need("httpx", "remote")
        if self._client is None:
            self._client = httpx.Client()
            weakref.finalize(self, self._client.close)
        headers = {"Accept": "application/sparql-results+json", "Content-Type": "application/sparql-query"}
        until = None if timeout is None else time.monotonic() + timeout
        try:
            text = self.text(ids, columns)
            body = asked(self._client, "POST", filled(self._url), until, content=text.encode(), headers=headers)
            solutions = json.loads(body)["results"]["bindings"]
        except (httpx.HTTPError, ValueError, KeyError, TypeError, RuntimeError) as error:
            msg = shown(f"{self._url} failed: {type(error).__name__} {error}".strip())
            raise TableError(msg) from error
        meant = {self._iri(i): i for i in ids}
        rows, wrong = [], None
        for solution in solutions:
            subject = meant.get(solution.get("subject", {}).get("value"))
            try:
                row = {name: _value(solution[name]) for name in columns if name in solution}
            except ValueError as error:
                wrong = TableError(f"a value of {subject} is not what its type says: {error}")
                continue
            if row and subject is not None:  # with optional, a subject that has none of them is not there
                rows.append({self.key: subject, **row})
        return table_of(rows, [self.key, *columns], wrong)

    @property
    def columns(self) -> list[str]:
        """The names of its columns."""
        return list(self._properties)

    def __getstate__(self) -> dict[str, Any]:
        """What travels: where to ask, and no connection."""
        return {**self.__dict__, "_client": None}

    def _iri(self, id: object) -> str:
        return _checked(self._subject.format(id))


def _checked(iri: str) -> str:
    if not _IRI.match(iri):
        msg = f"{iri!r} is no IRI: nothing else may stand in a query"
        raise TableError(msg)
    return iri


def _value(term: Mapping[str, str]) -> Any:
    kind = term.get("datatype", "").removeprefix(_XSD)
    if kind == "boolean":
        return term["value"] in ("true", "1")
    return _NUMBERS.get(kind, str)(term["value"])
