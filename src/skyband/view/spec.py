"""What a view keeps, as one validated value: `sb.View` and views on Spark are made from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from skyband.errors import SchemaError
from skyband.query.expression import Expression, parse
from skyband.query.validation import check_flag, check_integer, check_names, invalid
from skyband.runtime.score import scores
from skyband.view.policy import MAX_VIEW_ROWS, Adaptive, Fixed, KmaxPolicy, kmax_policy

if TYPE_CHECKING:
    from skyband.tables.protocol import BaseTable
    from skyband.view.changes import ChangeBatch

_RESULT_COLUMNS = ("rank", "score", "step", "complete", "_change_type", "_version")


@dataclass(frozen=True)
class ViewSpec:
    """Which rows of a table a view keeps, and how many. The fields are parameters of `sb.View`, in any of its forms.

    Examples
    --------
    >>> spec = ViewSpec("id", k=2, by="price / earnings", kmax=10, columns="note")
    >>> spec.columns, spec.kmax, spec.min_rows
    (('note',), Fixed(kmax=10), 2)
    >>> ViewSpec("id", k=0, by="price")
    Traceback (most recent call last):
        ...
    skyband.errors.QueryError: k must be an integer from 1 to 67,108,864, got 0
    """

    key: str
    k: int
    by: Expression
    kmax: KmaxPolicy = field(default_factory=Adaptive)
    columns: tuple[str, ...] = ()
    ascending: bool = False
    refill_at: int | None = None
    ordered: bool = True

    def __post_init__(self) -> None:
        k = check_integer("k", self.k, 1, MAX_VIEW_ROWS)
        kmax, refill_at = kmax_policy(self.kmax, k), self.refill_at
        if refill_at is not None:
            refill_at = check_integer("refill_at", refill_at, k, MAX_VIEW_ROWS)
            if isinstance(kmax, Fixed) and refill_at > kmax.kmax:
                raise invalid("refill_at", f"be at most kmax={kmax.kmax}", refill_at)
        checked = {
            "k": k,
            "by": _expression(self.by),
            "kmax": kmax,
            "columns": _columns(self.columns, self.key),
            "refill_at": refill_at,
            "ascending": check_flag("ascending", self.ascending),
            "ordered": check_flag("ordered", self.ordered),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @property
    def min_rows(self) -> int:
        """With fewer rows the view is refilled."""
        return max(self.k, self.refill_at or 0)

    def score(self, batch: ChangeBatch) -> ChangeBatch:
        """Add scores to a batch, such that larger is better."""
        score = scores(self.by, batch.rows)
        score = -score if self.ascending else score
        return batch._replace(score=score if batch.deleted is None else np.where(batch.deleted, np.nan, score))


def check_table(table: Any) -> BaseTable:
    """Check that a view can query a table."""
    if isinstance(table, type) or not all(hasattr(table, name) for name in ("key", "ranked", "position", "since")):
        example = 'sb.tables.open_table("sqlite:///shop.db", "stock", key="id")'
        raise invalid("table", "be a table of a database", str(table)[:60], example)
    return table


def _expression(by: object) -> Expression:
    if isinstance(by, str):
        return parse(by)
    if not isinstance(by, Expression) or by.tree[0] == "total":
        raise invalid("by", "be an expression over columns of the table", by, 'one such as "price / earnings"')
    return by


def _columns(columns: Any, key: str) -> tuple[str, ...]:
    """The columns to keep beside the key, each once."""
    names = check_names("columns", columns)
    for option, name in [("key", key), *(("columns", name) for name in names)]:
        if name in _RESULT_COLUMNS:
            raise SchemaError(
                f"{option} must not name the column {name!r}, which results have too: rename it (CREATE VIEW)"
            )
    return tuple(name for name in names if name != key)
