"""What a query says of itself on the page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skyband.query import TopK


@dataclass(frozen=True)
class About:
    """A query in words; all but the name may be unknown."""

    name: str
    k: int | None = None
    by: str = ""
    window: str = ""
    time: str | None = None
    id: str | None = None
    ascending: bool = False

    @classmethod
    def of(cls, name: str, query: TopK) -> About:
        """Read it off a query.

        Examples
        --------
        >>> import skyband as sb
        >>> about = About.of("big", sb.TopK(k=3, by="price * volume", window=sb.Counting(100, 10)))
        >>> about.k, about.by, about.window
        (3, 'price * volume', 'last 100 rows, every 10')
        """
        by = (
            query.by
            if isinstance(query.by, str)
            else getattr(query.by, "text", None) or getattr(query.by, "__name__", "")
        )
        return cls(name, query.k, str(by), _window(query), query.time, query.id, query.ascending)


def _window(query: TopK) -> str:
    from skyband.query import AllTime, Counting
    from skyband.query.duration import format_duration

    window = query.window
    if isinstance(window, AllTime):
        return "all time"
    if isinstance(window, Counting):
        return (
            f"last {window.size:,} rows, every {window.slide:,}" if window.slide > 1 else f"last {window.size:,} rows"
        )
    slide = window.slide if isinstance(window.slide, str) else format_duration(window.slide)
    return f"last {format_duration(window.size)}, every {slide}"
