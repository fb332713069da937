"""Functions of processors with AVX-512 against their plain loops, and kernels without any private part of Numba."""

import subprocess
import sys

import numpy as np
import pytest
from numba import njit

from skyband.kernels import _vector, simd

COLUMNS = {
    "float64": np.array([0.0, -0.0, 1.0, 2.0, 2.0, np.nan, np.inf, -np.inf]),
    "int64": np.array([0, 1, 2, 2, -1, 1 << 62, (1 << 63) - 1, -(1 << 63)]),
    "int32": np.array([0, 1, 2, 2, -1, 255, (1 << 31) - 1, -(1 << 31)], np.int32),
}
FAST = _vector.FUNCTIONS


@pytest.mark.skipif(not FAST, reason="this processor has no AVX-512")
@pytest.mark.parametrize("kind", COLUMNS)
def test_eight_rows_at_once_are_what_they_are_one_by_one(kind):
    ge, gt, le, compress, popcount = (FAST[name] for name in ("mask_ge", "mask_gt", "mask_le", "compress", "popcount"))

    @njit
    def fast(column, row, bound, to):
        mask = ge(column, row, bound)
        compress(mask, column, row, to, np.uint64(3))
        return mask, gt(column, row, bound), le(column, row, bound), popcount(mask)

    def plain(column, row, bound, to):
        mask = simd.mask_ge(column, row, bound)
        simd.compress(mask, column, row, to, np.uint64(3))
        masks = simd.mask_gt(column, row, bound), simd.mask_le(column, row, bound)
        return mask, *masks, simd.popcount(mask)

    rng = np.random.default_rng(5)
    column = rng.choice(COLUMNS[kind], 500)
    for row in rng.integers(0, 500 - simd.LANES, 200):
        bound = column[rng.integers(500)]
        to, wanted = np.zeros((2, 20), column.dtype)
        masks = plain(column, np.uint64(row), bound, wanted)
        assert fast(column, np.uint64(row), bound, to) == masks
        passed = 3 + int(masks[-1])
        assert (to[:passed] == wanted[:passed]).all()


ANSWERS = """
import sys
if "plain" in sys.argv:
    sys.modules["skyband.kernels._vector"] = None  # cannot be imported, as with a Numba that moved its private parts
import numpy as np
import skyband as sb
from skyband.kernels._jit import tier
tier.choose("compiled")
rng = np.random.default_rng(1)
rows = {"t": np.sort(rng.integers(0, 3000, 6000)), "x": rng.integers(0, 500, 6000).astype(float)}
timed = {"by": "x", "time": "t", "unit": "s"}
workload = [sb.TopK(k=k, window=sb.Sliding(f"{n} s", "10 s"), **timed) for k, n in ((3, 100), (40, 900))]
print(sb.run(workload, rows).to_pylist())
print(sb.run(sb.TopK(k=5, by="x", window=sb.Counting(100), emit="arrivals"), rows, engine="strict").to_pylist())
"""


def test_kernels_give_the_same_answers_without_private_parts_of_numba(monkeypatch, tmp_path):
    def run(*arguments):
        return subprocess.run([sys.executable, "-c", ANSWERS, *arguments], capture_output=True, text=True, check=True)

    fast = run()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    plain = run("plain")
    assert plain.stdout == fast.stdout
    assert len(fast.stdout) > 10_000
