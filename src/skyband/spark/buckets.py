"""Keys of buckets, chosen so that Spark spreads them evenly over its partitions."""

from __future__ import annotations

_WORD = 0xFFFFFFFF


def bucket_keys(buckets: int) -> list[int]:
    """Return keys whose hash is 0, 1, 2, ...: whatever the number of shuffle partitions, they spread evenly.

    Spark's hash of an integer (Murmur3, seed 42) can be undone step by step.

    Examples
    --------
    >>> [murmur3(key) for key in bucket_keys(4)]
    [0, 1, 2, 3]
    """
    return [_inverse_murmur3(number) for number in range(buckets)]


def murmur3(key: int) -> int:
    """Return Spark's hash of an INT, by which it partitions."""
    h = _rotate((key * 0xCC9E2D51) & _WORD, 15) * 0x1B873593 & _WORD
    h = (_rotate(42 ^ h, 13) * 5 + 0xE6546B64) & _WORD
    h ^= 4
    h = ((h ^ h >> 16) * 0x85EBCA6B) & _WORD
    h = ((h ^ h >> 13) * 0xC2B2AE35) & _WORD
    return _signed(h ^ h >> 16)


def _inverse_murmur3(value: int) -> int:
    h = value & _WORD
    h ^= h >> 16
    h = h * pow(0xC2B2AE35, -1, 1 << 32) & _WORD
    h ^= h >> 13 ^ h >> 26
    h = h * pow(0x85EBCA6B, -1, 1 << 32) & _WORD
    h ^= h >> 16
    h ^= 4
    h = (h - 0xE6546B64) * pow(5, -1, 1 << 32) & _WORD
    h = _rotate(h, 19) ^ 42
    return _signed(_rotate(h * pow(0x1B873593, -1, 1 << 32) & _WORD, 17) * pow(0xCC9E2D51, -1, 1 << 32) & _WORD)


def _rotate(x: int, bits: int) -> int:
    return (x << bits | x >> 32 - bits) & _WORD


def _signed(x: int) -> int:
    return x - (1 << 32) if x >> 31 else x
