"""xxHash64 as Spark computes it, seed 42, so that ids of any type order alike in process and on Spark."""

import numpy as np

from skyband.kernels._jit import inline, kernel

SEED = 42
_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_P4 = np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)


@inline
def _turn(x, bits):
    return (x << np.uint64(bits)) | (x >> np.uint64(64 - bits))


@inline
def _round(state, word):
    return _turn(state + word * _P2, 31) * _P1


@inline
def _fold(state, lane):
    return (state ^ _round(np.uint64(0), lane)) * _P1 + _P4


@inline
def _finish(h):
    h = (h ^ (h >> np.uint64(33))) * _P2
    h = (h ^ (h >> np.uint64(29))) * _P3
    return h ^ (h >> np.uint64(32))


@kernel
def hash_words(words):
    """Hash of each 64-bit word, as for BIGINT, DOUBLE, TIMESTAMP and short decimals."""
    out = np.empty(len(words), np.int64)
    for i in range(len(words)):
        h = np.uint64(SEED) + _P5 + np.uint64(8)
        h ^= _round(np.uint64(0), words[i])
        out[i] = np.int64(_finish(_turn(h, 27) * _P1 + _P4))
    return out


@kernel
def hash_bytes(data, offsets):
    """Hash of each run of bytes: of `data` from `offsets[i]` to `offsets[i + 1]`."""
    out = np.empty(len(offsets) - 1, np.int64)
    for i in range(len(out)):
        out[i] = np.int64(_hash_run(data, offsets[i], offsets[i + 1]))
    return out


@kernel
def _word(data, at, size):
    word = np.uint64(0)
    for j in range(size):
        word |= np.uint64(data[at + j]) << np.uint64(8 * j)
    return word


@kernel
def _hash_run(data, low, high):
    seed = np.uint64(SEED)
    at = low
    if high - low >= 32:
        a, b, c, d = seed + _P1 + _P2, seed + _P2, seed, seed - _P1
        while at + 32 <= high:
            a = _round(a, _word(data, at, 8))
            b = _round(b, _word(data, at + 8, 8))
            c = _round(c, _word(data, at + 16, 8))
            d = _round(d, _word(data, at + 24, 8))
            at += 32
        h = _turn(a, 1) + _turn(b, 7) + _turn(c, 12) + _turn(d, 18)
        h = _fold(_fold(_fold(_fold(h, a), b), c), d)
    else:
        h = seed + _P5
    h += np.uint64(high - low)
    while at + 8 <= high:
        h = _turn(h ^ _round(np.uint64(0), _word(data, at, 8)), 27) * _P1 + _P4
        at += 8
    if at + 4 <= high:
        h = _turn(h ^ (_word(data, at, 4) * _P1), 23) * _P2 + _P3
        at += 4
    while at < high:
        h = _turn(h ^ (np.uint64(data[at]) * _P5), 11) * _P1
        at += 1
    return _finish(h)
