"""Engines driven by every object: an answer after each arrival, over the last n objects or the last while.

`strict`, `relaxed` and `probabilistic` differ in when a list of candidates forgets; `filtered` puts a buffer and a
second such list before the first two, `hybrid` changes between the last two while it runs. All of them share one
loop, `kernels/arrival.py`; `limits.py` has the arithmetic of the probabilistic list.

Pripuzic, Podnar Zarko and Aberer, "Time- and Space-Efficient Sliding Window Top-k Query Processing", ACM TODS
40(1), 2015. There smaller scores are better; here larger ones are.
"""
