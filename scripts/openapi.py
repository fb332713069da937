"""The dashboard's JSON API against its own OpenAPI document, by schemathesis.

    uv run --with schemathesis python -m scripts.openapi --examples 200

A real server answers some thousand requests: no 5xx, only statuses, types and shapes that the document names, and
methods that it does not name are refused as RFC 9110 says. With a token it is asked again, and the sign-in too.
`/api/stream` never ends and is left to `scripts.fuzz`.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

import skyband as sb
from skyband.dashboard import Dashboard, Hub

TOKEN = "a token for this run alone"  # noqa: S105 - it opens nothing
KNOWN = """[parameters]
"path.query" = "trades"
"query.group" = ["a"]
"""


def hub() -> Hub:
    """Boards with something on them."""
    found = Hub()
    query = sb.TopK(k=2, by="x", window=sb.Tumbling("1 minute"), time="ts", per=["g"])
    found.describe("trades", query)
    rows = pa.table({"ts": np.array([0, 61, 122], "datetime64[s]"), "x": [1.0, 2.0, 3.0], "g": ["a", "b", "a"]})
    found.answers("trades", sb.run(query, rows, progress=False))
    return found


def asked(address: str, examples: int, seed: int, *more: str, config: str | None = None) -> int:
    """Run schemathesis; 0 if it found nothing."""
    there = shutil.which("schemathesis", path=str(Path(sys.executable).parent)) or shutil.which("schemathesis")
    if there is None:
        print("schemathesis is not installed: uv run --with schemathesis python -m scripts.openapi", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        command = [there]
        if config is not None:
            Path(folder, "known.toml").write_text(config)
            command += ["--config-file", str(Path(folder, "known.toml"))]
        command += ["run", f"{address}/api/openapi.json", "--exclude-path", "/api/stream", "--request-timeout", "20"]
        command += ["--max-examples", str(examples), "--seed", str(seed), "--phases", "examples,coverage,fuzzing"]
        command += ["--continue-on-failure", "--warnings", "off", "--generation-database", "none", *more]
        return subprocess.run(command, cwd=folder, check=False).returncode


def main() -> int:
    """Anything, then what is there, then with a token."""
    parser = argparse.ArgumentParser(prog="python -m scripts.openapi")
    parser.add_argument("--examples", type=int, default=100, help="for each operation and run")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--brief", action="store_true", help="only with a token, which asks for everything once")
    given = parser.parse_args()
    if given.brief:
        return guarded(given)
    found = []
    with Dashboard(hub(), port=0) as board:
        address = f"http://127.0.0.1:{board.port}"
        found.append(asked(address, given.examples, given.seed))
        found.append(asked(address, given.examples, given.seed, config=KNOWN))
    return max(*found, guarded(given))


def guarded(given: argparse.Namespace) -> int:
    """With a token; guessing one is slow, so the sign-in is asked less."""
    with Dashboard(hub(), port=0, token=TOKEN) as board:
        address = f"http://127.0.0.1:{board.port}"
        login = ["--header", f"Authorization: Bearer {TOKEN}", "--exclude-checks", "ignored_auth"]
        return asked(address, max(given.examples // 10, 5), given.seed, *login)


if __name__ == "__main__":
    sys.exit(main())
