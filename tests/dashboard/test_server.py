"""The server: its API, its events, its metrics, and whom it lets in."""

import asyncio
import contextlib
import http.client
import itertools
import json
import re
import selectors
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.parse

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shown import answers, fetch, fetched

import skyband as sb
from skyband.dashboard import Dashboard, Hub, app
from skyband.dashboard import events as event_stream
from skyband.errors import DashboardError

TOKEN = "a token of enough length"  # noqa: S105 - of a test


@pytest.fixture(scope="module")
def dashboard():
    hub = Hub()
    hub.describe("trades", sb.TopK(k=2, by="price", window=sb.Sliding("5 min", "30 s"), time="ts", id="id"))
    for window in range(5):
        hub.answers("trades", answers(window, ["ann", "bob"]))
        hub.answers("by symbol/é?", answers(window, ["ann"], per=["A B", None, "null", "ü/+"]))
    hub.progress({"rows": 10, "rows_per_second": 5.5, "my_own_figure": 3})
    with Dashboard(hub, port=0) as running:
        yield running


def raw(dashboard, text):
    """Send bytes as they are; the first line that comes back."""
    with socket.create_connection(("127.0.0.1", dashboard.port), timeout=10) as sent:
        sent.sendall(text)
        return sent.makefile("rb").readline().decode()


def events(dashboard, path, many, **headers):
    """The first events of a stream, as (name, data)."""
    link = http.client.HTTPConnection("127.0.0.1", dashboard.port, timeout=20)
    link.request("GET", path, headers=headers)
    answer = link.getresponse()
    assert answer.status == 200
    found = []
    while len(found) < many:
        line = answer.readline().decode()
        if line.startswith("event: "):
            name = line[7:].strip()
        elif line.startswith("data: "):
            found.append((name, json.loads(line[6:])))
    link.close()
    return found


# ---------------------------------------------------------------- the API


def test_boards_and_their_windows(dashboard):
    url = dashboard.url
    assert fetched(f"{url}/api/health")["status"] == "ok"
    assert fetched(f"{url}/api/boards")["total"] == 5
    assert fetched(f"{url}/api/boards?search=trades")["boards"] == [["trades"]]
    newest = fetched(f"{url}/api/boards/trades")
    assert [row["label"] for row in newest["rows"]] == ["ann", "bob"]
    assert [column["kind"] for column in newest["columns"]] == ["text", "id"]
    past = fetched(f"{url}/api/boards/trades/history")["windows"]
    assert [window["score"] for window in past] == [100, 101, 102, 103, 104]
    assert past[-1]["end"] == newest["end"]
    old = fetched(f"{url}/api/boards/trades/windows/{past[1]['number']}")
    assert old["end"] == "2024-01-02T12:00:30"
    about = fetched(f"{url}/api/boards/trades/about")
    assert (about["k"], about["by"], about["window"]) == (2, "price", "last 5 min, every 30 s")
    progress = fetched(f"{url}/api/progress")
    assert progress["figures"]["rows_per_second"] == 5.5
    assert progress["state"] == "running"


def test_any_name_and_group_can_be_asked_for(dashboard):
    query = urllib.parse.quote("by symbol/é?", safe="")
    for key in fetched(f"{dashboard.url}/api/boards?search=symbol")["boards"]:
        group = urllib.parse.urlencode([("group", json.dumps(part)) for part in key[1:]])
        board = fetched(f"{dashboard.url}/api/boards/{query}?{group}")
        assert board["group"] == {"symbol": key[1]}
        assert len(fetched(f"{dashboard.url}/api/boards/{query}/history?{group}")["windows"]) == 5


@pytest.mark.parametrize(
    "path",
    ["/api/boards/nothing", "/api/boards/nothing/history", "/api/boards/trades/windows/999999",
     "/api/boards/trades?group=x", "/api/boards/nothing/about", "/nowhere", "/static/nowhere.js", "/docs", "/redoc"],
)  # fmt: skip
def test_what_is_not_there_is_404(dashboard, path):
    status, _, body = fetch(dashboard.url + path)
    assert status == 404
    assert json.loads(body)["detail"]


