"""Tables of SPARQL endpoints."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from skyband.errors import TableError, nearest
from skyband.tables.http import HttpTable
from skyband.tables.remote import fill_env

if TYPE_CHECKING:
    from skyband.tables.http import Call
    from skyband.tables.remote import Row

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
_MALFORMED = (ValueError, LookupError, TypeError, AttributeError)  # JSON of another shape than a SPARQL result


class Sparql(HttpTable):
    """Rows from a SPARQL endpoint: one triple pattern per column, the subjects given by VALUES.

    Parameters
    ----------
    url
        The endpoint. `${NAME}` in it is replaced from the environment of the process that calls.
    key
        Name of the key column.
    properties
        The property of each column, as an IRI.
    subject
        The subject of a key, with {} for the key: "http://example.org/user/{}". Default: the key is the IRI.
    optional
        Whether a subject that lacks a property still has a row.

    Notes
    -----
    Keys and properties reach the query only as checked IRIs. A key that yields no IRI, such as one with a space, has no
    row; a call in which no key yields one is an error.

    Examples
    --------
    >>> import skyband as sb
    >>> users = sb.tables.Sparql("http://localhost:7878/query", "user", {"followers": "http://example.org/followers"},
    ...                          subject="http://example.org/user/{}")
    >>> print(users.text(["ann"], ["followers"]))
    SELECT ?subject ?followers WHERE { VALUES ?subject { <http://example.org/user/ann> }
      ?subject <http://example.org/followers> ?followers . }
    """

    def __init__(
        self, url: str, key: str, properties: Mapping[str, str], *, subject: str = "{}", optional: bool = False
    ) -> None:
        super().__init__(url, key)
        self._subject, self._optional = subject, optional
        for name, iri in properties.items():
            if not _NAME.fullmatch(name):
                raise TableError(f"a column must be a SPARQL variable, got {name!r}: use letters, digits and _")
            _check_iri(iri)
        self._properties = dict(properties)

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return list(self._properties)

    def text(self, ids: Sequence[object], columns: Sequence[str]) -> str:
        """Return the query that asks for these ids."""
        for name in columns:
            if name not in self._properties:
                raise TableError(f"column {name!r} has no property: {nearest(name, self._properties)}")
        subjects = " ".join(f"<{iri}>" for iri in self._subjects(ids))
        triples = [f"?subject <{self._properties[name]}> ?{name} ." for name in columns]
        where = "\n  ".join(f"OPTIONAL {{ {triple} }}" if self._optional else triple for triple in triples)
        names = " ".join(f"?{name}" for name in columns)
        return f"SELECT ?subject {names} WHERE {{ VALUES ?subject {{ {subjects} }}\n  {where} }}"

    def _request(self, ids: Sequence[object], columns: Sequence[str], call: Call) -> Iterator[Row | TableError]:
        headers = {"Accept": "application/sparql-results+json", "Content-Type": "application/sparql-query"}
        content = self.text(ids, columns).encode()
        found = call.json("POST", fill_env(self._url), content=content, headers=headers)
        keys = self._subjects(ids)
        for solution in found["results"]["bindings"]:
            try:
                key = keys.get(solution["subject"]["value"])
                row = {name: _parse_term(solution[name]) for name in columns if name in solution}
            except _MALFORMED as error:
                yield TableError(f"a solution must match its datatype ({type(error).__name__} {error}), got {solution}")
                continue
            if row and key is not None:  # with `optional`, a subject without any property has no row
                yield {self.key: key, **row}

    def _subjects(self, ids: Sequence[object]) -> dict[str, object]:
        """Return the keys by their subject, without those that yield no IRI."""
        named = {self._subject.format(key): key for key in ids}
        found = {iri: key for iri, key in named.items() if _IRI.fullmatch(iri)}
        if named and not found:
            _check_iri(next(iter(named)))
        return found


def _check_iri(iri: str) -> None:
    if not _IRI.fullmatch(iri):
        raise TableError(f"{iri!r} is not an IRI: write subject= and properties= so that each key yields one")


def _parse_term(term: Mapping[str, str]) -> Any:
    datatype = term.get("datatype", "").removeprefix(_XSD)
    if datatype == "boolean":
        return term["value"] in ("true", "1")
    return _NUMBERS.get(datatype, str)(term["value"])
