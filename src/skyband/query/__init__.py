"""WHAT is asked: queries and windows as frozen values, checked when they are built."""

from skyband.query.topk import EMITS, RESERVED, TopK
from skyband.query.window import Counting, Sliding, Tumbling

__all__ = ["EMITS", "RESERVED", "Counting", "Sliding", "TopK", "Tumbling"]
