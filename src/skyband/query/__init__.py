"""WHAT is asked: queries and windows as frozen values, checked when they are built."""

from skyband.query.points import Distance, Weighted, distance, weighted
from skyband.query.topk import EMITS, RESERVED, TopK
from skyband.query.window import Counting, Sliding, Tumbling

__all__ = [
    "EMITS",
    "RESERVED",
    "Counting",
    "Distance",
    "Sliding",
    "TopK",
    "Tumbling",
    "Weighted",
    "distance",
    "weighted",
]
