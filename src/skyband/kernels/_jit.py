"""The one decorator of all kernels."""

from typing import Any

import numpy as np
from numba import config, njit

_config: Any = config  # Numba's types leave its values out

# cache: the second process starts warm. No fastmath: ranks must equal the oracle's, infinities included.
kernel: Any = njit(cache=True, nogil=True, error_model="numpy")

# For loops that work on the arrays they are given and make none: no references are counted at all.
bare: Any = njit(cache=True, nogil=True, error_model="numpy", _nrt=False)  # type: ignore[call-overload]  # left out of its types

# For the innermost loops: a call that takes arrays counts references, which costs more than a comparison.
inlined = njit(inline="always", error_model="numpy")

if _config.DISABLE_JIT:  # plain Python: numbers overflow without a warning, as in compiled code
    kernel = bare = np.errstate(all="ignore")
