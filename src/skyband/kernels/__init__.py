"""Loops over arrays, the only package that imports Numba: columns and numbers in, columns and numbers out."""

LANES = 8
"""Rows that the functions of `simd.py` process at a time."""
