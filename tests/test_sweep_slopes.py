"""The sweep where scores rise or fall: rows go to the front of the band one by one, or to its end."""

import numpy as np
import pytest

import skyband as sb

CLIMBS = ("always", "with ties", "a little up and down", "and fall at times", "and fall within a slide", "some")


def climbing(kind, number, rng):
    match kind:
        case "always":
            return number
        case "with ties":
            return number // 3
        case "a little up and down":
            return number + rng.integers(0, 9, len(number))
        case "and fall at times":
            return number % 700
        case "and fall within a slide":
            return 100 * (number // 10) - number % 10
        case _:
            return np.where(rng.random(len(number)) < 0.6, number, rng.permutation(number))


@pytest.mark.parametrize("sign", [1, -1], ids=["up", "down"])
@pytest.mark.parametrize("kind", CLIMBS)
@pytest.mark.parametrize(("k", "size", "slide"), [(30, 300, 10), (200, 1000, 7), (12, 500, 50), (100, 100, 20)])
def test_slopes_make_no_difference(sign, kind, k, size, slide):
    rng = np.random.default_rng(k)
    number = np.arange(2_000)
    score = sign * climbing(kind, number, rng).astype(float)
    rows = {"x": np.where(rng.random(len(score)) < 0.01, np.nan, score), "n": number}
    query = sb.TopK(k=k, by="x", window=sb.Counting(size, slide), id="n")
    want = sb.run(query, rows, engine="mintopk")
    assert sb.run(query, rows, engine="sweep").equals(want)
    for length in (431, 47):
        starts = range(0, len(score), length)
        batches = ({name: column[low : low + length] for name, column in rows.items()} for low in starts)
        assert sb.run(query, batches, engine="sweep").to_pylist() == want.to_pylist()
