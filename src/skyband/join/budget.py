"""The budget of look-ups, and what is saved of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skyband.query.join import Budget


class Purse:
    """So many look-ups an evaluation; unused ones are kept for later, up to a limit.

    Examples
    --------
    >>> from skyband.query import Budget
    >>> purse = Purse(Budget(7, save=10))
    >>> purse.draw(), purse.pay(2), purse.draw()
    (7, None, 12)
    """

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self.saved = 0
        self._drawn = 0

    def draw(self) -> int:
        """What may be spent now."""
        self._drawn = self._budget.each + self.saved
        return self._drawn

    def pay(self, spent: int) -> None:
        """What was spent of it."""
        self.saved = min(max(self._drawn - spent, 0), self._budget.save)
