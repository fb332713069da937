"""A SPARQL endpoint."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from skyband.errors import TableError
from skyband.tables._filled import filled
from skyband.tables._need import need, shown
from skyband.tables._responses import Connections
from skyband.tables.http import table_of

if TYPE_CHECKING:
    import pyarrow as pa

# RFC 3987, since endpoints refuse a whole query for one IRI that does not follow it
_UCS = "\u00a0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef" + "".join(
    f"{chr((plane << 16) + (0x1000 if plane == 14 else 0))}-{chr((plane << 16) + 0xFFFD)}" for plane in range(1, 15)
)
_PRIVATE = "\ue000-\uf8ff\U000f0000-\U000ffffd\U00100000-\U0010fffd"
_REG_NAME = rf"(?:[A-Za-z0-9._~!$&'()*+,;={_UCS}-]|%[0-9A-Fa-f]{{2}})"
_CHARACTER = rf"(?:{_REG_NAME}|[:@/])"
_AUTHORITY = rf"//(?:(?:{_REG_NAME}|:)*@)?(?:\[[0-9A-Fa-f:.]+\]|{_REG_NAME}*)(?::[0-9]*)?(?=[/?#]|\Z)"
_IRI = re.compile(
    rf"[A-Za-z][A-Za-z0-9+.-]*:(?:{_AUTHORITY}|(?!//)){_CHARACTER}*(?:\?(?:{_CHARACTER}|[?{_PRIVATE}])*)?"
    rf"(?:\#(?:{_CHARACTER}|\?)*)?"
)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_XSD = "http://www.w3.org/2001/XMLSchema#"
_NUMBERS: dict[str, Any] = {
    **dict.fromkeys(("integer", "int", "long", "short", "byte"), int),
    **dict.fromkeys((f"{sign}Integer" for sign in ("positive", "nonNegative", "negative", "nonPositive")), int),
    **dict.fromkeys(("unsignedLong", "unsignedInt", "unsignedShort", "unsignedByte"), int),
    **dict.fromkeys(("decimal", "double", "float"), float),
}


_ODD = (ValueError, KeyError, TypeError, AttributeError, IndexError)  # JSON of another shape than a SPARQL result


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

    Notes
    -----
    Keys and properties reach the query only as checked IRIs. A key that makes no IRI, such as one with a space, has
    no row; a call whose keys all make none is an error.

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
            if not _NAME.fullmatch(name):
                msg = f"column {name!r} is no SPARQL variable: use letters, digits and _"
                raise TableError(msg)
            _check(iri)
        self._properties = dict(properties)
        self._client: Any = None

    def text(self, ids: Sequence[object], columns: Sequence[str]) -> str:
        """The query for those ids."""
        for name in columns:
            if name not in self._properties:
                msg = f"column {name!r} has no property: there are {', '.join(self._properties)}"
                raise TableError(msg)
        subjects = " ".join(f"<{iri}>" for iri in self._subjects(ids))
        triples = [f"?subject <{self._properties[name]}> ?{name} ." for name in columns]
        where = "\n  ".join(f"OPTIONAL {{ {t} }}" if self._optional else t for t in triples)
        names = " ".join(f"?{name}" for name in columns)
        return f"SELECT ?subject {names} WHERE {{ VALUES ?subject {{ {subjects} }}\n  {where} }}"

    def fetch(self, ids: Sequence[object], columns: Sequence[str], timeout: float | None = None) -> pa.Table:
        """The rows of those ids."""
        httpx = need("httpx")
        if self._client is None:
            self._client = Connections(self)
        headers = {"Accept": "application/sparql-results+json", "Content-Type": "application/sparql-query"}
        try:
            text = self.text(ids, columns)
            call = self._client.call(timeout)
            found = call.json("POST", filled(self._url), content=text.encode(), headers=headers)
            solutions = found["results"]["bindings"]
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, *_ODD, RuntimeError) as error:
            msg = shown(f"{self._url} failed: {type(error).__name__} {error}".strip())
            raise TableError(msg) from error
        meant = self._subjects(ids)
        rows, wrong = [], None
        for solution in solutions:
            try:
                subject = meant.get(solution["subject"]["value"])
                row = {name: _value(solution[name]) for name in columns if name in solution}
            except _ODD as error:
                wrong = TableError(f"a solution is not what its type says, {type(error).__name__} {error}: {solution}")
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

    def _subjects(self, ids: Sequence[object]) -> dict[str, object]:
        """The subjects of those keys that make one."""
        named = {self._subject.format(i): i for i in ids}
        found = {iri: i for iri, i in named.items() if _IRI.fullmatch(iri)}
        if named and not found:
            _check(next(iter(named)))
        return found


def _check(iri: str) -> None:
    if not _IRI.fullmatch(iri):
        msg = f"{iri!r} is not an IRI: write subject= and properties= such that each key makes one"
        raise TableError(msg)


def _value(term: Mapping[str, str]) -> Any:
    kind = term.get("datatype", "").removeprefix(_XSD)
    if kind == "boolean":
        return term["value"] in ("true", "1")
    return _NUMBERS.get(kind, str)(term["value"])
