"""DDoS: which addresses send us most right now, and whose are they.

Routers report flows: source, bytes. The talkers are ranked by what they sent in the last minute, every ten seconds.
A registry says whose an address is, so that our own backup and the content network, which always send most, do not
hide an attack. The registry is asked before each answer, for a bounded number of addresses; what it said is kept.

    python examples/ddos_talkers.py
"""

from __future__ import annotations

import numpy as np

import skyband as sb
from skyband.tables import Memory

KNOWN = {"10.0.0.5": "our backup", "192.0.2.80": "content network"}
BOTS = [f"203.0.113.{i}" for i in range(1, 41)]
OTHERS = [f"198.51.100.{i}" for i in range(1, 251)]


def flows(seed: int = 2) -> dict[str, np.ndarray]:
    """Ten minutes of flows; after 300 seconds forty bots join in."""
    rng = np.random.default_rng(seed)

    def some(sources: list[str], count: int, size: float, since: int = 0) -> list[np.ndarray]:
        return [rng.integers(since, 600, count), rng.choice(sources, count), rng.gamma(2, size, count).astype(int)]

    parts = [some(OTHERS, 30_000, 4_000), some(list(KNOWN), 2_000, 400_000), some(BOTS, 20_000, 20_000, since=300)]
    second, source, size = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(second, kind="stable")
    return {"second": second[order], "source": source[order], "size": size[order]}


REGISTRY = Memory(
    {
        "source": [*KNOWN, *BOTS, *OTHERS],
        "owner": [*KNOWN.values(), *["unknown"] * len(BOTS), *["customer"] * len(OTHERS)],
        "trusted": [1] * len(KNOWN) + [0] * (len(BOTS) + len(OTHERS)),
    },
    key="source",
)
QUERY = sb.TopK(
    k=5,
    by="sent * (1 - trusted)",
    window=sb.Sliding("1 minute", "10 seconds"),
    time="second",
    unit="s",
    join=sb.Join(
        REGISTRY,
        on="source",
        columns=["owner", "trusted"],
        aggregates={"sent": "sum(size)"},
        refresh=sb.Refresh(budget=300),
    ),
)


def main() -> None:
    """Print the lists before and in the attack, and when it was first seen."""
    answers = sb.run(QUERY, flows()).to_pylist()
    for moment, title in ((300, "before"), (360, "one minute into the attack")):
        print(f"Top talkers at {moment} s, {title}\n\n{'rank':>4}  {'source':<16}{'owner':<12}{'MB/min':>8}")
        for row in (row for row in answers if row["window_end"] == moment):
            print(f"{row['rank']:>4}  {row['source']:<16}{row['owner']:<12}{row['score'] / 1e6:>8.1f}")
        print()
    lists: dict[int, set[str]] = {}
    for row in answers:
        lists.setdefault(row["window_end"], set()).add(row["owner"])
    seen = min(end for end, owners in lists.items() if owners == {"unknown"})
    print(f"It began at 300 s. At {seen} s all five talkers are strangers: time to drop their traffic.")


if __name__ == "__main__":
    main()
