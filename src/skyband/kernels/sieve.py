"""Which changes may concern a view: all that reach its lowest score, and those of ids that may be in it.

An id that was let in has two bits in one of many words, and some in tables that are far smaller. What is no suspect
was never let in; what is one must be looked for.
"""

import numpy as np

from skyband.kernels._cpu import LOOKS_UP
from skyband.kernels._jit import bare, inlined
from skyband.kernels.lookup import BYTES, ROWS, TABLES, equal, lowest, note, noted, reached

BLOCK = ROWS  # changes that are looked at together
WORDS = 1024  # the least number of words of bits: 8 KB are a quarter of the nearest cache
PLACES = 2  # at most so many places a word: of the ids outside about one in 200 is then looked for
_BITS = np.uint64(63)
_ONE = np.uint64(1)
NONE = np.uint64(0)


def words_for(size: int) -> np.ndarray:
    """Words for so many ids."""
    return np.zeros(max(WORDS, 1 << (size // PLACES).bit_length()), np.uint64)


def tables_for(words: np.ndarray) -> np.ndarray:
    """Small tables beside these words; none where they would be no help: too full, or slow to look up."""
    return np.zeros(TABLES * BYTES if LOOKS_UP and len(words) == WORDS else 0, np.uint8)


@inlined
def _bits(id, words):
    """Which word stands for an id, and which two bits of it."""
    h = np.uint64(id) * np.uint64(0xD6E8FEB86659FD93)
    mine = (_ONE << ((h >> np.uint64(32)) & _BITS)) | (_ONE << ((h >> np.uint64(38)) & _BITS))
    return (h >> np.uint64(44)) & np.uint64(len(words) - 1), mine


@inlined
def let_in(id, words, tables):
    """Set the bits of an id."""
    word, mine = _bits(id, words)
    words[word] |= mine
    if len(tables):
        note(id, tables)


@inlined
def suspected(id, words):
    """Whether an id may have been let in."""
    word, mine = _bits(id, words)
    return words[word] & mine == mine


@inlined
def _suspects(ids, score, first, count, limit, words):
    """A bit for each of `count` changes from `first` on that may concern the view; all others do not.

    No branch and no store, so that many rows are looked at in one step.
    """
    found = NONE
    for j in range(count):
        at = np.uint64(first + j)  # no sign: no look whether it counts from the end
        found |= np.uint64((score[at] >= limit) | suspected(ids[at], words)) << np.uint64(j)
    return found


@inlined
def _rest(ids, first, found, words):
    """Those of the suspects that the words leave."""
    left = found
    while found:
        j = lowest(found)
        bit = found & (~found + _ONE)
        found ^= bit
        if not suspected(ids[np.uint64(first + j)], words):
            left ^= bit
    return left


@bare
def sift(ids, score, first, limit, words, tables):
    """The next block of changes, from `first` on, with suspects among them: where it begins, and a bit for each."""
    block = first
    if len(tables):
        while block + BLOCK <= len(ids):
            at = np.uint64(block)
            high, here = reached(score, at, limit), noted(ids, at, tables)
            if high | here:
                found = high | _rest(ids, block, here & ~high, words)
                if found:
                    return block, found
            block += BLOCK
    while block + BLOCK <= len(ids):
        found = _suspects(ids, score, block, BLOCK, limit, words)  # a number that the compiler knows
        if found:
            return block, found
        block += BLOCK
    return block, _suspects(ids, score, block, len(ids) - block, limit, words)


@bare
def same(ids, first, after, id):
    """A bit for each change of a block that begins at `first`, but the first `after` of them, that is of this id."""
    if first + BLOCK <= len(ids):
        return equal(ids, np.uint64(first), id) & (~NONE << np.uint64(after)) if after < BLOCK else NONE
    found = NONE
    for j in range(after, len(ids) - first):
        found |= np.uint64(ids[np.uint64(first + j)] == id) << np.uint64(j)
    return found
