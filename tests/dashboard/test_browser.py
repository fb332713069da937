"""The page in a real, headless Chromium."""

import json
import re
import threading
import time
import urllib.parse

import pytest
from shown import answers, chromium

from skyband.dashboard import Dashboard, Hub

HOSTILE = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>\'"&amp;\u202e'
NAMES = ["ann", "bob", "cyd", "dan", "eve", "fay"]


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


class Seen:
    """A page, and what went wrong on it."""

    def __init__(self, browser, dashboard, **options):
        self.context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
        self.page = self.context.new_page()
        self.errors, self.foreign = [], []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda said: self.errors.append(said.text) if said.type == "error" else None)
        self.page.on("request", lambda asked: self.note(asked.url, dashboard.url))
        self.page.set_default_timeout(90_000)

    def note(self, url, ours):
        if not url.startswith((ours, "data:", "blob:")):
            self.foreign.append(url)

    def close(self, *, errors=False):
        self.context.close()
        assert self.foreign == []
        assert errors or self.errors == []


@pytest.fixture
def dashboard():
    hub = Hub()
    with Dashboard(hub, port=0) as running:
        yield running


@pytest.fixture
def seen(browser, dashboard):
    found = Seen(browser, dashboard)
    yield found
    found.close()


def at(dashboard, *key):
    return f"{dashboard.url}/#/board/{urllib.parse.quote(json.dumps(list(key)))}"


def labels(page):
    return page.locator("#board tbody tr td.first").all_inner_texts()


def until(page, code):
    """Wait until `code` is true; asked from outside, since the page's policy forbids what Playwright would do."""
    late = time.monotonic() + 30
    while not page.evaluate(code):
        assert time.monotonic() < late, f"never came true: {code}"
        page.wait_for_timeout(50)


def fill(hub, *queries, windows=3):
    for window in range(windows):
        for query in queries:
            hub.answers(query, answers(window, NAMES))


def test_it_opens_and_follows(dashboard, seen):
    hub, page = dashboard.hub, seen.page
    page.goto(dashboard.url)
    page.get_by_text("Waiting for the first window to close.").first.wait_for()
    fill(hub, "trades", "clicks")
    hub.progress({"rows_per_second": 203_000, "batch_seconds": 0.012, "candidates": 312, "window_rows": 1_000_000,
                  "late": 7, "staleness_seconds": 1.5, "refills": 4, "state_bytes": 2_500_000})  # fmt: skip
    page.locator(".board-card").nth(1).locator("tbody tr").first.wait_for()
    assert page.locator("#count").inner_text() == "2 boards"
    assert page.locator("#state").inner_text() == "Live"
    figures = page.locator("#figures").inner_text()
    assert all(word in figures for word in ("203 K", "12 ms", "312", "1 in 3.21 K of 1 M", "7", "1.5 s", "4", "2.5 MB"))
    page.get_by_role("link", name="trades", exact=True).first.click()
    until(page, "document.querySelectorAll('#board tbody tr').length === 6")
    assert labels(page) == NAMES
    assert page.locator("#window").inner_text() == "11:56:00 \N{EN DASH} 12:01:00"
    hub.answers("trades", answers(3, ["cyd", "new", "ann", "bob", "dan", "eve"]))
    until(page, "document.querySelector('#board tbody td.first').textContent === 'cyd'")
    assert labels(page) == ["cyd", "new", "ann", "bob", "dan", "eve"]
    assert page.locator("#board tbody td.move").all_inner_texts() == ["▲2", "new", "▼2", "▼2", "▼1", "▼1"]
    assert page.locator("#entered").inner_text().split() == ["new", "at", "2"]
    assert page.locator("#left").inner_text().split() == ["fay", "was", "6"]
    assert page.locator("#chart .line").get_attribute("d").count("L") == 3


def test_rows_move_to_their_new_rank(dashboard, seen):
    """A row keeps its element, and an animation carries it from its old place."""
    hub, page = dashboard.hub, seen.page
    fill(hub, "q", "other")
    page.goto(at(dashboard, "q"))
    until(page, "document.querySelectorAll('#board tbody tr').length === 6")
    page.evaluate(
        """() => {
          window.element = document.querySelectorAll('#board tbody tr')[5];
          window.moves = [];
          const animate = Element.prototype.animate;
          Element.prototype.animate = function (frames, options) {
            if (this === window.element) window.moves.push(frames[0].transform);
            return animate.call(this, frames, options);
          };
        }"""
    )
    hub.answers("q", answers(3, ["fay", "ann", "bob", "cyd", "dan", "eve"]))
    until(page, "window.moves.length > 0")
    assert page.evaluate("window.moves") == ["translateY(190px)"]
    assert page.evaluate("document.querySelector('#board tbody tr') === window.element")
    heights = page.evaluate("[...document.querySelectorAll('#board tbody tr')].map((row) => row.offsetHeight)")
    assert set(heights) == {38}


