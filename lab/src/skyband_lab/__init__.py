"""Benchmarks of skyband, comparisons with other systems, and the experiments of the papers.

A package of its own, which the wheel of skyband does not contain. It adds the commands `skyband bench`,
`skyband reproduce` and `skyband compare-policies`.
"""

import os

os.environ.setdefault("SKYBAND_KERNELS", "compiled")  # what is measured here are long streams
