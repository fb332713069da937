"""WHEN: which window a row belongs to, when it closes, and rows in any order put in order."""

from skyband.windows.clock import Clock
from skyband.windows.timeline import Timeline

__all__ = ["Clock", "Timeline"]
