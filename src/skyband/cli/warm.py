"""skyband warm: compile the kernels ahead."""

from __future__ import annotations

import time

HELP = """Compile the kernels of ordinary queries now, so that no long stream has to wait for them.

Kernels run as plain Python until a run has seen 50,000 rows, then compiled. The first time after an installation that
takes some 20 seconds; run this where nobody waits, such as when an image is built. What is compiled is kept: `skyband
doctor` says where.

Examples:

  skyband warm
"""


def warm() -> None:
    """Compile, and print how long it took."""
    from skyband.cli._ahead import compile_all

    start = time.perf_counter()
    compile_all()
    print(f"kernels are compiled ({time.perf_counter() - start:.0f} s)")
