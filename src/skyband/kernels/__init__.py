"""HOW FAST: the only room that imports numba. Columns and numbers in, columns and numbers out."""
