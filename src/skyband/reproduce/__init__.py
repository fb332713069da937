"""THE EVIDENCE: the papers' experiments as grids; one raw file a run; verdicts and pages made from those."""

from skyband.reproduce.grid import Figure, Paper, Run, chosen, papers

__all__ = ["Figure", "Paper", "Run", "chosen", "papers"]
