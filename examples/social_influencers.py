"""Social influencers: who is mentioned, and followed by many.

Mentions stream in; how many followers a user has is known by a service alone, which changes by the minute and does not
like to be asked too often. The join keeps a replica, asks for ten users before each list, those that the list is most
likely to be wrong without, and tells how fresh every value is. An evening of Twitter where the AcquaTop data is at
hand (SKYBAND_DATA names its folder), else a made-up one; the service is a real one, on this machine, over HTTP.

    python examples/social_influencers.py
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import uvicorn
from fastapi import FastAPI

import skyband as sb
from skyband.tables import Http

MINUTES, MINUTE, BUDGET = 30, 60_000, 10


def evening(seed: int = 9) -> tuple[pa.Table, pa.Table]:
    """Mentions (ts_ms, user_id), and follower counts over time (ts_ms, user_id, follower_count)."""
    folder = Path(os.environ.get("SKYBAND_DATA", ""), "acquatop")
    if folder.is_dir():
        mentions, followers = (pq.read_table(folder / f"{name}.parquet") for name in ("mentions", "followers"))
        return mentions.select(["ts_ms", "user_id"]), followers.select(["ts_ms", "user_id", "follower_count"])
    rng = np.random.default_rng(seed)
    names = rng.permutation(np.arange(10_000, 10_200))
    user = names[np.minimum(rng.zipf(1.4, 3000), 200) - 1]
    mentions = pa.table({"ts_ms": np.sort(rng.integers(0, MINUTES * MINUTE, 3000)), "user_id": user})
    minute, who = (column.ravel() for column in np.mgrid[0:MINUTES, 0:200])
    count = rng.lognormal(8, 1, 200)[who] * (1 + 0.01 * minute * rng.random(200)[who])
    return mentions, pa.table({"ts_ms": minute * MINUTE, "user_id": names[who], "follower_count": count.astype(int)})


class Followers:
    """The service: GET /users?ids=1,2,3 tells the follower counts as they are now."""

    def __init__(self, history: pa.Table) -> None:
        self.history, self.row, self.calls = history, 0, 0
        self.counts: dict[int, int] = {}
        self.app = FastAPI()
        self.app.get("/users")(self.users)

    def users(self, ids: str) -> list[dict[str, int]]:
        """What is asked for, as far as it is known."""
        self.calls += 1
        known = (int(user) for user in ids.split(",") if int(user) in self.counts)
        return [{"user_id": user, "follower_count": self.counts[user]} for user in known]

    def until(self, now: int) -> None:
        """Let time go on."""
        times = self.history["ts_ms"].to_numpy()
        end = int(np.searchsorted(times, now, side="right"))
        part = self.history.slice(self.row, end - self.row)
        self.counts |= dict(zip(part["user_id"].to_pylist(), part["follower_count"].to_pylist(), strict=True))
        self.row = end

    @contextlib.contextmanager
    def running(self) -> Iterator[str]:
        """The address at which it listens."""
        with socket.socket() as listening:
            listening.bind(("127.0.0.1", 0))
            server = uvicorn.Server(uvicorn.Config(self.app, log_level="critical", lifespan="off"))
            thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
            thread.start()
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/users"
            server.should_exit = True
            thread.join()


def main() -> None:
    """Print who leads every tenth minute."""
    mentions, history = evening()
    service = Followers(history)
    start = mentions["ts_ms"][0].as_py()
    times, users = mentions["ts_ms"].to_numpy() - start, mentions["user_id"].to_numpy()
    ends = [minute * MINUTE for minute in range(1, MINUTES + 1)]

    def live() -> Iterator[pa.Table]:
        """The mentions of each minute, while the service lives through it too."""
        for end in ends:
            service.until(start + end)
            low, high = np.searchsorted(times, [end - MINUTE, end])
            yield mentions.slice(low, high - low)

    with service.running() as url:
        join = sb.Join(
            Http(url, key="user_id"),
            on="user_id",
            columns=["follower_count"],
            aggregates={"mentions": "count(*)"},
            refresh=sb.Refresh(budget=BUDGET, deadline="30 seconds"),
        )
        query = sb.TopK(
            k=3,
            by="mentions * ln(1 + follower_count)",
            window=sb.Sliding("10 minutes", "1 minute"),
            time="ts_ms",
            unit="ms",
            join=join,
        )
        answers = sb.stream(query, live())
        print("Social influencers: mentions in the last ten minutes, weighed by the followers\n")
        print(f"{'minute':>6}{'rank':>6}  {'user':<12}{'mentions':>8}{'followers':>12}  asked")
        for row in (row for table in answers for row in table.to_pylist()):
            minute = (row["window_end"] - start) // MINUTE
            if minute % 10 == 9 and minute < MINUTES:
                asked = f"{row['staleness'] / 60:.0f} min ago" if row["staleness"] >= 60 else "just now"
                where = f"{minute + 1:>6}{row['rank']:>6}  {row['user_id']:<12}"
                print(f"{where}{row['mentions']:>8}{row['follower_count']:>12,}  {asked}")
    everyone = sum(len(set(users[(times > end - 10 * MINUTE) & (times <= end)])) for end in ends)
    print(f"\n{answers.stats.made} values in {service.calls} calls were enough to answer on time;")
    print(f"to ask for everyone mentioned, before each of the {len(ends)} lists, would have taken {everyone:,}.")


if __name__ == "__main__":
    main()
