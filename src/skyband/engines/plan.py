"""Which engine serves a query, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from skyband.engines.registry import ENGINES
from skyband.errors import QueryError, nearest

if TYPE_CHECKING:
    from skyband.query import TopK


TOTALS = "totals"
"""What stands for the engine of leaderboards, which takes no rows and so is no entry of `ENGINES`."""


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
        # where another is faster (mintopk, on falling scores or with k near the window) it is so on one kind of
        # stream only, and the stream is not known yet: `skyband bench slide`
        return Plan("sweep", "exact, serves every window and all groups in one call, and is fast on every stream")
    if engine not in ENGINES:
        msg = f'engine={engine!r} is unknown: write "auto", or {nearest(str(engine), ENGINES)}'
        raise QueryError(msg)
    if not query.window.kinds & ENGINES[engine].traits.windows:
        able = ", ".join(name for name, entry in ENGINES.items() if query.window.kinds & entry.traits.windows)
        msg = f"engine={engine!r} does not serve {query.window!r}: write one of {able}"
        raise QueryError(msg)
    return Plan(engine, "asked for")
