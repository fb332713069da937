"""The dashboard under load: many queries behind it, a real browser before it."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np

from skyband.dashboard import Dashboard, Hub
from skyband.errors import SourceError

if TYPE_CHECKING:
    import pyarrow as pa
    from playwright.sync_api import Browser, BrowserType, Page, ViewportSize

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
"""How Chromium starts without a screen, and calls nobody."""

RATE = 5
"""Answers of every query in a second."""

K = 10
FRAME = 50.0  # milliseconds that no frame may take
SHARE = 0.05  # of one core that the server may take
_SHAPES = 64  # different answers that are made in advance: making them is the runner's work

_SCREEN: ViewportSize = {"width": 1280, "height": 800}
_DRAWN = "FireAnimationFrame"  # the browser's word for the callback that every frame begins with
_WATCH = """() => {
  window.frames_ = [];
  let last = performance.now();
  const tick = (now) => { window.frames_.push(now - last); last = now; requestAnimationFrame(tick); };
  requestAnimationFrame(tick);
}"""


@dataclass(frozen=True)
class Load:
    """What was seen in one view."""

    view: str
    fed: str  # "tables": one a query; "workload": one for all
    queries: int
    answers: int  # a second, of all queries
    boards: int  # on the screen
    updates: float  # of each of them, a second
    server: float  # share of one core that the server's thread took
    feeding: float  # share of one core that handing over the answers took
    busiest_frame: float  # milliseconds of processor time that the page took for one frame, at most
    longest_frame: float  # milliseconds between two frames, by the clock
    frames_over: int  # frames of more than 50 ms, by the clock
    empty_longest: float  # the same of an empty page in another browser, at the same time: what the machine does
    empty_over: int
    seconds: float

    @property
    def good(self) -> bool:
        """Whether it is as it should be: by processor time, since the clock also counts what other programs do."""
        return self.busiest_frame < FRAME and self.server < SHARE

    def as_dict(self) -> dict[str, Any]:
        """The fields by name."""
        return {"suite": "dashboard", **asdict(self), "good": self.good}


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser without a screen."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise SourceError("the browser is driven by Playwright: pip install playwright") from None
    with sync_playwright() as driver, _launched(driver.chromium) as browser:
        yield browser


@contextmanager
def _launched(kind: BrowserType) -> Iterator[Browser]:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        raise SourceError("no Chromium was found: install Debian's package chromium, or put one on the PATH")
    browser = kind.launch(executable_path=found, args=list(FLAGS))
    try:
        yield browser
    finally:
        browser.close()


def measure_all(*, queries: int = 1000, seconds: float = 10.0, seed: int = 0) -> Iterator[Load]:
    """All boards and one board, each query with tables of its own and all in one table."""
    with chromium() as browser, _launched(browser.browser_type) as other:
        empty = other.new_page(viewport=_SCREEN)
        for fed in ("workload", "tables"):
            for view in ("wall", "board"):
                yield measure((browser, empty), view, fed, queries, seconds, seed)


def measure(at: tuple[Browser, Page], view: str, fed: str, queries: int, seconds: float, seed: int = 0) -> Load:
    """Watch one view for some seconds, and an empty page beside it, while every query answers five times a second."""
    browser, empty = at
    hub = Hub()
    names = [f"query {number:04}" for number in range(queries)]
    feeder = _Feeder(hub, names, seed, whole=fed == "workload")
    feeder.once()
    with Dashboard(hub, port=0) as dashboard:
        page = browser.new_page(viewport=_SCREEN)
        page.goto(dashboard.url if view == "wall" else f"{dashboard.url}/#/board/{quote(json.dumps(names[:1]))}")
        page.locator("tbody tr:visible").first.wait_for()
        feeder.start()
        try:
            page.wait_for_timeout(2000)  # what is done only once is done
            return _watched(browser, (page, empty), dashboard, feeder, (view, fed, queries), seconds)
        finally:
            feeder.stop()
            page.close()


def _watched(
    browser: Browser,
    pages: tuple[Page, Page],
    dashboard: Dashboard,
    feeder: _Feeder,
    what: tuple[str, str, int],
    seconds: float,
) -> Load:
    (page, empty), (view, fed, queries) = pages, what
    assert dashboard.thread is not None
    clock = time.pthread_getcpuclockid(dashboard.thread)
    shown = page.locator(".board-card:not([hidden])").count() if view == "wall" else 1
    browser.start_tracing(page=page, categories=["toplevel", "devtools.timeline"])
    for each in pages:
        each.evaluate(_WATCH)
    sent, given, used, began = dashboard.sent, feeder.used, time.clock_gettime(clock), time.monotonic()
    page.wait_for_timeout(seconds * 1000)
    took = time.monotonic() - began
    used = time.clock_gettime(clock) - used
    given, sent = feeder.used - given, dashboard.sent - sent
    frames, beside = (np.array(each.evaluate("window.frames_")[1:]) for each in pages)
    trace = json.loads(browser.stop_tracing())
    empty.reload()  # the next view finds it as empty as before
    return Load(
        view=view,
        fed=fed,
        queries=queries,
        answers=queries * RATE,
        boards=shown,
        updates=round(sent / took / shown, 2),
        server=round(used / took, 4),
        feeding=round(given / took, 4),
        busiest_frame=round(_busiest(trace["traceEvents"]), 1),
        longest_frame=round(float(frames.max()), 1),
        frames_over=int((frames > FRAME).sum()),
        empty_longest=round(float(beside.max()), 1),
        empty_over=int((beside > FRAME).sum()),
        seconds=round(took, 1),
    )


def _busiest(events: list[dict[str, Any]]) -> float:
    """Processor time in milliseconds of the page's main thread from one frame to the next, at most."""
    main = {
        (event["pid"], event["tid"])
        for event in events
        if event.get("name") == "thread_name" and event["args"].get("name") == "CrRendererMain"
    }
    done = [e for e in events if e.get("ph") == "X" and "tdur" in e and (e["pid"], e["tid"]) in main]
    drawn = Counter(e["pid"] for e in done if e["name"] == _DRAWN).most_common(1)  # other processes are spare ones
    frames, task, until = [0], 0, -1
    for event in sorted((e for e in done if drawn and e["pid"] == drawn[0][0]), key=lambda e: (e["ts"], -e["dur"])):
        if event["ts"] >= until:  # a task of its own, not a part of one
            frames[-1] += task
            task, until = event["tdur"], event["ts"] + event["dur"]
        elif event["name"] == _DRAWN and frames[-1]:  # with this task a frame begins
            frames.append(0)
    return max(frames[-1] + task, *frames) / 1000


