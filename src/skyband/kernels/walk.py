"""Random walks of a view's size, to hold the model against."""

import numpy as np

from skyband.kernels._jit import kernel


@kernel
def hits(p, q, runs, seed):
    """How many steps each of `runs` walks takes from 0 to n = len(p); `p` and `q` as in view/model.py."""
    np.random.seed(seed)  # noqa: NPY002 - numba knows this one
    n = len(p)
    out = np.empty(runs, np.int64)
    for r in range(runs):
        at, steps = 0, 0
        while at < n:
            x = np.random.random()  # noqa: NPY002 - the same
            if x < p[at]:
                at += 1
            elif at > 0 and x < p[at] + q[at]:
                at -= 1
            steps += 1
        out[r] = steps
    return out
