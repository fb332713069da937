"""Take the pictures of the dashboard for the documentation: the demo as it is, in a real browser.

`python scripts/docs_dashboard.py` writes docs/img/dashboard-*.png, in two minutes, or those that are named; Java and
Chromium must be there.
"""

from __future__ import annotations

import io
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from PIL import Image

from skyband_lab.bench.dashboard import chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser

HERE = Path(__file__).resolve().parent.parent / "docs" / "img"


class Picture(NamedTuple):
    """What is to be seen of a demo."""

    name: str
    width: int
    height: int
    scheme: str


DEMOS = {
    ("--in-process",): (30, [Picture("wall", 1280, 800, "light")]),
    (): (
        45,
        [Picture("board", 1280, 800, "light"), Picture("dark", 1280, 800, "dark"), Picture("phone", 360, 740, "dark")],
    ),
}
"""How the demo is started, after how many seconds it has something to show, and its pictures."""

STILL = """document.getAnimations().length === 0
  && [...document.querySelectorAll("td.move:is(.in, .up, .down)")].filter((c) => c.checkVisibility()).length > 1"""
"""Somebody has moved, and all have arrived."""


@contextmanager
def demo(*flags: str) -> Iterator[str]:
    """The demo, running; where its dashboard is."""
    command = [sys.executable, "-m", "skyband", "demo", "--dashboard", "--port", "0", *flags]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert running.stdout is not None
    try:
        yield next(found[0] for line in running.stdout if (found := re.search(r"http://[\d.:]+", line)))
    finally:
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=60)


def taken(browser: Browser, url: str, picture: Picture) -> bytes:
    """A picture, as soon as there are rows to see."""
    size = {"width": picture.width, "height": picture.height}
    page = browser.new_page(viewport=size, color_scheme=picture.scheme)  # type: ignore[arg-type]
    page.goto(url)
    page.wait_for_selector("tbody tr:visible")
    page.wait_for_timeout(3_000)
    until = time.monotonic() + 30
    while not page.evaluate(STILL) and time.monotonic() < until:
        time.sleep(0.02)
    shot = page.screenshot(animations="disabled")
    page.close()
    return shot


def main() -> None:
    """Write the pictures."""
    with chromium() as browser:
        for flags, (seconds, every) in DEMOS.items():
            pictures = [picture for picture in every if picture.name in (sys.argv[1:] or picture)]
            if not pictures:
                continue
            with demo(*flags) as url:
                waiting = browser.new_page()
                waiting.goto(url)
                waiting.wait_for_selector("tbody tr:visible", timeout=120_000)
                waiting.wait_for_timeout(1_000 * seconds)
                waiting.close()
                for picture in pictures:
                    whole = Image.open(io.BytesIO(taken(browser, url, picture))).convert("RGB")
                    small = whole.quantize(256, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
                    path = HERE / f"dashboard-{picture.name}.png"
                    small.save(path, optimize=True)
                    print(f"{path.name}: {path.stat().st_size // 1024} KB")


if __name__ == "__main__":
    main()
