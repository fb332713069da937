"""Removal of secrets from texts that are shown, logged or sent: an error may quote a URL or a request."""

from __future__ import annotations

import re

# Possessive quantifiers: each pattern takes time in proportion to the text, whatever is in it.
_WORD = re.compile(r"\S++")
_SECRET = re.compile(
    r"(?i)password|passwd|passphrase|passwort|pwd|secret|token|signature|credential|session[_-]?id"
    r"|(?:api|access|account|private|shared|encryption)[_-]?key|^(?:sig|pass|auth)$"
)
_PARAMETER = re.compile(r"(?<![\w.-])([\w.-]++)(\\?+[\"']?+\s*+[=:]\s*+\\?+)")  # a name and the sign before its value
# a quoted text, or up to a space or the next parameter
_VALUE = re.compile(r"\"(?:[^\"\\]|\\.)*+\"?+|'(?:[^'\\]|\\.)*+'?+|[^\s&]++")
_PATTERNS = (
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL), "***"),
    (re.compile(r"(?<![\w-])eyJ[\w-]++\.[\w-]++\.[\w-]*+"), "***"),  # a JSON web token
    # the whole value of a header: a scheme and a token, or parameters
    (re.compile(r"(?i)\b((?:proxy-)?authorization|(?:set-)?cookie)(\\?+[\"']?+\s*+[=:]\s*+)[^\r\n]++"), r"\1\2***"),
    (re.compile(r"(?i)\b(bearer|basic)\s++[\w.~+/=-]{8,}+"), r"\1 ***"),
)
_URL_QUERY = re.compile(r"(://[^\s?'\"]*)\?[^\s'\"]*")


def redact(text: str) -> str:
    """Remove what looks like a secret from `text`, and unpaired surrogates, which JSON cannot carry.

    Examples
    --------
    >>> redact("could not reach postgresql://me:hunter2@db/app?password=hunter2 with token: abc")
    'could not reach postgresql://***@db/app?password=*** with token: ***'
    >>> redact("GET https://store/a?sig=a%2Bb&se=2030 failed; Authorization: AWS4 Signature=0a1b")
    'GET https://store/a?sig=***&se=2030 failed; Authorization: ***'
    """
    text = text.encode("utf-8", "replace").decode("utf-8")
    text = _WORD.sub(lambda word: _remove_login(word[0]), text)
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return _remove_values(text)


def redact_urls(text: str) -> str:
    """Remove secrets from `text`, and the query strings of the URLs in it.

    Examples
    --------
    >>> redact_urls("redis://:secret@localhost:6379/0 failed, as did https://u:p@e.org/users?token=abc")
    'redis://***@localhost:6379/0 failed, as did https://***@e.org/users?...'
    """
    return _URL_QUERY.sub(r"\1?...", redact(text))


def _remove_login(word: str) -> str:
    """Remove user and password, which end at the last @: a password may contain @ and slashes."""
    head, _, tail = word.rpartition("@")
    scheme, colon = head.find("://"), head.find(":")
    if colon < 0:
        return word
    begin = scheme + 3
    if scheme < 0:  # user:password alone, perhaps in brackets or quotes
        begin = colon
        while begin and (head[begin - 1].isalnum() or head[begin - 1] in "_.+%-"):
            begin -= 1
    return f"{head[:begin]}***@{tail}"


def _remove_values(text: str) -> str:
    """Remove the values of parameters whose name announces a secret."""
    parts, at = [], 0
    while parameter := _PARAMETER.search(text, at):
        parts.append(text[at : parameter.end()])
        at = parameter.end()
        if _SECRET.search(parameter[1]) and (value := _VALUE.match(text, at)):
            parts.append("***")
            at = value.end()
    return "".join([*parts, text[at:]])