class _Feeder:
    """Every query answers five times a second; some rows move, come and go each time."""

    def __init__(self, hub: Hub, names: list[str], seed: int, *, whole: bool) -> None:
        self.used = 0.0  # seconds of processor time in the hub
        self._hub, self._names, self._whole = hub, names, whole
        rng = np.random.default_rng(seed)
        self._shapes = [_answers(step, rng) for step in range(_SHAPES)]
        self._tables = [_workload(self._shapes, names, step) for step in range(8)] if whole else []
        self._step = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()

    def once(self) -> None:
        """One answer of every query."""
        began = time.thread_time()
        if self._whole:
            self._hub.answers(None, self._tables[self._step % len(self._tables)])
        else:
            for number, name in enumerate(self._names):
                self._hub.answers(name, self._shapes[(number + self._step) % _SHAPES])
        self._hub.progress(
            {"rows_per_second": 1e6 + self._step, "batch_seconds": 0.01, "candidates": 300 + self._step % 9}
        )
        self.used += time.thread_time() - began
        self._step += 1

    def _run(self) -> None:
        due = time.monotonic()
        while not self._over.is_set():
            self.once()
            due += 1 / RATE
            time.sleep(max(0.0, due - time.monotonic()))


def _answers(step: int, rng: np.random.Generator) -> pa.Table:
    import pyarrow as pa

    score = np.sort(rng.lognormal(8, 1, K))[::-1]
    who = rng.choice(3 * K, K, replace=False)  # a third stays, in other places
    end = np.datetime64("2024-01-02T09:30:00", "us") + np.timedelta64(step, "s")
    return pa.table(
        {
            "window_start": np.repeat(end - np.timedelta64(300, "s"), K),
            "window_end": np.repeat(end, K),
            "rank": np.arange(1, K + 1),
            "score": score,
            "ts": np.repeat(end, K),
            "symbol": [f"SYM{number}" for number in who],
            "price": np.round(rng.lognormal(4, 1, K), 2),
            "volume": rng.integers(1, 9999, K),
        }
    )


def _workload(shapes: list[pa.Table], names: list[str], step: int) -> pa.Table:
    import pyarrow as pa

    whole = pa.concat_tables(shapes[(number + step) % _SHAPES] for number in range(len(names))).combine_chunks()
    named = pa.array(np.repeat(np.arange(len(names), dtype=np.int32), K))
    return whole.add_column(0, "query", pa.DictionaryArray.from_arrays(named, pa.array(names)))