def test_many_rows_that_hurry_take_their_places_at_once(dashboard, seen):
    """Once is no haste, and few rows can always be followed."""
    page = seen.page
    page.goto(dashboard.url)
    motions = page.evaluate(
        """async () => {
          const { create, Rows } = await import("/static/rows.js");
          const body = document.body.appendChild(create("table")).appendChild(create("tbody"));
          const rows = new Rows(body, () => ({ node: create("tr"), index: 0 }), () => {}, 38, 3);
          const motions = [];
          for (const keys of ["abcdef", "fedcba", "abcdef", "bacdef", "efbacd"]) {
            motions.push(rows.update([...keys].map((key) => ({ key }))));
          }
          await new Promise((resolve) => setTimeout(resolve, 450));
          motions.push(rows.update([..."abcdef"].map((key) => ({ key }))));
          return motions;
        }"""
    )
    assert motions == [False, True, False, True, False, True]


def test_numbers_have_as_many_digits_as_they_need(dashboard, seen):
    seen.page.goto(dashboard.url)
    columns = [[3, 40], [83.58, 111.02], [0.5], [1.2345], [123.456], [12345.67]]
    asked = f"""async () => {{
      const {{ digits, fixed }} = await import("/static/format.js");
      return {columns}.map((column) => column.map((value) => fixed(value, digits(column))));
    }}"""
    assert seen.page.evaluate(asked) == [["3", "40"], ["83.58", "111.02"], ["0.50"], ["1.235"], ["123.5"], ["12,346"]]


def test_nothing_moves_for_those_who_ask_for_calm(browser, dashboard):
    hub = dashboard.hub
    fill(hub, "q", "other")
    calm = Seen(browser, dashboard, reduced_motion="reduce")
    calm.page.goto(at(dashboard, "q"))
    until(calm.page, "document.querySelectorAll('#board tbody tr').length === 6")
    calm.page.evaluate("() => { window.moved = 0; Element.prototype.animate = () => { window.moved += 1; } }")
    hub.answers("q", answers(3, NAMES[::-1]))
    until(calm.page, "document.querySelector('#board tbody td.first').textContent === 'fay'")
    assert calm.page.evaluate("window.moved") == 0
    calm.close()


def test_it_survives_a_restart_of_the_server(browser, dashboard):
    hub = dashboard.hub
    fill(hub, "q", "other")
    seen = Seen(browser, dashboard)
    page = seen.page
    page.goto(at(dashboard, "q"))
    until(page, "document.querySelectorAll('#board tbody tr').length === 6")
    dashboard.stop()
    page.locator("#state[data-state=lost]").wait_for()
    assert "No connection" in page.locator("#banner").inner_text()
    assert labels(page) == NAMES  # what was heard last stays
    fresh = Hub()  # as after a restart: another process would have another hub
    fill(fresh, "q", "other", "third")
    fresh.answers("q", answers(9, ["zoe", *NAMES[:5]]))
    with Dashboard(fresh, port=dashboard.port):
        until(page, "document.querySelector('#board tbody td.first').textContent === 'zoe'")
        page.locator("#state[data-state=live]").wait_for()
        assert page.locator("#banner").is_hidden()
        until(page, "document.querySelectorAll('#names > :not([hidden])').length === 3")
    seen.close(errors=True)  # a refused connection is written to the console


def test_an_error_is_shown_and_goes(dashboard, seen):
    hub, page = dashboard.hub, seen.page
    fill(hub, "q", "other")
    page.goto(dashboard.url)
    page.locator(".board-card tbody tr").first.wait_for()
    hub.error("batch 7 failed: cannot reach postgresql://me:hunter2@db <b>now</b>")
    page.locator("#state[data-state=failed]").wait_for()
    assert page.locator("#banner").inner_text() == "batch 7 failed: cannot reach postgresql://***@db <b>now</b>"
    assert page.locator("#banner").get_attribute("role") == "alert"
    hub.error(None)
    page.locator("#state[data-state=live]").wait_for()
    assert page.locator("#banner").is_hidden()
    hub.finish()
    page.locator("#state[data-state=ended]").wait_for()


