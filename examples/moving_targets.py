"""Moving targets: the nearest lifeboats to every ship in the strait.

Boats report where they are, one after the other. Three hundred ships want to know, after every report, which three
boats are nearest. All of them share one grid: a report is shown only to the ships that it may matter to.

    python examples/moving_targets.py
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import skyband as sb

BOATS, ROUNDS, SHIPS, NEAREST = 200, 50, 300, 3


def reports(rng: np.random.Generator) -> pa.Table:
    """Boats that wander over 100 by 100 miles, each reporting once a round."""
    start = rng.uniform(0, 100, (BOATS, 2))
    steps = rng.normal(0, 0.8, (ROUNDS, BOATS, 2))
    place = np.clip(start + np.cumsum(steps, axis=0), 0, 100)
    boat = np.tile([f"boat {number}" for number in range(BOATS)], ROUNDS)
    return pa.table({"boat": boat, "x": place[..., 0].ravel(), "y": place[..., 1].ravel()})


def main() -> None:
    """Print who is near three of the ships, and how often that changed."""
    rng = np.random.default_rng(8)
    source = reports(rng)
    ships = rng.uniform(5, 95, (SHIPS, 2))
    queries = [
        sb.TopK(
            k=NEAREST,
            by=sb.distance(["x", "y"], to=ship),
            window=sb.Counting(BOATS),  # the last report of every boat
            emit="changes",
            name=f"ship {number}",
        )
        for number, ship in enumerate(ships)
    ]
    moves = sb.run(queries, source)

    near: dict[str, dict[tuple[str, float], float]] = {query.name or "": {} for query in queries}
    for row in moves.select(["query", "_change_type", "boat", "x", "score"]).to_pylist():
        report = (row["boat"], row["x"])
        if row["_change_type"] == "insert":
            near[row["query"]][report] = row["score"]
        else:
            del near[row["query"]][report]
    print("Moving targets: the three lifeboats nearest to a ship, in miles\n")
    for name in ("ship 0", "ship 1", "ship 2"):
        boats = sorted((miles, boat) for (boat, _), miles in near[name].items())
        print(f"{name:<8}" + "".join(f"{f'{boat}: {miles:.1f}':>18}" for miles, boat in boats))
    name, far = max(((name, min(found.values())) for name, found in near.items()), key=lambda pair: pair[1])
    print(f"\n{source.num_rows:,} reports changed {SHIPS} lists {moves.num_rows // 2:,} times, out of")
    print(
        f"{source.num_rows * SHIPS:,} chances. {name.capitalize()} is the one to watch: no boat within {far:.1f} miles."
    )


if __name__ == "__main__":
    main()
