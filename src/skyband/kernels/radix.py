"""The order of scores, by their bits."""

import numpy as np

from skyband.kernels._jit import inplace

DIGIT = 11  # bits
VALUES = 1 << DIGIT


@inplace
def falling(score, low, n, place, keys, other, other_keys, count):
    """Fill `place` with the numbers of the `n` scores from `low` on, best first; of equals the later one.

    Radix sort by the upper half of the bits, then by insertion the few neighbours that agree in it; where these
    are many, by all bits. `count` has room for VALUES numbers, the others for n. O(n).
    """
    numbered(score, low, n, other, other_keys)
    dealt(other_keys, other, keys, place, n, 31, count)
    dealt(keys, place, other_keys, other, n, 42, count)
    dealt(other_keys, other, keys, place, n, 53, count)
    swaps = 0
    for i in range(1, n):
        key, p, j = keys[i], place[i], i
        if keys[i - 1] <= key:
            continue
        while j > 0 and keys[j - 1] > key:
            keys[j], place[j] = keys[j - 1], place[j - 1]
            j -= 1
        keys[j], place[j] = key, p
        swaps += i - j
        if swaps > 4 * n:
            break
    if swaps > 4 * n:
        numbered(score, low, n, place, keys)
        for digit in (0, 22, 44):
            dealt(keys, place, other_keys, other, n, digit, count)
            dealt(other_keys, other, keys, place, n, digit + DIGIT, count)


@inplace
def numbered(score, low, n, place, keys):
    """Numbers that fall as the scores rise, the last score first: a stable sort puts the later of equals first."""
    flipped = keys.view(np.float64)
    sign = np.uint64(1 << 63)
    for i in range(n):
        flipped[i] = 0.0 - score[low + n - 1 - i]  # also makes one zero of the two
        place[i] = n - 1 - i
    for i in range(n):
        keys[i] = ~keys[i] if keys[i] & sign else keys[i] | sign


@inplace
def dealt(keys, place, to_keys, to, n, digit, count):
    """One pass of a radix sort, by the bits from `digit` on."""
    shift, mask = np.uint64(digit), np.uint64(VALUES - 1)
    for value in range(VALUES):
        count[value] = 0
    for i in range(n):
        count[(keys[i] >> shift) & mask] += 1
    total = 0
    for value in range(VALUES):
        total, count[value] = total + count[value], total
    for i in range(n):
        key = keys[i]
        value = (key >> shift) & mask
        at = np.uint64(count[value])
        count[value] += 1
        to_keys[at], to[at] = key, place[i]
