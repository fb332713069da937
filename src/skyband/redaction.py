"""Texts without secrets: an error may quote the address it failed to reach, or the request it sent."""

from __future__ import annotations

import re

# Possessive quantifiers: each pattern takes time in proportion to the text, whatever is in it.
_WORD = re.compile(r"\S++")
_SECRET = re.compile(
    r"(?i)password|passwd|passphrase|passwort|pwd|secret|token|signature|credential|session[_-]?id"
    r"|(?:api|access|account|private|shared|encryption)[_-]?key|^(?:sig|pass|auth)$"
)
_NAMED = re.compile(r"(?<![\w.-])([\w.-]++)(\\?+[\"']?+\s*+[=:]\s*+\\?+)")  # a name and what stands before its value
# a quoted text, or up to a space or the next parameter
_VALUE = re.compile(r"\"(?:[^\"\\]|\\.)*+\"?+|'(?:[^'\\]|\\.)*+'?+|[^\s&]++")
_OTHERS = (
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL), "***"),
    (re.compile(r"(?<![\w-])eyJ[\w-]++\.[\w-]++\.[\w-]*+"), "***"),  # a JSON web token
    # a header is a secret to the end of its line: a scheme and a token, or parameters
    (re.compile(r"(?i)\b((?:proxy-)?authorization|(?:set-)?cookie)(\\?+[\"']?+\s*+[=:]\s*+)[^\r\n]++"), r"\1\2***"),
    (re.compile(r"(?i)\b(bearer|basic)\s++[\w.~+/=-]{8,}+"), r"\1 ***"),
)


def redact(text: str) -> str:
    """`text` without what looks like a secret, and without halves of surrogate pairs, which no JSON can carry.

    Examples
    --------
    >>> redact("could not reach postgresql://me:hunter2@db/app?password=hunter2 with token: abc")
    'could not reach postgresql://***@db/app?password=*** with token: ***'
    >>> redact("GET https://store/a?sig=a%2Bb&se=2030 failed; Authorization: AWS4 Signature=0a1b")
    'GET https://store/a?sig=***&se=2030 failed; Authorization: ***'
    """
    text = text.encode("utf-8", "replace").decode("utf-8")
    text = _WORD.sub(lambda word: _without_login(word[0]), text)
    for pattern, instead in _OTHERS:
        text = pattern.sub(instead, text)
    return _without_values(text)


def _without_login(word: str) -> str:
    """A word without user and password, which end at its last @: a password may hold one, and slashes."""
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


def _without_values(text: str) -> str:
    """A text without the values of parameters whose name tells a secret."""
    parts, at = [], 0
    while named := _NAMED.search(text, at):
        parts.append(text[at : named.end()])
        at = named.end()
        if _SECRET.search(named[1]) and (value := _VALUE.match(text, at)):
            parts.append("***")
            at = value.end()
    return "".join([*parts, text[at:]])
