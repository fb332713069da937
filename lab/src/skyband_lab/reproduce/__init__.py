"""The papers' experiments as grids, their raw results, and verdicts and pages made from the results alone."""

from skyband_lab.reproduce.grid import Figure, Paper, Run, chosen, papers

__all__ = ["Figure", "Paper", "Run", "chosen", "papers"]
