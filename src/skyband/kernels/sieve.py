"""Which changes may concern a view: all that reach its lowest score, and those of ids that may be in it.

An id that was let in has two bits in one of many words. What is no suspect was never let in; what is one must be
looked for.
"""

import numpy as np

from skyband.kernels._jit import inline, inplace

BLOCK = 64  # changes that are looked at together
WORDS = 1024  # the least number of words of bits: 8 KB are a quarter of the nearest cache
PLACES = 2  # at most so many places a word: of the ids outside about one in 200 is then looked for
_BITS = np.uint64(63)
_ONE = np.uint64(1)
NONE = np.uint64(0)
_DE_BRUIJN = 0x03F79D71B4CB0A89  # shifted by n, its six highest bits are another number for each n
_PLACE = np.array(sorted(range(64), key=lambda n: (_DE_BRUIJN << n) % (1 << 64) >> 58), np.int64)


def words_for(size: int) -> np.ndarray:
    """Words for so many ids."""
    return np.zeros(max(WORDS, 1 << (size // PLACES).bit_length()), np.uint64)


@inline
def _bits(id, words):
    """Which word stands for an id, and which two bits of it."""
    h = np.uint64(id) * np.uint64(0xD6E8FEB86659FD93)
    mine = (_ONE << ((h >> np.uint64(32)) & _BITS)) | (_ONE << ((h >> np.uint64(38)) & _BITS))
    return (h >> np.uint64(44)) & np.uint64(len(words) - 1), mine


@inline
def let_in(id, words):
    """Set the bits of an id."""
    word, mine = _bits(id, words)
    words[word] |= mine


@inline
def suspected(id, words):
    """Whether an id may have been let in."""
    word, mine = _bits(id, words)
    return words[word] & mine == mine


@inline
def _suspects(ids, score, first, count, limit, words):
    """A bit for each of `count` changes from `first` on that may concern the view; all others do not.

    No branch and no store, so that many rows are looked at in one step.
    """
    found = NONE
    for j in range(count):
        at = np.uint64(first + j)  # no sign: no look whether it counts from the end
        found |= np.uint64((score[at] >= limit) | suspected(ids[at], words)) << np.uint64(j)
    return found


@inline
def lowest(mask):
    """The number of the lowest bit that is set."""
    return _PLACE[((mask & (~mask + _ONE)) * np.uint64(_DE_BRUIJN)) >> np.uint64(58)]


@inplace
def sift(ids, score, first, limit, words):
    """The next block of changes, from `first` on, with suspects among them: where it begins, and a bit for each."""
    block = first
    while block + BLOCK <= len(ids):
        found = _suspects(ids, score, block, BLOCK, limit, words)  # a number that the compiler knows
        if found:
            return block, found
        block += BLOCK
    return block, _suspects(ids, score, block, len(ids) - block, limit, words)


@inplace
def same(ids, first, after, id):
    """A bit for each change of a block that begins at `first`, but the first `after` of them, that is of this id."""
    found = NONE
    for j in range(after, min(BLOCK, len(ids) - first)):
        found |= np.uint64(ids[np.uint64(first + j)] == id) << np.uint64(j)
    return found
