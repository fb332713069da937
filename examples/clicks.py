"""Clicks: what is hot in the last 10 minutes, against the last 3 hours.

An editor wants two lists over one stream: the best minutes of stories in the last ten minutes, and in the last three
hours. What stands in both is breaking right now; what stands only in the long list has had its time. The two queries
make a workload: they share one structure, and each answers exactly as it would alone.

    python examples/clicks.py
"""

from __future__ import annotations

import datetime as dt

import numpy as np

import skyband as sb

STORIES = ["election", "eclipse", "transfer", "recipe", "storm", "museum", "strike", "launch"]


def clicks(seed: int = 6) -> dict[str, np.ndarray]:
    """Four hours, one row a story and minute. The election peaks at 10:30, the storm breaks at 11:50."""
    rng = np.random.default_rng(seed)
    minute = np.repeat(np.arange(240), len(STORIES))
    story = np.tile(STORIES, 240)
    mean = 200 + 1800 * (story == "election") * np.exp(-((minute - 150) ** 2) / 800)
    mean = mean + 2600 * ((story == "storm") & (minute >= 230)) * (1 - np.exp(-(minute - 229) / 4).clip(max=1))
    return {
        "ts": np.datetime64("2026-05-03T08:00", "s") + minute * 60,
        "story": story,
        "clicks": rng.poisson(mean),
    }


def best(name: str, size: str) -> sb.TopK:
    """The five best minutes within `size`, every minute."""
    return sb.TopK(k=5, by="clicks", window=sb.Sliding(size, "1 minute"), time="ts", name=name)


def main() -> None:
    """Print both lists at three moments."""
    queries = [best("10 minutes", "10 minutes"), best("3 hours", "3 hours")]
    answers = sb.run(queries, clicks()).to_pylist()
    print("Clicks: the best minutes of the last 10 minutes and of the last 3 hours\n")
    for moment in ("10:30", "11:40", "12:00"):
        lists: dict[str, list[tuple[dt.datetime, str, int]]] = {"10 minutes": [], "3 hours": []}
        for row in answers:
            if f"{row['window_end']:%H:%M}" == moment:
                lists[row["query"]].append((row["ts"], row["story"], row["clicks"]))
        print(f"{moment}  {'last 10 minutes':<25}last 3 hours")
        for now, long in zip(*lists.values(), strict=True):
            cells = (f"{story:<10}{ts:%H:%M} {count:>6,}" for ts, story, count in (now, long))
            print("       " + "    ".join(cells))
        both = {story for _, story, _ in set(lists["10 minutes"]) & set(lists["3 hours"])}
        print(f"       breaking: {', '.join(sorted(both)) or 'nothing, the last hours were better'}\n")
    print(sb.explain(queries))


if __name__ == "__main__":
    main()