def test_a_run_that_has_ended_stays_so_when_its_server_is_gone(browser, dashboard):
    """What `skyband demo --dashboard` does at Ctrl-C: the last word reaches the page, and nothing turns red."""
    hub = dashboard.hub
    fill(hub, "q", "other")
    seen = Seen(browser, dashboard)
    page = seen.page
    page.goto(at(dashboard, "q"))
    until(page, "document.querySelectorAll('#board tbody tr').length === 6")
    page.evaluate(
        """() => {
            const pill = document.querySelector("#state");
            window.states = [];
            new MutationObserver(() => window.states.push(pill.dataset.state)).observe(pill, {attributes: true});
        }"""
    )
    hub.finish()
    dashboard.stop()
    page.locator("#state[data-state=ended]").wait_for()
    with page.expect_event("requestfailed"):  # it has looked for the server, and found none
        pass
    assert page.locator("#state").inner_text() == "Ended"
    assert page.locator("#banner").is_hidden()
    assert not page.evaluate("document.documentElement.classList.contains('stale')")
    assert set(page.evaluate("window.states")) == {"ended"}
    assert labels(page) == NAMES
    fresh = Hub()
    fill(fresh, "q", "other")
    with Dashboard(fresh, port=dashboard.port):  # the next run on the same port
        page.locator("#state[data-state=live]").wait_for()
    seen.close(errors=True)


def test_the_error_of_a_run_stays_when_its_server_is_gone(browser, dashboard):
    hub = dashboard.hub
    fill(hub, "q", "other")
    seen = Seen(browser, dashboard)
    page = seen.page
    page.goto(at(dashboard, "q"))
    until(page, "document.querySelectorAll('#board tbody tr').length === 6")
    hub.error("batch 7 failed")
    dashboard.stop()
    page.locator("#state[data-state=failed]").wait_for()
    with page.expect_event("requestfailed"):
        pass
    assert page.locator("#state").get_attribute("data-state") == "failed"
    assert page.locator("#banner").inner_text() == "batch 7 failed"
    seen.close(errors=True)


def test_text_stays_text(dashboard, seen):
    hub, page = dashboard.hub, seen.page
    for window in range(2):
        hub.answers(HOSTILE, answers(window, [HOSTILE, *NAMES], per=[HOSTILE, "{{7*7}}"]))
    page.goto(dashboard.url)
    page.locator(".board-card tbody tr").first.wait_for()
    assert page.locator(".board-card .name").first.text_content() == HOSTILE
    page.locator(".board-card .name").first.click()
    until(page, "document.querySelectorAll('#board tbody tr').length === 7")
    assert page.locator("#board tbody td.first").first.text_content() == HOSTILE
    assert page.locator("#title").text_content() == HOSTILE
    hub.answers(HOSTILE, answers(2, NAMES, per=[HOSTILE, "{{7*7}}"]))
    until(page, "document.querySelector('#left').textContent.includes('onerror')")
    assert page.evaluate("window.hacked") is None
    assert page.locator("img, main script").count() == 0
    assert (
        page.evaluate(
            "() => { try { document.body.innerHTML = '<b>x</b>'; return 'written' } catch { return 'refused' } }"
        )
        == "refused"
    )
    seen.errors.clear()  # of that last try


def test_the_past_can_be_looked_at(dashboard, seen):
    hub, page = dashboard.hub, seen.page
    for window in range(20):
        for query in ("q", "other"):
            hub.answers(query, answers(window, [f"w{window}", *NAMES]))
    page.goto(at(dashboard, "q"))
    until(page, "document.querySelector('#board tbody td.first')?.textContent === 'w19'")
    page.locator("#slider").focus()
    for _ in range(3):
        page.keyboard.press("ArrowLeft")
    until(page, "document.querySelector('#board tbody td.first').textContent === 'w16'")
    assert "12:08:00" in page.locator("#slider").get_attribute("aria-valuetext")
    hub.answers("q", answers(20, ["w20", *NAMES]))
    until(page, "document.querySelector('#slider').max === '20'")
    assert labels(page)[0] == "w16"  # who looks back is not disturbed
    page.locator("#older").click()
    until(page, "document.querySelector('#board tbody td.first').textContent === 'w15'")
    page.keyboard.press("l")
    until(page, "document.querySelector('#board tbody td.first').textContent === 'w20'")
    assert page.locator("#live").is_disabled()


