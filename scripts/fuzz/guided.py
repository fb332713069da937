"""Texts, files and expressions once more, led by what they reach in the code: atheris on the checks of `texts`.

    uv run --with atheris python -m scripts.fuzz.guided --seconds 300

Inputs that reach something new are kept and damaged further. The first that is wrong ends its target, is printed and
left in the folder that `--found` names; `--only FILE --target texts` runs it again.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

TARGETS = ("texts", "files", "expressions")
LED = ["skyband.lang", "skyband.query", "skyband.errors", "skyband.runtime.score", "yaml", "lark", "sqlglot"]
LONGEST = 2_000  # bytes of an input
_DONE = re.compile(r"^Done (\d+) runs|^#(\d+)\s", re.MULTILINE)


def main() -> int:
    """Run each target in a process of its own, for atheris ends the one it runs in; 0 if nothing was found."""
    asked = _arguments()
    if asked.child:
        return _led(asked)
    if asked.only:
        _checks(asked.target)[1](Path(asked.only).read_bytes().decode(errors="replace"))
        return 0
    names, found = [asked.target] if asked.target else TARGETS, 0
    for name in names:
        more = ["--child", "--target", name, "--seconds", str(asked.seconds / len(names)), "--seed", str(asked.seed)]
        command = [sys.executable, "-W", "ignore", "-m", "scripts.fuzz.guided", *more, "--found", asked.found]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        counts = [int(a or b) for a, b in _DONE.findall(done.stderr)]
        print(
            f"{name:12s} {max(counts, default=0):8d} inputs, {'1 wrong' if done.returncode else '0 wrong'}", flush=True
        )
        if done.returncode:
            found += 1
            print((done.stdout + done.stderr)[-3000:], flush=True)
    return 1 if found else 0


def _checks(name: str) -> tuple[list[str], Any]:
    """What a target begins with, and what must be true of it."""
    from scripts.fuzz import texts

    return {
        "texts": ([*texts.SQL, *texts.RSPQL, *texts.YAML[2:]], texts.check_query_text),
        "files": (texts.YAML[:2], lambda text: texts.check_pipeline_file(text + "\n")),
        "expressions": (texts.EXPRESSIONS, texts.check_expression),
    }[name]


def _led(asked: argparse.Namespace) -> int:
    import atheris

    with atheris.instrument_imports(include=LED, enable_loader_override=False):
        seeds, check = _checks(asked.target)
    Path(asked.found).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="skyband-fuzz-") as root:
        folder, words = Path(root, "inputs"), Path(root, "words")
        folder.mkdir()
        for number, text in enumerate(seeds):
            (folder / str(number)).write_text(text, encoding="utf-8")
        words.write_text(_dictionary(), encoding="ascii")
        limits = [f"-max_total_time={int(asked.seconds)}", f"-max_len={LONGEST}", "-timeout=30", "-rss_limit_mb=4000"]
        places = [f"-dict={words}", f"-artifact_prefix={asked.found}/{asked.target}-", f"-seed={asked.seed}"]
        atheris.Setup([sys.argv[0], *limits, *places, str(folder)], lambda data: check(data.decode(errors="replace")))
        atheris.Fuzz()
    return 0


def _dictionary() -> str:
    """Words that hurt, as libFuzzer writes them."""
    from scripts.fuzz.mutate import HURTFUL

    hurt = [word.encode() for word in HURTFUL if 0 < len(word.encode()) < 60]
    return "".join('"' + "".join(map("\\x{:02x}".format, word)) + '"\n' for word in hurt)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m scripts.fuzz.guided", description="Input led by coverage.")
    parser.add_argument("--seconds", type=float, default=300, help="for all targets together")
    parser.add_argument("--target", choices=TARGETS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--found", default=str(Path(tempfile.gettempdir(), "skyband-fuzz-found")))
    parser.add_argument("--only", help="a file with an input to run again")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
