"""Air pollution: at most the worst readings, as they come, and only from where I live.

Volunteers measure fine dust with their phones. Anna wants to hear of the worst in her part of town, but not all the
time: a reading is worth a message only when it is among the three worst of the last six hours. The list is kept after
every single reading, and each goes out once, when it first makes the list: mostly at once, else when worse ones have
run out.

    python examples/air_pollution.py
"""

from __future__ import annotations

import numpy as np

import skyband as sb

HOME, RADIUS = (3.0, 4.0), 2.0  # in kilometres


def readings(count: int = 50_000, seed: int = 11) -> dict[str, np.ndarray]:
    """One day in town: dust rises with the traffic at 8 and 17 o'clock, and near a fire at 14:30."""
    rng = np.random.default_rng(seed)
    hour = np.sort(rng.uniform(0, 24, count))
    x, y = rng.uniform(0, 10, (2, count))
    traffic = 30 * np.exp(-((hour - 8) ** 2) / 2) + 25 * np.exp(-((hour - 17) ** 2) / 3)
    fire = 80 * ((hour > 14.5) & (hour < 15.2) & (np.hypot(x - 3.5, y - 4.5) < 0.8))
    return {
        "ts": np.datetime64("2026-11-02", "s") + (hour * 3600).astype(int),
        "x": x.round(2),
        "y": y.round(2),
        "dust": (rng.gamma(6, 2, count) + traffic + fire).round(1),
    }


# outside the area the score is NULL, and what has no score is never ranked
NEAR = f"power(x - {HOME[0]}, 2) + power(y - {HOME[1]}, 2) <= {RADIUS**2}"
QUERY = sb.TopK(
    k=3, by=f"CASE WHEN {NEAR} THEN dust END", window=sb.Sliding("6 hours", "row"), time="ts", emit="arrivals"
)


def main() -> None:
    """Print the messages of the afternoon."""
    messages, counts = sb.run(QUERY, readings(), stats=True)
    sent = [row for row in messages.to_pylist() if row["dust"] > 60]
    print("Air pollution within 2 km of home: readings above 60 that made the three worst of six hours\n")
    print(f"{'read at':<10}{'sent at':<10}{'dust':>6}   where")
    for row in sent:
        times = f"{row['ts']:%H:%M:%S}  {row['window_end']:%H:%M:%S}"
        print(f"{times}  {row['dust']:>6.1f}   {row['x']:.1f}, {row['y']:.1f}")
    fire = [row for row in sent if row["dust"] > 90]
    print(
        f"\n{counts.rows:,} readings, {counts.rows - counts.without_score:,} of them near home, {len(sent)} messages."
    )
    print(f"The fire that broke out at 14:30 was reported at {fire[0]['ts']:%H:%M:%S}: close the windows.")


if __name__ == "__main__":
    main()