@pytest.mark.parametrize(
    "path",
    ["/api/boards?limit=0", "/api/boards?offset=-1", "/api/boards?search=" + "x" * 300,
     "/api/boards/trades/windows/many", "/api/stream?board=x", "/api/stream?board=[]", "/api/stream?board=[null]",
     "/api/stream?" + "&".join(['board=["q"]'] * 65), "/api/stream?board=" + "[" * 5000],
)  # fmt: skip
def test_what_makes_no_sense_is_422(dashboard, path):
    assert fetch(dashboard.url + path.replace('"', "%22"))[0] == 422


@pytest.mark.parametrize("group", ["[" * 5000, '{"a":' * 3000, '"\\ud800"', "9" * 5000, "1e999"])
@pytest.mark.parametrize("rest", ["", "/history", "/windows/1", "/about"])
def test_a_group_is_a_text_whatever_is_in_it(dashboard, group, rest):
    query = urllib.parse.quote("by symbol/é?", safe="")
    status, _, _ = fetch(f"{dashboard.url}/api/boards/{query}{rest}?group={urllib.parse.quote(group)}")
    assert status == (200 if rest == "/about" else 404)


def test_openapi_describes_every_address(dashboard):
    described = fetched(f"{dashboard.url}/api/openapi.json")
    assert set(described["paths"]) >= {
        "/api/boards", "/api/boards/{query}", "/api/boards/{query}/history", "/api/boards/{query}/windows/{number}",
        "/api/progress", "/api/stream", "/metrics", "/api/health",
    }  # fmt: skip
    assert described["components"]["schemas"]["Board"]["properties"]["rows"]


@settings(max_examples=60)
@given(
    st.text(max_size=40),
    st.lists(st.text(max_size=10), max_size=2),
    st.sampled_from(["", "/history", "/about", "/windows/1"]),
)
def test_no_name_brings_it_down(dashboard, name, group, rest):
    def quoted(text):
        return urllib.parse.quote(text.encode("utf-8", "surrogatepass"), safe="")

    asked = "&".join(f"group={quoted(part)}" for part in group)
    status, _, _ = fetch(f"{dashboard.url}/api/boards/{quoted(name)}{rest}?{asked}&search={quoted(name)}")
    assert status in (200, 404, 405, 422)


# ---------------------------------------------------------------- events


