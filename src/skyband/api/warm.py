"""Kernels compiled ahead: what a long stream would otherwise wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROWS, _BATCHES = 2_000, 6  # enough for windows to close, for rows to come late, and for lists to be merged


def warm() -> None:
    """Compile the kernels of ordinary queries now, and run compiled from here on.

    Short runs need no compiled kernels; a long one compiles them once it has seen 50,000 rows, which takes some 20
    seconds the first time after an installation. Call this, or run `skyband warm`, where nobody waits: when an image is
    built or a service starts. What is compiled is kept on disk for later processes.

    Examples
    --------
    >>> import skyband as sb
    >>> sb.warm()
    """
    from skyband.api import stream
    from skyband.kernels._jit import silence_notice, tier

    silence_notice()
    tier.compile()
    for query in _queries():
        for _ in stream(query, _batches(), late="1 second"):
            pass


def _queries() -> list[Any]:
    from skyband.engines.registry import FEW_POINT_QUERIES
    from skyband.query import Counting, Sliding, TopK, distance

    timed = {"time": "t", "unit": "ms"}
    minute = Sliding("1 minute", "10 seconds")
    one: dict[str, Any] = {"k": 3, "by": "x", "window": minute, **timed}
    near: Any = [
        TopK(k=3, by=distance(["x", "y"], to=[float(n), 0.0]), window=Counting(200), emit="changes", name=f"n{n}")
        for n in range(FEW_POINT_QUERIES + 1)  # so many share a grid
    ]
    return [
        TopK(**one),
        TopK(**one, id="n"),
        TopK(**one, per="g", emit="changes"),
        TopK(**one, emit="arrivals"),
        TopK(**{**one, "window": Sliding("1 minute", "row")}, emit="changes"),
        TopK(k=3, by="x", window=Counting(500, 10), per="g"),
        TopK(**{**one, "by": "sum(x)"}, of="g"),
        TopK(k=3, of="g", by="sum(x)"),
        [TopK(**one), TopK(**{**one, "k": 5})],
        near,
    ]


def _batches() -> Iterator[Any]:
    import numpy as np
    import pyarrow as pa

    rng = np.random.default_rng(1)
    for number in range(_BATCHES):
        time = 20_000 * number + np.sort(rng.integers(-500, 20_000, _ROWS))
        group = np.array(["a", "b", "c"])[rng.integers(0, 3, _ROWS)]
        x, y = rng.random((2, _ROWS))
        yield pa.table({"t": time, "x": x, "y": y, "g": group, "n": np.arange(_ROWS) + number * _ROWS})
