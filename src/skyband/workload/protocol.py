"""What an engine for many queries takes, gives and promises."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from skyband.engines.protocol import Objects, Snapshot
    from skyband.workload.answers import Answers
    from skyband.workload.family import Family


class SharedEngine(Protocol):
    """Keeps what may still be in an answer of any query of a family."""

    peak: int
    """The most candidates ever kept at once."""

    def advance(self, arrivals: Objects, upto: int | np.ndarray, moved: np.ndarray | None = None) -> Answers:
        """Take `arrivals`, then close every window of every query that ends by `upto`; as `GroupedEngine.advance`."""

    def candidates(self) -> Objects:
        """What may still matter, best first within each group."""

    def snapshot(self) -> Snapshot:
        """All that is kept, as named arrays."""

    def busy(self) -> np.ndarray:
        """Groups that keep rows, or have yet to say that a window has become empty."""

    def regroup(self, keep: np.ndarray) -> None:
        """Forget all groups but these, which include the busy ones; they are numbered anew, in this order."""


class ChangingEngine(SharedEngine, Protocol):
    """An engine whose queries come and go."""

    def reach(self) -> int | np.ndarray:
        """From where on every row is still to come: a time, or a position of every group."""

    def change(self, family: Family, moved: np.ndarray, positions: np.ndarray | None = None) -> None:
        """Go on with other members: `moved[i]` is the new place of member i, or -1.

        `positions` are those of each group at which the members of the newest moment came.
        """


class SharedEngineClass(Protocol):
    """How an engine for many queries is made."""

    def __call__(self, family: Family, resume: Mapping[str, np.ndarray] | None = None) -> SharedEngine:
        """Begin anew, or go on from a snapshot."""
