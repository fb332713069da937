"""Folders of the checkout that `make env` installs this package from; a copy elsewhere has none of them."""

from pathlib import Path

LAB = Path(__file__).resolve().parents[2]
ROOT = LAB.parent
RESULTS = LAB / "results"
"""The raw results: one file of JSON lines per suite or figure."""
