"""The one decorator of all kernels."""

from numba import njit

# cache: the second process starts warm. No fastmath: ranks must equal the oracle's, infinities included.
kernel = njit(cache=True, nogil=True, error_model="numpy")

# For loops that work on the arrays they are given and make none: no references are counted at all.
bare = njit(cache=True, nogil=True, error_model="numpy", _nrt=False)  # type: ignore[call-overload]  # left out of its types

# For the innermost loops: a call that takes arrays counts references, which costs more than a comparison.
inlined = njit(inline="always", error_model="numpy")
