"""What the examples print, for docs/examples.md: the made-up streams, so that it is the same everywhere.

Run this after a change of an example; a test says when it was forgotten.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "examples.md"
PLACE = re.compile(r"(<!-- output: (\w+) -->\n```text\n)(.*?)(```)", re.DOTALL)


def shown(page: str) -> dict[str, str]:
    """What the page says that each example prints."""
    return {found[2]: found[3].split("\n", 1)[-1] for found in PLACE.finditer(page)}


def printed(name: str) -> str:
    """What it prints."""
    with tempfile.TemporaryDirectory() as empty:
        program = [sys.executable, str(ROOT / "examples" / f"{name}.py")]
        without = {**os.environ, "SKYBAND_DATA": empty}
        return subprocess.run(program, check=True, capture_output=True, text=True, env=without).stdout


def filled(found: re.Match[str]) -> str:
    """A place of the page with what its example prints, and the command before it."""
    return f"{found[1]}$ python examples/{found[2]}.py\n{printed(found[2])}{found[4]}"


if __name__ == "__main__":
    PAGE.write_text(PLACE.sub(filled, PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")
