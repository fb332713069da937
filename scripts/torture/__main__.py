"""`python -m scripts.torture`: see run.py."""

from __future__ import annotations

import sys

from scripts.torture.run import main

if __name__ == "__main__":
    sys.exit(main())
