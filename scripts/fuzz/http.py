"""Requests to the dashboard, drawn from its own OpenAPI document: no 5xx, no hang, every refusal says why."""

from __future__ import annotations

import http.client
import json
import random
import re
import urllib.parse
from functools import cache
from typing import Any

from scripts.fuzz.mutate import HURTFUL

ALLOWED = {200, 204, 301, 304, 307, 400, 403, 404, 405, 413, 414, 421, 422, 431}
METHODS = ("GET",) * 12 + ("HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH")
_EVENTS = "/api/stream"  # never ends: only its head is read


@cache
def _dashboard() -> Any:
    """One server for this process and its children."""
    from scripts.openapi import hub

    from skyband.dashboard import Dashboard

    return Dashboard(hub(), port=0).start()


@cache
def _document() -> dict[str, Any]:
    link = http.client.HTTPConnection("127.0.0.1", _dashboard().port, timeout=10)
    link.request("GET", "/api/openapi.json")
    found: dict[str, Any] = json.loads(link.getresponse().read())
    link.close()
    return found


Request = tuple[str, str, dict[str, str], bytes]


def request(rng: random.Random) -> Request:
    """An address of the document with values that fit, or hurt."""
    paths = _document()["paths"]
    path = rng.choice([*paths, "/", "/static/main.js", "/static/" + rng.choice(HURTFUL)])
    asked = []
    for parameter in paths.get(path, {}).get("get", {}).get("parameters", []):
        given = _value(rng, parameter.get("schema", {}))
        if parameter["in"] == "path":
            path = path.replace(
                "{" + parameter["name"] + "}", urllib.parse.quote(given.encode("utf-8", "replace"), safe="")
            )
        elif rng.random() < 0.7:
            asked += [(parameter["name"], given)] * rng.choice([1, 1, 1, 2, 70])
    for part in re.findall(r"\{\w+\}", path):
        path = path.replace(part, urllib.parse.quote(rng.choice(["trades", "1", *HURTFUL])), 1)
    text = urllib.parse.urlencode(asked, errors="replace")
    headers = {}
    if rng.random() < 0.3:
        name = rng.choice(
            ["Host", "Origin", "Authorization", "Cookie", "Accept-Encoding", "Range", "Sec-Fetch-Site", "X-A"]
        )
        word = "".join(c for c in rng.choice([*HURTFUL, "localhost", "x" * 9_000]) if c.isascii() and c.isprintable())
        headers[name] = word
    body = rng.randbytes(rng.choice([0, 0, 10, 70_000]))
    return rng.choice(METHODS), f"{path}?{text}" if text else path, headers, body


def _value(rng: random.Random, schema: dict[str, Any]) -> str:
    kinds = [schema.get("type"), *(s.get("type") for s in schema.get("anyOf", []))]
    if "integer" in kinds and rng.random() < 0.6:
        return str(rng.choice([0, 1, 5, -1, 10**6, 10**30]))
    usual = ["trades", '["trades"]', '["trades", "a"]', '"a"', "a", "null", "[null]", "[" * 400, "x" * 300]
    return rng.choice([*usual, *HURTFUL])


def check_request(made: Request) -> bool:
    """An answer that is one of those allowed; what is refused as JSON says why."""
    method, path, headers, body = made
    link = http.client.HTTPConnection("127.0.0.1", _dashboard().port, timeout=8)
    try:
        path = "".join(c if c.isprintable() and c.isascii() and c != " " else urllib.parse.quote(c) for c in path)
        link.request(method, path, body=body or None, headers=headers)
        answer = link.getresponse()
        assert answer.status in ALLOWED, f"status {answer.status} for {method} {path!r}"
        if path.startswith(_EVENTS) and answer.status == 200:
            return True
        said = answer.read()
        if answer.status in (404, 422) and method != "HEAD" and "json" in (answer.getheader("content-type") or ""):
            assert json.loads(said)["detail"], f"no reason for {answer.status}"
        return answer.status == 200  # noqa: TRY300 - in the order of events
    except (ConnectionResetError, BrokenPipeError):
        return False  # a body that nobody asked for may be cut off
    finally:
        link.close()
