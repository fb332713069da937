"""The sweep of the Super-MTK+N list: who stays, from which window on, and what each window's last object is."""

import numpy as np

from skyband.kernels._jit import kernel

OUT = -(1 << 62)


@kernel
def sweep(last, cap, oldest, alive, start, bound):
    """Mark the list, best first: `start[i]` is the first window whose best `cap` hold i, or OUT if i is in none.

    `last[i]` is the last window of object i, `alive` a zeroed room for the windows from `oldest` on. Windows fill
    from the oldest on, since what a later window holds an earlier one holds too. `bound[w - oldest]` becomes the
    object that made window w full (-1: it is not full). O(list + windows).
    """
    full = oldest  # windows before it are full
    here = 0  # objects that are in window `full`
    for w in range(len(bound)):
        bound[w] = -1
    for i in range(len(last)):
        if last[i] < full:
            start[i] = OUT
            continue
        start[i] = full
        alive[last[i] - oldest] += 1
        here += 1
        while here >= cap and full - oldest < len(bound):
            bound[full - oldest] = i
            here -= alive[full - oldest]
            full += 1


@kernel
def newest(pane, key, seen, keep):
    """Mark the last row of each key in each pane. `pane` rises along the rows; `seen[key]` starts below all panes."""
    for i in range(len(key) - 1, -1, -1):
        keep[i] = seen[key[i]] != pane[i]
        seen[key[i]] = pane[i]


@kernel
def gathered(key, value, count, total, low, high):
    """Add rows up by key: how many have a value, their sum, the least and the greatest."""
    for i in range(len(key)):
        x = value[i]
        if not np.isnan(x):
            k = key[i]
            count[k] += 1
            total[k] += x
            low[k] = min(low[k], x)
            high[k] = max(high[k], x)
