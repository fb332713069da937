"""`python -m scripts.fuzz`: see run.py."""

from __future__ import annotations

import sys

from scripts.fuzz.run import main

if __name__ == "__main__":
    sys.exit(main())
