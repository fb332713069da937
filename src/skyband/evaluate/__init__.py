"""How good an answer is: nDCG@k and precision@k against the truth, and their cumulated errors."""

from skyband.evaluate.metrics import Evaluation, evaluate, ndcg, precision

__all__ = ["Evaluation", "evaluate", "ndcg", "precision"]