def test_pause_stops_the_stream(dashboard, seen):
    hub, page = dashboard.hub, seen.page
    fill(hub, "q", "other")
    page.goto(at(dashboard, "q"))
    until(page, "document.querySelectorAll('#board tbody tr').length === 6")
    page.keyboard.press("p")
    page.locator("#state[data-state=paused]").wait_for()
    assert page.locator("#pause").get_attribute("aria-pressed") == "true"
    hub.answers("q", answers(3, NAMES[::-1]))
    page.wait_for_timeout(700)
    assert labels(page) == NAMES
    page.locator("#pause").click()
    until(page, "document.querySelector('#board tbody td.first').textContent === 'fay'")


def test_a_thousand_queries_only_those_on_the_screen(dashboard, seen):
    hub, page = dashboard.hub, seen.page
    for number in range(1000):
        hub.answers(f"query {number:03}", answers(0, NAMES))
    asked = []
    page.on("request", lambda request: asked.append(request.url) if "/api/stream" in request.url else None)
    page.goto(dashboard.url)
    page.locator(".board-card tbody tr").first.wait_for()
    assert page.locator("#count").inner_text() == "1,000 boards"
    cards = page.locator(".board-card:not([hidden])").count()
    assert 8 <= cards <= 24
    assert urllib.parse.unquote(asked[-1]).count("query") == cards
    page.mouse.wheel(0, 1_000_000)
    page.get_by_role("link", name="query 999").wait_for()
    until(page, "[...document.querySelectorAll('.board-card:not([hidden])')].every((card) => card.querySelector('td'))")
    assert page.locator(".board-card:not([hidden])").count() <= 24
    page.keyboard.press("/")
    page.keyboard.type("query 77")
    until(page, "document.querySelector('#count').textContent === '19 boards'")
    page.keyboard.press("Enter")
    until(page, "document.querySelector('#title').textContent === 'query 077'")
    until(page, "document.querySelectorAll('#board tbody tr').length === 6")
    assert urllib.parse.unquote(asked[-1]).count("query") == 1


def test_the_keyboard_is_enough(dashboard, seen):
    hub, page = dashboard.hub, seen.page
    fill(hub, *[f"query {number:02}" for number in range(30)])
    page.goto(dashboard.url)
    page.locator(".board-card tbody tr").first.wait_for()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the boards"
    page.locator("#find").focus()
    page.keyboard.press("ArrowDown")
    active = "document.activeElement.textContent"
    assert page.evaluate(active) == "query 00"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    places = "[...document.querySelectorAll('.board-card:not([hidden])')].map((card) => card.getBoundingClientRect().x)"
    columns = len(set(page.evaluate(places)))
    assert page.evaluate(active) == f"query {1 + columns:02}"
    page.keyboard.press("End")
    assert page.evaluate(active) == "query 29"
    outline = page.evaluate("getComputedStyle(document.activeElement, '::after').outlineStyle")  # as large as the card
    assert outline == "solid"  # one sees where one is
    page.keyboard.press("Enter")
    until(page, "document.querySelector('#title').textContent === 'query 29'")
    until(page, "document.querySelectorAll('#board tbody tr').length === 6")
    page.keyboard.press("[")
    until(page, "document.querySelector('#window').textContent.endsWith('12:00:30')")
    page.keyboard.press("Escape")
    page.locator("#wall").wait_for()
    page.keyboard.press("?")
    assert page.locator("#keys").is_visible()
    page.keyboard.press("Escape")
    assert page.locator("#keys").is_hidden()


