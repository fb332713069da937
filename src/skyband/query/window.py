"""Windows: how much of the stream an answer looks at, and how often there is one."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import ClassVar, Literal, TypeAlias, get_args

from skyband.errors import QueryError
from skyband.query.duration import MICROSECOND, format_duration, parse_duration, parse_instant
from skyband.query.limits import MAX_ROWS
from skyband.query.validation import check_choice, check_integer

Closed = Literal["left", "right"]
"""Which boundary belongs to a window."""

_ROW: Literal["row"] = "row"


@dataclass(frozen=True, eq=False)
class Sliding:
    """The last `size` of event time, answered every `slide`.

    Windows are [start, end), aligned to the epoch; `origin` moves them, `closed="right"` makes them
    (start, end]. The size need not be a multiple of the slide. With `slide="row"` there is an answer
    after every row, over (t - size, t].

    Lengths are texts ("10 minutes") or timedeltas of at most 3,650,000 days; the fields hold timedeltas.

    Examples
    --------
    >>> import skyband as sb
    >>> window = sb.Sliding("10 minutes", "1 minute")
    >>> window, window.slide
    (Sliding('10 min', '1 min'), datetime.timedelta(seconds=60))
    >>> from dataclasses import replace
    >>> replace(window, slide="2 minutes")
    Sliding('10 min', '2 min')
    >>> sb.Sliding("1 minute", "10 minutes")
    Traceback (most recent call last):
        ...
    skyband.errors.QueryError: slide must be at most size='1 minute', got '10 minutes': rows between two windows
    would be in no answer
    """

    size: timedelta
    slide: timedelta | Literal["row"]
    origin: timedelta = timedelta(0)
    closed: Closed = "left"
    counts: ClassVar[bool] = False

    def __init__(
        self,
        size: str | timedelta,
        slide: str | timedelta,
        *,
        origin: str | date | timedelta = "0 s",
        closed: Closed = "left",
    ) -> None:
        length = parse_duration(size, "size", least=1)
        every = None if slide == _ROW else parse_duration(slide, "slide", least=1)
        if every is not None and every > length:
            raise QueryError(
                f"slide must be at most size={size!r}, got {slide!r}: rows between two windows would be in no answer"
            )
        closed = check_choice("closed", closed, get_args(Closed))
        offset = parse_instant(origin, "origin")
        object.__setattr__(self, "size", timedelta(microseconds=length))
        object.__setattr__(self, "slide", _ROW if every is None else timedelta(microseconds=every))
        object.__setattr__(self, "origin", timedelta(microseconds=0 if every is None else offset % every))
        object.__setattr__(self, "closed", "right" if every is None else closed)

    @property
    def kind(self) -> str:
        """Whether its windows "slide", or there is one after every "row"."""
        return "row" if self.slide == _ROW else "slide"

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of window that an engine must serve one of."""
        return frozenset({"slide"} if self.kind == "slide" else {"row", "every row"})

    @property
    def lengths(self) -> dict[str, int]:
        """The lengths by field, in microseconds; a slide after every row has none."""
        found = {"size": self.size, "slide": self.slide, "origin": self.origin}
        return {name: length // MICROSECOND for name, length in found.items() if isinstance(length, timedelta)}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sliding) and self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash(self._fields())

    def _fields(self) -> tuple[object, ...]:
        return self.size, self.slide, self.origin, self.closed

    def __repr__(self) -> str:  # stored in checkpoints as part of the fingerprint of a query: does not change
        slide = _ROW if self.slide == _ROW else format_duration(self.slide)
        words = [repr(format_duration(self.size)), repr(slide)]
        if self.origin:
            words.append(f"origin={format_duration(self.origin)!r}")
        if self.closed == "right" and self.slide != _ROW:
            words.append("closed='right'")
        return f"Sliding({', '.join(words)})"


@dataclass(frozen=True, eq=False, repr=False)
class Tumbling(Sliding):
    """Windows that follow each other without overlap: `Sliding(size, size)`, which it equals.

    Examples
    --------
    >>> import skyband as sb
    >>> sb.Tumbling("1 hour") == sb.Sliding("1 hour", "1 hour"), isinstance(sb.Tumbling("1 hour"), sb.Sliding)
    (True, True)
    """

    slide: timedelta = field(init=False)

    def __init__(
        self, size: str | timedelta, *, origin: str | date | timedelta = "0 s", closed: Closed = "left"
    ) -> None:
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
    closed: ClassVar[Closed] = "left"
    kind: ClassVar[str] = "slide"

    def __post_init__(self) -> None:
        for name in ("size", "slide"):
            object.__setattr__(self, name, check_integer(name, getattr(self, name), 1, MAX_ROWS))
        if self.slide > self.size:
            raise QueryError(
                f"slide must be at most size={self.size}, got {self.slide}: rows between two windows would be in no "
                f"answer"
            )

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of window that an engine must serve one of."""
        return frozenset({"slide", "every row"} if self.slide == 1 else {"slide"})


@dataclass(frozen=True)
class AllTime:
    """All rows since the stream began: what `window=None` means for a leaderboard (`of=`), the only query that has it.

    Examples
    --------
    >>> import skyband as sb
    >>> sb.TopK(k=3, of="product", by="sum(quantity)").window
    AllTime()
    """

    counts: ClassVar[bool] = True
    closed: ClassVar[Closed] = "left"
    kind: ClassVar[str] = "all time"
    kinds: ClassVar[frozenset[str]] = frozenset({"all time"})

    def __str__(self) -> str:  # stored in checkpoints as part of the fingerprint of a query: does not change
        return "None"


Window: TypeAlias = Sliding | Counting | AllTime
"""Every kind of window."""


def windows_per_row(window: Window) -> int:
    """Count the windows that can hold one row, of a window with a slide.

    Examples
    --------
    >>> windows_per_row(Sliding("10 minutes", "4 minutes")), windows_per_row(Counting(100, 10))
    (3, 10)
    """
    if isinstance(window, Counting):
        return -(-window.size // window.slide)
    assert isinstance(window, Sliding)
    assert isinstance(window.slide, timedelta)
    return -(-window.size // window.slide)
