"""Damage done to texts and bytes: cut, doubled, swapped, spliced, and words that hurt."""

from __future__ import annotations

import random
import re

HURTFUL = (
    "", "\0", "'", '"', "`", "''", "--", "/*", "*/", ";", "\\", "${HOME}", "${", "}", "$$", "{{", "%s", "%n", "\ufeff",
    "\u202e", "\ud7ff", "é", "NaN", "Infinity", "-1", "0", "1e309", "9" * 40, "1e-400", "0x1p-3", ".", "..", "../..",
    ":",
    "null", "~", "true", "!!python/object/apply:os.system ['true']", "&a [*a]", "*a", "<<: *a", "<http://e.org/x>",
    "SELECT", "FROM", "read_csv('/etc/passwd')", "reflect('java.lang.System', 'exit', 1)", "pg_sleep(10)", "(" * 60,
    "[" * 60, ")" * 60, "- " * 60, "NOT " * 60, "1+" * 200, "CASE WHEN ", "OVER (", "INTERVAL", "?x", "^^xsd:float",
    "@prefix", "10 years", "1 microsecond", "-5 minutes", "1e9 days", "\t", "\r\n", "\n\n",
)  # fmt: skip
_WORDS = re.compile(r"\w+|\s+|[^\w\s]")


def text(rng: random.Random, seeds: list[str]) -> str:
    """A seed with a few damages, mostly at the borders of words."""
    words = _WORDS.findall(rng.choice(seeds))
    for _ in range(rng.choice([1, 1, 2, 3, 6])):
        at = rng.randrange(len(words) + 1)
        to = min(len(words), at + rng.choice([1, 1, 2, 5, 20]))
        kind = rng.randrange(7)
        if kind == 0:
            del words[at:to]
        elif kind == 1:
            words[at:at] = words[at:to]
        elif kind == 2:
            words[at:to] = [rng.choice(HURTFUL)]
        elif kind == 3:
            words[at:at] = [rng.choice(HURTFUL)]
        elif kind == 4:
            other = _WORDS.findall(rng.choice(seeds))
            begin = rng.randrange(len(other) + 1)
            words[at:to] = other[begin : begin + rng.choice([1, 3, 10])]
        elif kind == 5 and words:
            words[at:to] = [words[rng.randrange(len(words))]]
        else:
            words[at:to] = [chr(rng.choice([rng.randrange(32, 127), rng.randrange(0xD7FF)])) for _ in range(3)]
    return "".join(words)


def blob(rng: random.Random, seed: bytes) -> bytes:
    """Bytes with a few damages."""
    found = bytearray(seed)
    for _ in range(rng.choice([1, 1, 2, 8])):
        if not found:
            return bytes(rng.randbytes(rng.randrange(64)))
        at = rng.randrange(len(found))
        size = rng.choice([1, 1, 4, 8, 64])
        kind = rng.randrange(6)
        if kind == 0:
            found[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            found[at : at + size] = rng.randbytes(size)
        elif kind == 2:
            del found[at : at + size]
        elif kind == 3:
            del found[at:]
        elif kind == 4:
            found[at:at] = found[at : at + size]
        else:
            found[at : at + size] = rng.choice([b"\0", b"\xff", b"\x7f"]) * size
    return bytes(found)