def test_only_what_is_asked_for_is_sent(dashboard):
    board = urllib.parse.quote('["trades"]')
    group = urllib.parse.quote('["by symbol/é?", null]')
    got = dict(events(dashboard, f"/api/stream?board={board}&brief={group}", 4))
    assert list(got) == ["hello", "status", "board", "brief"]
    assert [row["label"] for row in got["board"]["rows"]] == ["ann", "bob"]
    assert len(got["board"]["windows"]) == 5
    assert got["brief"]["board"] == ["by symbol/é?", None]
    assert got["brief"]["trend"] == [100, 101, 102, 103, 104]


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock jumps to the next timer instead of waiting for it."""

    def __init__(self):
        self.now, loop = 1000.0, self

        class Selector(selectors.DefaultSelector):
            def select(self, timeout=None):
                if timeout:
                    loop.now += timeout + 1e-6  # a timer never fires early
                return super().select(0)

        super().__init__(Selector())

    def time(self):
        return self.now


def test_updates_come_at_most_five_times_a_second():
    hub = Hub()
    hub.answers("q", answers(0, ["ann"]))
    sent = []

    async def follow():
        loop = asyncio.get_running_loop()
        stream = event_stream.EventStream(hub)

        async def answer():
            for window in range(1, 201):  # every 10 ms, for two seconds
                hub.answers("q", answers(window, ["ann"]))
                await asyncio.sleep(0.01)
            stream.close()

        answering = asyncio.create_task(answer())
        async for body in stream.events([event_stream.Subscription(("q",), brief=False)]):
            sent.extend((loop.time(), json.loads(data)["number"]) for data in re.findall(rb'data: (.*"rows".*)', body))
        await answering

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(follow())
    times, numbers = zip(*sent, strict=True)
    assert 10 <= len(times) <= 12
    assert min(after - before for before, after in itertools.pairwise(times[1:])) > 0.19
    assert list(numbers) == sorted(set(numbers))
    assert (numbers[0], numbers[-1]) == (0, 200), "the newest wins"


def test_a_board_is_written_once_for_all_screens():
    hub = Hub()
    hub.answers("q", answers(0, ["ann"]))
    with Dashboard(hub, port=0) as dashboard:
        links = []
        for _ in range(8):
            link = http.client.HTTPConnection("127.0.0.1", dashboard.port, timeout=20)
            link.request("GET", "/api/stream?board=%5B%22q%22%5D")
            links.append((link, link.getresponse()))
        bodies = set()
        for _, answer in links:
            line = b""
            while not (line.startswith(b"data: ") and b'"rows"' in line):
                line = answer.readline()
            bodies.add(line)
        assert len(bodies) == 1
        assert len(dashboard._stream._events) == 1
        assert dashboard._stream.clients == 8
        for link, _ in links:
            link.close()
        until = time.monotonic() + 15
        while dashboard._stream.clients and time.monotonic() < until:
            hub.answers("q", answers(1 + int(time.monotonic()), ["ann"]))  # who is gone is noticed when spoken to
            time.sleep(0.1)
        assert dashboard._stream.clients == 0
        assert dashboard._stream._events == {}


def test_metrics_hold_no_data_of_users(dashboard):
    status, headers, body = fetch(f"{dashboard.url}/metrics")
    text = body.decode()
    assert status == 200
    assert headers["content-type"].startswith("text/plain; version=0.0.4")
    assert "skyband_rows_per_second 5.5" in text
    assert "skyband_queries 2.0" in text
    assert "{" not in text
    assert "trades" not in text
    assert "my_own_figure" not in text
    for line in text.splitlines():
        assert re.fullmatch(r"# (HELP|TYPE) \w+ .+|\w+ [\d.e+-]+", line)


# ---------------------------------------------------------------- how much it takes


def ended(link, seconds=10):
    """Whether the server closes the connection; what it sent before."""
    link.settimeout(seconds)
    received = b""
    try:
        while piece := link.recv(1 << 16):
            received += piece
    except TimeoutError:
        return False, received
    except ConnectionResetError:
        pass
    return True, received


def connected(dashboard):
    return socket.create_connection(("127.0.0.1", dashboard.port), timeout=10)


HEAD = b"POST /api/session HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


def test_a_body_is_refused_before_it_is_read():
    with Dashboard(Hub(), port=0, token=TOKEN) as dashboard:
        with connected(dashboard) as link:
            link.sendall(HEAD + b"Content-Length: 800000000\r\n\r\n")
            closed, received = ended(link)
            assert closed
            assert received.split()[1] == b"413"
        with connected(dashboard) as link:
            link.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + (b"2000\r\n" + b" " * 0x2000 + b"\r\n") * 4)
            closed, received = ended(link)
            assert closed
            assert received.split()[1] == b"413"
        body = json.dumps({"token": TOKEN}).encode().ljust(16 << 10)
        with connected(dashboard) as link:
            link.sendall(HEAD + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            assert ended(link)[1].split()[1] == b"204"


@pytest.mark.parametrize(
    "body", [b'{"token":["\\ud800"]}', b'{"token":"\\ud800"}', b"[" * 9000, b'"\\ud800"', b"\xff", b'{"token":NaN}']
)
def test_no_body_brings_it_down(body):
    with Dashboard(Hub(), port=0, token=TOKEN) as dashboard, connected(dashboard) as link:
        link.sendall(HEAD + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        assert ended(link)[1].split()[1] in (b"400", b"401", b"422")


def test_no_more_screens_follow_than_there_is_room_for(monkeypatch):
    monkeypatch.setattr(event_stream, "MAX_CLIENTS", 5)
    request = b"GET /api/stream HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with Dashboard(Hub(), port=0) as dashboard, contextlib.ExitStack() as stack:
        links = [stack.enter_context(connected(dashboard)) for _ in range(40)]
        for link in links:
            link.sendall(request)
        said = [link.makefile("rb").readline().split()[1] for link in links]
        assert sorted(said) == [b"200"] * 5 + [b"503"] * 35
        assert fetch(f"{dashboard.url}/api/stream")[0] == 503
        for link in links:
            link.close()
        until = time.monotonic() + 20
        while dashboard._stream.clients:
            assert time.monotonic() < until
        assert len(events(dashboard, "/api/stream", 1)) == 1, "there is room again"


HALVES = {
    "nothing": [b""],
    "request line": [b"GET /api/hea"],
    "headers": [b"GET /api/health HTTP/1.1\r\nHost: localhost\r\n", *[b"a: b\r\n"] * 1000],
    "body": [HEAD + b"Content-Length: 9999\r\n\r\n", *[b" "] * 1000],
    "body that nobody reads": [
        b"GET /api/stream HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999\r\n\r\n", *[b" "] * 1000,
    ],
    "second request": [b"GET /api/health HTTP/1.1\r\nHost: localhost\r\n\r\nGET /api", *[b"x"] * 1000],
}  # fmt: skip


@pytest.mark.parametrize("half", HALVES)
def test_a_request_that_is_not_completed_in_time_is_closed(half, monkeypatch):
    monkeypatch.setattr(app, "REQUEST_SECONDS", 0.3)
    with Dashboard(Hub(), port=0, token=None if "nobody" in half else TOKEN) as dashboard:
        with connected(dashboard) as link:
            first, *drops = HALVES[half]
            link.sendall(first)
            stop = threading.Event()

            def drip():
                with contextlib.suppress(OSError):
                    for drop in drops:
                        if stop.wait(0.02):
                            return
                        link.sendall(drop)

            dripping = threading.Thread(target=drip)
            dripping.start()
            assert ended(link)[0]
            stop.set()
            dripping.join()
        assert dashboard._server.server_state.connections == set()


def test_a_stream_goes_on_when_its_request_is_complete(monkeypatch):
    monkeypatch.setattr(app, "REQUEST_SECONDS", 0.1)
    monkeypatch.setattr(event_stream, "_HEARTBEAT_PERIODS", 1)
    with Dashboard(Hub(), port=0) as dashboard:
        assert [name for name, _ in events(dashboard, "/api/stream", 6)][2:] == ["beat"] * 4


def test_connections_beyond_the_limit_are_closed(monkeypatch):
    monkeypatch.setattr(app, "MAX_CONNECTIONS", 3)
    with Dashboard(Hub(), port=0) as dashboard, contextlib.ExitStack() as stack:
        for _ in range(3):
            link = stack.enter_context(connected(dashboard))
            link.sendall(b"GET /api/health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert link.recv(1 << 16)
        assert ended(stack.enter_context(connected(dashboard))) == (True, b"")


def test_a_client_that_does_not_read_is_closed(monkeypatch):
    monkeypatch.setattr(app, "STALL_SECONDS", 0.1)
    hub = Hub()
    hub.answers("q", answers(0, [f"{i} {'x' * 100}" for i in range(5000)]))
    with Dashboard(hub, port=0) as dashboard, socket.socket() as link:
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        link.connect(("127.0.0.1", dashboard.port))
        link.sendall(b"GET /api/boards/q HTTP/1.1\r\nHost: localhost\r\n\r\n" * 50)
        assert link.recv(4)
        until = time.monotonic() + 60
        while dashboard._server.server_state.connections:
            assert time.monotonic() < until
            time.sleep(0.01)
        assert dashboard._server.server_state.total_requests < 50


# ---------------------------------------------------------------- who may come in


@pytest.mark.parametrize(
    ("host", "status"),
    [("127.0.0.1", 200), ("localhost:1", 200), ("[::1]:8765", 200), ("evil.example", 421), ("evil.example:8765", 421),
     ("127.0.0.1.evil.example", 421), ("192.168.0.1", 421), ("", 421), ("[::1", 421)],
)  # fmt: skip
def test_host_is_checked(dashboard, host, status):
    first = raw(dashboard, f"GET /api/boards HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    assert first.split()[1] == str(status)


def test_other_sites_are_refused(dashboard):
    url = f"{dashboard.url}/api/boards"
    assert fetch(url, Origin=dashboard.url)[0] == 200
    assert fetch(url, Origin="https://evil.example")[0] == 403
    assert fetch(url, Origin="null")[0] == 403
    assert fetch(url, Origin=dashboard.url.replace("http:", "https:"))[0] == 403
    assert fetch(url, **{"Sec-Fetch-Site": "cross-site"})[0] == 403
    assert fetch(dashboard.url, **{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"})[0] == 403
    assert fetch(dashboard.url, **{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"})[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_there_is_nothing_to_change(dashboard, method):
    status, headers, _ = fetch(f"{dashboard.url}/api/boards", method=method)
    assert (status, headers["Allow"]) == (405, "GET")  # RFC 9110 wants it named


@pytest.mark.parametrize(
    "path",
    ["/static/../server.py", "/static/..%2fserver.py", "/static/%2e%2e/%2e%2e/hub.py", "/static//etc/passwd",
     "/static/..\\server.py", "/../../../etc/passwd", "/static/%00index.html", "/static/.", "/static/"],
)  # fmt: skip
def test_no_path_leads_out(dashboard, path):
    first = raw(dashboard, f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    assert first.split()[1] in ("404", "400", "307")


@pytest.mark.parametrize("path", ["/", "/static/main.js", "/api/boards", "/metrics", "/nowhere"])
def test_every_answer_is_strict_with_browsers(dashboard, path):
    _, headers, _ = fetch(dashboard.url + path)
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["server"] is None


def test_pages_are_fetched_once(dashboard):
    _, headers, _ = fetch(f"{dashboard.url}/static/main.js")
    assert fetch(f"{dashboard.url}/static/main.js", **{"If-None-Match": headers["etag"]})[0] == 304


def test_no_page_holds_a_script_or_style_of_its_own(dashboard):
    page = fetch(dashboard.url)[2].decode()
    assert not re.search(r"<script(?![^>]*src=)|<style|\sstyle=|\son\w+=|https?://", page)


def test_it_does_not_leave_this_machine_unguarded():
    for host in ("0.0.0.0", "::", "192.168.1.7", "example.org", ""):  # noqa: S104 - refused
        with pytest.raises(DashboardError, match="token= and tls="):
            Dashboard(Hub(), host=host)
        with pytest.raises(DashboardError, match="token= and tls="):
            Dashboard(Hub(), host=host, token=TOKEN)
        with pytest.raises(DashboardError, match="token= and tls="):
            Dashboard(Hub(), host=host, tls=("cert", "key"))
    with pytest.raises(DashboardError, match="token must have at least 16 characters, got 5"):
        Dashboard(Hub(), token="short")  # noqa: S106
    with pytest.raises(DashboardError, match=r"port must be .* got 70000"):
        Dashboard(Hub(), port=70000)


def test_a_taken_port_is_told(dashboard):
    with pytest.raises(DashboardError, match=f"port={dashboard.port}"):
        Dashboard(Hub(), port=dashboard.port).start()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
               "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-out", cert, "-keyout", key]  # fmt: skip
    try:
        subprocess.run(command, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("OPENSSL MISSING: no certificate to try TLS with")
    return cert, key


def test_with_token_and_tls_it_may_leave(certificate):
    hub = Hub()
    hub.answers("q", answers(0, ["ann"]))
    trusted = ssl.create_default_context(cafile=str(certificate[0]))

    def asked(path, body=None, **headers):
        link = http.client.HTTPSConnection("localhost", dashboard.port, context=trusted, timeout=20)
        link.request("POST" if body else "GET", path, body=body, headers=headers)
        answer = link.getresponse()
        said = answer.status, answer.headers, answer.read()
        link.close()
        return said

    with Dashboard(hub, host="0.0.0.0", port=0, token=TOKEN, tls=certificate, names=["boards.example"]) as dashboard:  # noqa: S104
        assert dashboard.url.startswith("https://")
        assert TOKEN not in repr(dashboard) + dashboard.url
        for path in ("/api/boards", "/metrics", "/api/openapi.json", "/api/stream", "/api/progress"):
            status, headers, _ = asked(path)
            assert status == 401
            assert headers["www-authenticate"] == "Bearer"
        assert asked("/")[0] == 200  # the page holds no data
        assert asked("/api/boards", Authorization=f"Bearer {TOKEN}")[0] == 200
        assert asked("/api/boards", Authorization=f"Bearer {TOKEN}x")[0] == 401
        assert asked("/api/boards", Cookie=f"__Host-skyband={TOKEN}")[0] == 401
        assert asked("/api/boards", Cookie="a;b=;;\x01")[0] in (400, 401)
        json_type = {"Content-Type": "application/json"}
        assert asked("/api/session", json.dumps({"token": "wrong"}), **json_type)[0] == 401
        assert asked("/api/session", "{", **json_type)[0] == 422
        status, headers, _ = asked("/api/session", json.dumps({"token": TOKEN}), **json_type)
        cookie = headers["set-cookie"]
        assert status == 204
        assert all(word in cookie for word in ("__Host-skyband=", "HttpOnly", "Secure", "SameSite=strict", "Path=/"))
        assert TOKEN not in cookie
        status, headers, _ = asked("/api/boards", Cookie=cookie.split(";")[0])
        assert status == 200
        assert "max-age" in headers["strict-transport-security"]
        assert asked("/", Host="boards.example")[0] == 200
        assert asked("/", Host="192.168.1.7")[0] == 200
        assert asked("/", Host="evil.example")[0] == 421


def test_a_certificate_that_is_none_is_told(tmp_path):
    (tmp_path / "cert.pem").write_text("nothing")
    with pytest.raises(DashboardError, match="tls must be"):
        Dashboard(Hub(), port=0, tls=(tmp_path / "cert.pem", tmp_path / "cert.pem")).start()


def test_it_stops_and_starts_again_on_the_same_port():
    hub = Hub()
    hub.answers("q", answers(0, ["ann"]))
    with Dashboard(hub, port=0) as dashboard:
        link = http.client.HTTPConnection("127.0.0.1", dashboard.port, timeout=20)
        link.request("GET", "/api/stream?board=%5B%22q%22%5D")
        answer = link.getresponse()
        answer.readline()
        serving = dashboard._thread
        dashboard.stop()
        assert not serving.is_alive(), "an open stream kept it from stopping"
        link.close()
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.1", dashboard.port), timeout=5)
        dashboard.start()
        assert fetched(f"{dashboard.url}/api/boards")["total"] == 1


def test_the_import_is_light_and_the_extra_is_named():
    code = (
        "import sys; sys.modules['uvicorn'] = None\n"
        "from skyband.dashboard import Dashboard, Hub\n"
        "print([m for m in ('fastapi', 'starlette', 'pydantic') if m in sys.modules])\n"
        "try:\n    Dashboard(Hub()).start()\nexcept ValueError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("[]\n")
    assert 'pip install "skyband[dashboard]"' in done.stdout
