"""What the processor can do, as far as layouts of arrays depend on it; known without loading Numba."""

from __future__ import annotations

from pathlib import Path

_AVX512 = {"avx512f", "avx512vl", "avx512dq", "avx512bw"}


def _flags() -> set[str]:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:  # not Linux
        return set()
    return next((set(line.partition(":")[2].split()) for line in lines if line.startswith("flags")), set())


_known = _flags()
STREAMS = _known >= _AVX512
"""Whether whole lines of memory can be written past the caches."""
LOOKS_UP = _known >= _AVX512 | {"avx512vbmi"}
"""Whether 64 bytes can be looked up at once."""
