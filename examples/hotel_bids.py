"""Hotel bids: who gets a room right now.

Travellers bid for rooms, and a bid stands for half an hour. A hotel with three rooms left cares for its three best
bids alone; it wants to hear at once who came in and who was outbid or ran out of time.

    python examples/hotel_bids.py
"""

from __future__ import annotations

import datetime as dt

import numpy as np

import skyband as sb

ROOMS = 3
HOTELS = ["Alpenrose", "Bellevue", "Seeblick"]
GUESTS = [f"{first}. {last}" for first in "ABCDEFGH" for last in ("Berg", "Costa", "Haas", "Lind", "Okoro", "Rossi")]
END = dt.datetime(2026, 7, 1, 20, 0)  # noqa: DTZ001 - the hotels' own clock


def bids(count: int = 400, seed: int = 8) -> dict[str, np.ndarray]:
    """Four hours of bids; those for the Bellevue rise towards the evening."""
    rng = np.random.default_rng(seed)
    minute = np.sort(rng.uniform(0, 240, count))
    hotel = rng.choice(HOTELS, count)
    price = 90 + rng.gamma(2, 20, count) + np.where(hotel == "Bellevue", minute / 4, 0)
    return {
        "ts": np.datetime64("2026-07-01T16:00", "s") + (minute * 60).astype(int),
        "hotel": hotel,
        "guest": rng.choice(GUESTS, count),
        "euro": price.round(),
    }


QUERY = sb.TopK(k=ROOMS, by="euro", window=sb.Sliding("30 minutes", "1 minute"), time="ts", per="hotel", emit="changes")


def main() -> None:
    """Follow the changes; what was inserted and not deleted holds a room."""
    rooms: dict[str, list[tuple[float, str]]] = {hotel: [] for hotel in HOTELS}
    outbid = expired = 0
    for row in sb.run(QUERY, bids()).to_pylist():
        if row["window_end"] > END:
            break
        holders, bid = rooms[row["hotel"]], (row["euro"], row["guest"])
        if row["_change_type"] == "insert":
            holders.append(bid)
        else:
            holders.remove(bid)
            old = row["window_end"] - row["ts"] > dt.timedelta(minutes=30)
            expired, outbid = expired + old, outbid + (not old)

    print("Hotel bids at 20:00: who holds a room\n")
    print(f"{'hotel':<12}{'1st':>16}{'2nd':>16}{'3rd':>16}")
    for hotel, holders in rooms.items():
        cells = (f"{guest} {euro:.0f}" for euro, guest in sorted(holders, reverse=True))
        print(f"{hotel:<12}" + "".join(f"{cell:>16}" for cell in cells))
    print(f"\nSince 16:00, {outbid} bids were outbid and {expired} ran out of time while they held a room.")
    dear = max(HOTELS, key=lambda hotel: min(rooms[hotel]))
    print(f"To get into the {dear} you must now bid more than {min(rooms[dear])[0]:.0f} euro.")


if __name__ == "__main__":
    main()
