"""Windows: how much of the stream an answer looks at, and how often there is one."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from typing import ClassVar

from skyband.errors import QueryError
from skyband.query.duration import duration, instant, spoken
from skyband.query.limits import MAX_ROWS, check_integer


@dataclass(frozen=True, eq=False)
class Sliding:
    """The last `size` of event time, answered every `slide`.

    Windows are [start, end), aligned to the epoch; `origin` moves them, `closed="right"` makes them
    (start, end]. The size need not be a multiple of the slide. With `slide="row"` there is an answer
    after every row, over (t - size, t].

    Lengths are texts ("10 minutes") or timedeltas of at most 3,650,000 days; inside they are whole microseconds.

    Examples
    --------
    >>> import skyband as sb
    >>> sb.Sliding("10 minutes", "1 minute")
    Sliding('10 min', '1 min')
    >>> sb.Sliding("1 minute", "10 minutes")
    Traceback (most recent call last):
        ...
    skyband.errors.QueryError: slide='10 minutes' is longer than size='1 minute': rows between two windows
    would be in no answer; write a slide of at most '1 minute'
    """

    size: int
    slide: int  # 0: after every row
    origin: int = 0
    closed: str = "left"
    counts: ClassVar[bool] = False

    def __init__(
        self,
        size: str | timedelta,
        slide: str | timedelta,
        *,
        origin: str | date | timedelta = "0 s",
        closed: str = "left",
    ) -> None:
        length = duration(size, "size")
        every = 0 if slide == "row" else duration(slide, "slide")
        if length <= 0:
            msg = f'size={size!r} holds no row: write a length above zero, such as "10 minutes"'
            raise QueryError(msg)
        if every <= 0 and slide != "row":
            msg = f'slide={slide!r} never moves on: write a length above zero, or "row" for an answer after every row'
            raise QueryError(msg)
        if every > length:
            msg = (
                f"slide={slide!r} is longer than size={size!r}: rows between two windows would be in no answer; "
                f"write a slide of at most {size!r}"
            )
            raise QueryError(msg)
        if closed not in ("left", "right"):
            msg = f'closed={closed!r} is unknown: write "left" for [start, end) or "right" for (start, end]'
            raise QueryError(msg)
        moved = instant(origin, "origin")
        if slide == "row":
            closed = "right"
        object.__setattr__(self, "size", length)
        object.__setattr__(self, "slide", every)
        object.__setattr__(self, "origin", moved % every if every else 0)
        object.__setattr__(self, "closed", closed)

    @property
    def kind(self) -> str:
        """Whether its windows "slide", or there is one after every "row"."""
        return "slide" if self.slide else "row"

    @property
    def kinds(self) -> frozenset[str]:
        """Which engines serve it: those for one of these kinds of window."""
        return frozenset({"slide"} if self.slide else {"row", "every row"})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sliding) and self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash(self._fields())

    def _fields(self) -> tuple[int, int, int, str]:
        return self.size, self.slide, self.origin, self.closed

    def __repr__(self) -> str:
        words = [repr(spoken(self.size)), repr(spoken(self.slide) if self.slide else "row")]
        if self.origin:
            words.append(f"origin={spoken(self.origin)!r}")
        if self.closed == "right" and self.slide:
            words.append("closed='right'")
        return f"Sliding({', '.join(words)})"


class Tumbling(Sliding):
    """Windows that follow each other without overlap: `Sliding(size, size)`, which it equals.

    Examples
    --------
    >>> import skyband as sb
    >>> sb.Tumbling("1 hour") == sb.Sliding("1 hour", "1 hour"), isinstance(sb.Tumbling("1 hour"), sb.Sliding)
    (True, True)
    """

    def __init__(self, size: str | timedelta, *, origin: str | date | timedelta = "0 s", closed: str = "left") -> None:
        super().__init__(size, size, origin=origin, closed=closed)


@dataclass(frozen=True)
class Counting:
    """The last `size` rows of each group, answered every `slide` rows (default: after every row).

    Every row takes a position, also one without a score. The window that ends at row e covers the
    rows max(0, e - size) to e. Both are at most 1,000,000,000.

    Examples
    --------
    >>> import skyband as sb
    >>> sb.Counting(1_000_000, 100_000)
    Counting(size=1000000, slide=100000)
    """

    size: int
    slide: int = 1
    counts: ClassVar[bool] = True
    origin: ClassVar[int] = 0
    closed: ClassVar[str] = "left"
    kind: ClassVar[str] = "slide"

    @property
    def kinds(self) -> frozenset[str]:
        """Which engines serve it: those for one of these kinds of window."""
        return frozenset({"slide", "every row"} if self.slide == 1 else {"slide"})

    def __post_init__(self) -> None:
        for field in ("size", "slide"):
            object.__setattr__(self, field, check_integer(field, getattr(self, field), 1, MAX_ROWS))
        if self.slide > self.size:
            msg = (
                f"slide={self.slide} is larger than size={self.size}: rows between two windows would be in no "
                f"answer; write a slide of at most {self.size}"
            )
            raise QueryError(msg)


@dataclass(frozen=True, repr=False)
class Ever(Counting):
    """All rows there ever were: what `window=None` means. Only totals are kept so."""

    size: int = 1 << 62
    kind: ClassVar[str] = "ever"

    def __post_init__(self) -> None:
        """Nothing was given that could be wrong."""

    @property
    def kinds(self) -> frozenset[str]:
        """No engine for rows serves it."""
        return frozenset({"ever"})

    def __repr__(self) -> str:
        return "None"
