"""WHAT is asked: frozen values that are checked when they are built."""

from skyband.query.join import Budget, Join
from skyband.query.points import Distance, Weighted, distance, weighted
from skyband.query.topk import EMITS, RESERVED, TopK
from skyband.query.window import Counting, Ever, Sliding, Tumbling

__all__ = [
    "EMITS",
    "RESERVED",
    "Budget",
    "Counting",
    "Distance",
    "Ever",
    "Join",
    "Sliding",
    "TopK",
    "Tumbling",
    "Weighted",
    "distance",
    "weighted",
]
