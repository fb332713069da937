"""Which engine serves a query, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from skyband.engines.registry import ENGINES
from skyband.errors import QueryError, nearest

if TYPE_CHECKING:
    from skyband.query import TopK


TOTALS = "totals"
"""What stands for the engine of leaderboards, which takes no rows and so is no entry of `ENGINES`."""


# The stream is not known beforehand, so what counts is where an engine does worst: how many times slower it is than
# the best one, over all k, windows, slides and orders of rows in lab/results/plan.jsonl (`skyband bench plan`).
_CHOSEN = {
    "slide": ("sweep", "exact, serves every window and all groups in one call, and is fast on every stream"),
    "every row": ("sweep", "exact, serves all groups in one call, and compares nearly every row once"),
}


class Plan(NamedTuple):
    """An engine's name and the reason for it."""

    engine: str
    why: str


def choose(query: TopK, engine: str = "auto") -> Plan:
    """The engine for `query`: the one asked for if it can, otherwise the best we have.

    Examples
    --------
    >>> import skyband as sb
    >>> choose(sb.TopK(k=10, by="x", window=sb.Counting(100, 10))).engine
    'sweep'
    """
    if query.of:
        if engine not in ("auto", TOTALS):
            msg = f'engine={engine!r} ranks rows, and of= asks for keys: write "auto"'
            raise QueryError(msg)
        return Plan(TOTALS, "keys ranked by their totals: partial totals by pane, and a view on the totals")
    if engine == "auto":
        return Plan(*_CHOSEN["every row" if "every row" in query.window.kinds else "slide"])
    if engine not in ENGINES:
        msg = f'engine={engine!r} is unknown: write "auto", or {nearest(str(engine), ENGINES)}'
        raise QueryError(msg)
    if not query.window.kinds & ENGINES[engine].traits.windows:
        able = ", ".join(name for name, entry in ENGINES.items() if query.window.kinds & entry.traits.windows)
        msg = f"engine={engine!r} does not serve {query.window!r}: write one of {able}"
        raise QueryError(msg)
    return Plan(engine, "asked for")
