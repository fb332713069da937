"""Who may ask, and what every answer carries: Host, Origin, token, and headers that keep a browser strict."""

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
"""The one address that takes a POST."""

MAX_BODY = 16 << 10
"""Bytes that a request body may have: that of the one POST, which comes before anyone has signed in."""

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
_STRICT = (b"strict-transport-security", b"max-age=31536000")


def loopback(host: str) -> bool:
    """Whether only this machine can reach `host`.

    Examples
    --------
    >>> loopback("127.0.0.1"), loopback("localhost"), loopback("::1"), loopback("0.0.0.0"), loopback("example.org")
    (True, True, True, False, False)
    """
    if host == "localhost":
        return True
    address = _address(host)
    return address is not None and address.is_loopback


class Guard:
    """Stands before the application and lets through what may come in.

    A page of another site can make a browser send requests to this machine: under its own name that resolves
    here (the Host is not ours), or across sites (the Origin is not ours). Both are refused. With a token, data is
    given only to those who show it; the page itself holds none.
    """

    def __init__(
        self, app: App, *, host: str, names: Iterable[str] = (), token: str | None = None, secure: bool = False
    ) -> None:
        self._app = app
        self._near = loopback(host)
        self._names = {"localhost", host.casefold(), *(name.casefold() for name in names)}
        self._token = token
        self._headers = (*_HEADERS, _STRICT) if secure else _HEADERS
        self._secure = secure

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            return
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *self._headers]}
            await send(message)

        refused = self._refused(scope["method"], scope["path"], headers)
        if refused is None and scope["method"] == "POST":
            body = await _body(headers, receive)
            if body is None:
                refused = 413, f"a request body has at most {MAX_BODY:,} bytes"
            else:
                receive = _replay(body, receive)
        if refused is None:
            await self._app(scope, receive, sent)
            return
        status, why = refused
        body = json.dumps({"detail": why}).encode()
        extra = [(b"www-authenticate", b"Bearer")] if status == 401 else []
        if status == 405:
            extra = [(b"allow", b"POST" if scope["path"] == SIGN_IN else b"GET")]
        if status == 413:
            extra = [(b"connection", b"close")]  # the rest of the body is not read
        start = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body)), *extra]
        await sent({"type": "http.response.start", "status": status, "headers": start})
        await sent({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    def _refused(self, method: str, path: str, headers: dict[bytes, str]) -> tuple[int, str] | None:
        if not self._known(headers.get(b"host", "")):
            return 421, "this Host is not served here: open the address that skyband printed"
        origin = headers.get(b"origin")
        if origin is not None and not self._ours(origin, headers[b"host"]):
            return 403, "requests from other sites are refused"
        site = headers.get(b"sec-fetch-site", "none")
        if site not in ("same-origin", "none") and not (path == "/" and headers.get(b"sec-fetch-mode") == "navigate"):
            return 403, "requests from other sites are refused"
        if method not in ("GET", "HEAD") and not (method == "POST" and path == SIGN_IN):
            return 405, "there is nothing to change here: use GET"
        guarded = path == "/metrics" or (path.startswith("/api") and path != SIGN_IN)
        if guarded and self._token is not None and not self._shown(headers):
            return 401, "a token is needed: send it as 'Authorization: Bearer ...'"
        return None

    def _known(self, host: str) -> bool:
        try:
            name = (urlsplit(f"//{host}").hostname or "").casefold()
        except ValueError:
            return False
        if _address(name) is not None:  # no site can give itself a name that is an address
            return loopback(name) or not self._near
        return name in self._names

    def _ours(self, origin: str, host: str) -> bool:
        return origin == f"{'https' if self._secure else 'http'}://{host}"

    def _shown(self, headers: dict[bytes, str]) -> bool:
        assert self._token is not None
        scheme, _, given = headers.get(b"authorization", "").partition(" ")
        if scheme.casefold() == "bearer" and same(given.strip(), self._token):
            return True
        try:
            jar = SimpleCookie(headers.get(b"cookie", ""))
        except CookieError:
            return False
        cookie = jar.get(cookie_name(secure=self._secure))
        return cookie is not None and same(cookie.value, pass_for(self._token))


async def _body(headers: dict[bytes, str], receive: Receive) -> bytes | None:
    """The body of a request; None if it is too long, or did not come."""
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
    """Receive a body that was read already, then what comes after it."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def received() -> Message:
        return messages.pop() if messages else await receive()

    return received


def same(given: str, right: str) -> bool:
    """Compare without telling by the time it takes how much of it was right."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), right.encode("utf-8", "replace"))


def pass_for(token: str) -> str:
    """What a browser keeps instead of the token; it opens nothing but this dashboard, and survives a restart."""
    return hmac.new(token.encode("utf-8", "replace"), b"skyband dashboard", hashlib.sha256).hexdigest()


def cookie_name(*, secure: bool) -> str:
    """The cookie's name; with TLS, one that only this host can set."""
    return "__Host-skyband" if secure else "skyband"


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
