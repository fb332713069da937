"""WHAT is asked: frozen values that are checked when they are built."""

from skyband.query.join import Budget, Join
from skyband.query.topk import EMITS, RESERVED, TopK
from skyband.query.window import Counting, Sliding, Tumbling

__all__ = ["EMITS", "RESERVED", "Budget", "Counting", "Join", "Sliding", "TopK", "Tumbling"]
