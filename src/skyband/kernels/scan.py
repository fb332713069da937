"""The limit of every engine: look at each score once, and do nothing with it."""

from skyband.kernels._jit import kernel


@kernel
def scan(score, bound):
    """How many of `score` are above `bound`: one comparison a row, as fast as memory gives them."""
    above = 0
    for i in range(len(score)):
        above += score[i] > bound
    return above