def test_a_screen_reader_finds_tables_and_hears_changes(dashboard, seen):
    hub, page = dashboard.hub, seen.page
    fill(hub, "q", "other")
    page.goto(at(dashboard, "q"))
    until(page, "document.querySelectorAll('#board tbody tr').length === 6")
    table = page.get_by_role("table", name="q")
    assert table.get_by_role("columnheader").all_inner_texts()[2:4] == ["who", "score"]
    assert table.get_by_role("rowheader").count() == 6
    assert page.locator("#said").get_attribute("aria-live") == "polite"
    until(page, "document.querySelector('#said').textContent.includes('ann is first')")
    assert page.locator("#board td.move").first.get_attribute("aria-label") == "unchanged"
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll('button, input, a[href]')]
          .filter((e) => e.checkVisibility() && !(e.textContent.trim() || e.ariaLabel || e.labels?.length))
          .map((e) => e.outerHTML)"""
    )
    assert unnamed == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_small_screen_is_enough(browser, dashboard, scheme):
    hub = dashboard.hub
    hub.progress({"rows_per_second": 1000, "batch_seconds": 0.1, "candidates": 4, "late": 2})
    long = "a query with a very long name that does not fit " * 3
    fill(hub, long, "other")
    small = Seen(browser, dashboard, viewport={"width": 360, "height": 740}, color_scheme=scheme)
    for address in (dashboard.url, at(dashboard, long)):
        small.page.goto(address)
        small.page.reload()
        small.page.locator("tbody tr:visible").first.wait_for()
        assert small.page.evaluate("document.documentElement.scrollWidth") <= 360
    assert small.page.locator("#board td.score").first.is_visible()
    box = small.page.locator("#board td.score").first.bounding_box()
    assert box["x"] + box["width"] <= 360  # the score is seen without scrolling
    small.page.locator("#back").click()
    small.page.locator("#wall").wait_for()
    small.close()


def contrast(page, selector):
    """Contrast of a text with what lies behind it, after WCAG."""
    return page.evaluate(
        """(selector) => {
          const node = document.querySelector(selector);
          const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
          const rgb = (...colors) => {
            canvas.clearRect(0, 0, 1, 1);
            for (const color of colors) { canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1); }
            return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
          };
          const behind = [];
          for (let e = node; e; e = e.parentElement) behind.unshift(getComputedStyle(e).backgroundColor);
          const linear = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
          const light = (c) => c.map((v) => linear(v / 255))
            .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
          const [a, b] = [light(rgb(...behind, getComputedStyle(node).color)), light(rgb(...behind))];
          return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        }""",
        selector,
    )


def test_dark_and_light_both_read_well(browser, dashboard):
    hub = dashboard.hub
    hub.progress({"rows_per_second": 1000, "late": 2})
    fill(hub, "q", "other")
    hub.answers("q", answers(3, ["bob", "ann", "zoe"]))
    seen = Seen(browser, dashboard, color_scheme="dark")
    page = seen.page
    page.goto(at(dashboard, "q"))
    page.locator("#board .move.down").wait_for()
    grounds = set()
    for _ in range(2):
        grounds.add(page.evaluate("getComputedStyle(document.documentElement).backgroundColor"))
        for selector in (
            "#asked",
            "#board .up",
            "#board .down",
            "#board .in",
            "#board td.first",
            ".tile .label",
            "thead th",
        ):
            assert contrast(page, selector) >= 4.5, selector
        page.keyboard.press("t")
    page.keyboard.press("t")
    assert len(grounds) == 2
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == "light"  # the choice is kept
    seen.close()


def test_a_token_is_asked_for(browser):
    hub = Hub()
    fill(hub, "q", "other")
    token = "a token of enough length"  # noqa: S105 - of a test
    with Dashboard(hub, port=0, token=token) as dashboard:
        seen = Seen(browser, dashboard)
        page = seen.page
        page.goto(dashboard.url)
        page.locator("#sign[open]").wait_for()
        assert page.locator(".board-card").count() == 0
        page.locator("#token").fill("not it")
        page.keyboard.press("Enter")
        page.get_by_text("The token is wrong.").wait_for()
        page.locator("#token").fill(token)
        page.keyboard.press("Enter")
        page.locator(".board-card tbody tr").first.wait_for()
        assert page.evaluate("document.cookie") == ""
        page.reload()
        page.locator(".board-card tbody tr").first.wait_for()
        seen.close(errors=True)  # the refusals are written to the console


def test_a_hidden_page_asks_for_nothing(dashboard, seen):
    hub, page = dashboard.hub, seen.page
    fill(hub, "q", "other")
    page.goto(dashboard.url)
    page.locator(".board-card tbody tr").first.wait_for()
    page.evaluate(
        """() => {
          Object.defineProperty(document, 'hidden', { get: () => true });
          document.dispatchEvent(new Event('visibilitychange'));
        }"""
    )
    page.locator("#state[data-state=paused]").wait_for()
    stop = threading.Event()
    feeder = threading.Thread(
        target=lambda: [hub.answers("q", answers(w, NAMES)) or stop.wait(0.1) for w in range(3, 40)]
    )
    feeder.start()
    page.wait_for_timeout(3000)
    stop.set()
    feeder.join()
    assert dashboard._stream.clients == 0


def test_the_pictures_of_the_docs_are_small():
    from pathlib import Path

    pictures = list((Path(__file__).resolve().parents[2] / "docs" / "img").glob("dashboard-*.png"))
    assert len(pictures) >= 4
    assert all(picture.stat().st_size < 150_000 for picture in pictures)
    assert all(re.fullmatch(r"dashboard-[a-z]+\.png", picture.name) for picture in pictures)
