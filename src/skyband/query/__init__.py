"""What is asked: frozen values, validated when they are made."""

from skyband.query.join import Budget, Calls, Join, Refresh
from skyband.query.points import Distance, Weighted, distance, weighted
from skyband.query.topk import EMITS, RESERVED, TopK
from skyband.query.window import AllTime, Counting, Sliding, Tumbling, Window

__all__ = [
    "EMITS",
    "RESERVED",
    "AllTime",
    "Budget",
    "Calls",
    "Counting",
    "Distance",
    "Join",
    "Refresh",
    "Sliding",
    "TopK",
    "Tumbling",
    "Weighted",
    "Window",
    "distance",
    "weighted",
]
