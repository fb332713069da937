"""Engines over points: many queries, one store of objects, and a grid that tells who needs to see whom.

`tma`, `sma`, `cpm` and `snn` are those of the papers; as entries of the registry they serve one query, whose score is
all there is to index. `many.py` serves many queries over points in d dimensions, by any of them or by our own way.
"""
