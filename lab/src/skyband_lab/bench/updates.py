"""Streams of updates to a base table: the three cases of the view paper's section 5, seeded.

Each is a generator of batches (ids, new values), begun by the table's first values. A batch holds each id at most as
often as the case updates it, in order.

References
----------
Yi et al., ICDE 2003, section 5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

Batches = Iterator[tuple[np.ndarray, np.ndarray]]


def sales(rows: int, seed: int = 0, batch: int = 10_000, returned: float = 0.02) -> tuple[np.ndarray, Batches]:
    """Case 1: totals of all time. Each update sells a few copies of a book; some are returned.

    Popular books sell more, by a Zipf law.
    """
    rng = np.random.default_rng(seed)
    weight = 1 / np.arange(1, rows + 1) ** 0.8
    share = np.cumsum(weight / weight.sum())
    value = rng.poisson(1000 * weight * rows / weight.sum()).astype(float)

    def updates() -> Batches:
        while True:
            ids = np.minimum(np.searchsorted(share, rng.random(batch)), rows - 1)
            copies = rng.integers(1, 4, batch) * np.where(rng.random(batch) < returned, -1, 1)
            yield ids, _running(value, ids, copies.astype(float))

    return value.copy(), updates()


def ups_and_downs(rows: int, seed: int = 0, batch: int = 10_000) -> tuple[np.ndarray, Batches]:
    """Case 2: a row chosen at random goes up or down, by a normal law."""
    rng = np.random.default_rng(seed)
    value = rng.normal(scale=100.0, size=rows)

    def updates() -> Batches:
        while True:
            ids = rng.integers(0, rows, batch)
            yield ids, _running(value, ids, rng.normal(scale=10.0, size=batch))

    return value.copy(), updates()


def moving_window(
    rows: int, seed: int = 0, width: int = 10, mean: float | np.ndarray = 50.0
) -> tuple[np.ndarray, Batches]:
    """Case 3: totals over the last `width` steps; each step updates every row once, in random order."""
    rng = np.random.default_rng(seed)
    past = rng.poisson(mean, (width, rows)).astype(np.int32)
    value = past.sum(axis=0).astype(float)

    def updates() -> Batches:
        step = 0
        while True:
            new = rng.poisson(mean, rows)
            value[:] += new - past[step % width]
            past[step % width] = new
            step += 1
            ids = rng.permutation(rows)
            yield ids, value[ids]

    return value.copy(), updates()


def zipf_means(rows: int, mean: float = 50.0) -> np.ndarray:
    """Means that fall by Zipf's law, `mean` on average."""
    weight = 1 / np.arange(1, rows + 1)
    return weight * mean * rows / weight.sum()


def _running(value: np.ndarray, ids: np.ndarray, change: np.ndarray) -> np.ndarray:
    """The value after each change; `value` is brought up to date."""
    from skyband.kernels.walk import running

    return running(value, ids, change)


WORKLOADS: dict[str, Callable[..., tuple[np.ndarray, Batches]]] = {
    "sales": sales,
    "ups and downs": ups_and_downs,
    "moving window": moving_window,
}
