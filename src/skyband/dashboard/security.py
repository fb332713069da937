"""Access control: Host, Origin, token, size of requests, and the headers that restrict browsers."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import json
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import urlsplit

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

SIGN_IN = "/api/session"
"""The only path that accepts a POST."""

MAX_BODY = 16 << 10
"""Bytes of a request body: that of the POST, which is sent before signing in."""

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
_HEADERS = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
)
_TLS_HEADER = (b"strict-transport-security", b"max-age=31536000")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach `host`.

    Examples
    --------
    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    address = _parse_address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


class AccessControl:
    """ASGI middleware that refuses requests from other sites and without the token.

    A page of another site can make a browser send requests to this machine: under a name of its own that resolves to
    it (another Host), or across sites (another Origin). Both are refused. With a token, data is sent only to clients
    that present it; the page itself contains none.
    """

    def __init__(
        self, app: App, *, host: str, names: Iterable[str] = (), token: str | None = None, secure: bool = False
    ) -> None:
        self._app = app
        self._local_only = is_loopback(host)
        self._names = {"localhost", host.casefold(), *(name.casefold() for name in names)}
        self._token = token
        self._secure = secure
        self._headers = (*_HEADERS, _TLS_HEADER) if secure else _HEADERS

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            return
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *self._headers]}
            await send(message)

        refusal = self._check(scope["method"], scope["path"], headers)
        if refusal is None and scope["method"] == "POST":
            body = await _read_body(headers, receive)
            if body is None:
                refusal = 413, f"a request body must have at most {MAX_BODY:,} bytes"
            else:
                receive = _replay(body, receive)
        if refusal is None:
            await self._app(scope, receive, send_with_headers)
        else:
            await _refuse(scope, *refusal, send_with_headers)

    def _check(self, method: str, path: str, headers: dict[bytes, str]) -> tuple[int, str] | None:
        """Return status and reason of a refusal."""
        if not self._is_own_host(headers.get(b"host", "")):
            return 421, "this Host is not served here: open the address that skyband printed"
        origin = headers.get(b"origin")
        site = headers.get(b"sec-fetch-site", "none")
        navigates = path == "/" and headers.get(b"sec-fetch-mode") == "navigate"
        own_origin = f"{'https' if self._secure else 'http'}://{headers[b'host']}"
        if origin not in (None, own_origin) or (site not in ("same-origin", "none") and not navigates):
            return 403, "requests from other sites are refused"
        if method not in ("GET", "HEAD") and not (method == "POST" and path == SIGN_IN):
            return 405, "the API is read only: use GET"
        guarded = path == "/metrics" or (path.startswith("/api") and path != SIGN_IN)
        if guarded and self._token is not None and not self._has_token(self._token, headers):
            return 401, "a token is needed: send it as 'Authorization: Bearer ...'"
        return None

    def _is_own_host(self, host: str) -> bool:
        try:
            name = (urlsplit(f"//{host}").hostname or "").casefold()
        except ValueError:
            return False
        if _parse_address(name) is not None:  # no site can have a name that is an address
            return is_loopback(name) or not self._local_only
        return name in self._names

    def _has_token(self, token: str, headers: dict[bytes, str]) -> bool:
        scheme, _, given = headers.get(b"authorization", "").partition(" ")
        if scheme.casefold() == "bearer" and is_equal(given.strip(), token):
            return True
        try:
            cookies = SimpleCookie(headers.get(b"cookie", ""))
        except CookieError:
            return False
        cookie = cookies.get(cookie_name(secure=self._secure))
        return cookie is not None and is_equal(cookie.value, cookie_value(token))


async def _refuse(scope: Message, status: int, why: str, send: Send) -> None:
    body = json.dumps({"detail": why}).encode()
    extra = {
        401: [(b"www-authenticate", b"Bearer")],
        405: [(b"allow", b"POST" if scope["path"] == SIGN_IN else b"GET")],
        413: [(b"connection", b"close")],  # the rest of the body is not read
    }.get(status, [])
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body)), *extra]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})


async def _read_body(headers: dict[bytes, str], receive: Receive) -> bytes | None:
    """Return the body of a request; None if it is too long or incomplete."""
    if int(headers.get(b"content-length", "0")) > MAX_BODY:  # h11 has checked that it is a number
        return None
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if message["type"] != "http.request" or len(body) > MAX_BODY:
            return None
        if not message.get("more_body", False):
            return body


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that delivers a body which was read already, then what follows it."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return messages.pop() if messages else await receive()

    return replay


def is_equal(given: str, expected: str) -> bool:
    """Compare secrets in constant time."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), expected.encode("utf-8", "replace"))


def cookie_value(token: str) -> str:
    """Return what a browser stores instead of the token: valid for this dashboard only, and after a restart."""
    return hmac.new(token.encode("utf-8", "replace"), b"skyband dashboard", hashlib.sha256).hexdigest()


def cookie_name(*, secure: bool) -> str:
    """Return the name of the cookie; with TLS, one that only this host can set."""
    return "__Host-skyband" if secure else "skyband"


def _parse_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
