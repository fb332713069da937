"""WHAT is asked: frozen values that are checked when they are built."""

from skyband.query.join import Budget, Join
from skyband.query.points import Distance, Weighted, distance, weighted
from skyband.query.topk import EMITS, RESERVED, TopK
from skyband.query.window import AllTime, Counting, Sliding, Tumbling, Window

__all__ = [
    "EMITS",
    "RESERVED",
    "AllTime",
    "Budget",
    "Counting",
    "Distance",
    "Join",
    "Sliding",
    "TopK",
    "Tumbling",
    "Weighted",
    "Window",
    "distance",
    "weighted",
]
