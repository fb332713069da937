"""What one bucket of the stateful operator answers: a query alone, or a family of queries that share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from skyband.runtime.pipeline import Pipeline
from skyband.runtime.score import points, ranks_by
from skyband.spark.board import Board
from skyband.spark.joined import Joined
from skyband.windows import WindowAssigner
from skyband.workload.family import AFTER, NEVER
from skyband.workload.pipeline import FamilyPipeline, family_assigner

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import pyarrow as pa

    from skyband.query import TopK
    from skyband.spark.maintain import Bucket
    from skyband.spark.prune import Packer
    from skyband.workload.family import Family, Member


@dataclass(frozen=True)
class Single:
    """One query."""

    query: TopK
    engine: str

    def clock(self) -> Any:
        """When its windows begin and end."""
        return WindowAssigner.of(self.query.window)

    def line(self, schema: pa.Schema, engine: str) -> Pipeline:
        """Its pipeline, anew."""
        return Pipeline(self.query, schema, engine)

    def packer(self, keys: list[int]) -> Packer:
        """What goes before the shuffle."""
        from skyband.spark.prune import Packer

        return Packer(self, keys)

    def bucket(self, schema: pa.Schema, engine: str, *, early: bool) -> Bucket:
        """What goes behind it."""
        from skyband.spark.maintain import Bucket

        return Bucket(self, schema, engine, early=early)

    def told(self) -> dict[str, str]:
        """What a state of it belongs to, beyond what all queries say."""
        return {}

    def values(self, rows: pa.Table) -> np.ndarray:
        """What the engine ranks rows by, larger first."""
        return ranks_by(self.query, rows)


@dataclass(frozen=True)
class Shared:
    """Queries with one score and the same groups: one structure for all of them."""

    family: Family
    per: tuple[str, ...]  # of the whole workload
    engine: str
    lead: bool = True  # whether queries that come and are like none belong here
    sole: bool = False  # whether there is no other family, nor another part of this one
    part: str = ""  # which part of a family that is split over tasks

    @property
    def query(self) -> TopK:
        """What they share; its k is the largest."""
        return self.family.query

    def clock(self) -> Any:
        """When windows of any of them begin and end."""
        plain = self.family.points or self.query.window.kind == "row"
        return WindowAssigner.of(self.query.window) if plain else family_assigner(self.family)

    def line(self, schema: pa.Schema, engine: str, members: Sequence[Member] | None = None) -> FamilyPipeline:
        """Their pipeline, anew; with `members`, that of the queries that take part now."""
        family = self.family if members is None else self.family.with_members(members)
        return FamilyPipeline(family, schema, engine, per=self.per, fixed=family.reserve is None)

    def packer(self, keys: list[int]) -> Packer:
        """What goes before the shuffle."""
        from skyband.spark.prune import Packer

        return Packer(self, keys)

    def bucket(self, schema: pa.Schema, engine: str, *, early: bool) -> Bucket:
        """What goes behind it."""
        from skyband.spark.maintain import Bucket, ChangingBucket

        made = Bucket if self.family.reserve is None else ChangingBucket
        return made(self, schema, engine, early=early)

    def told(self) -> dict[str, str]:
        """What a state of it belongs to: every query, in place of the largest; or what any of them must fit into."""
        reserve = self.family.reserve
        if reserve is not None:
            said = {"k": f"at most {reserve.k}", "window": f"of panes of {reserve.finest} us", "queries": "come and go"}
            return {**said, "tasks": self.part} if self.part else said
        by = {m.number: "" if m.by is None else f", {m.by.text}" for m in self.family.members}
        each = "; ".join(f"{m.name}: k {m.k}, {m.window}{by[m.number]}{_bounds(m)}" for m in self.family.members)
        said = {"k": "of each", "window": "of each", "queries": each}
        return {**said, "by": "of each"} if self.family.points else said

    def values(self, rows: pa.Table) -> np.ndarray:
        """What the engine ranks rows by: a score, or a point."""
        return points(self.family.axes, rows) if self.family.points else ranks_by(self.query, rows)


def _bounds(member: Member) -> str:
    """The part of the stream in which a query is active, if it is but a part."""
    return "" if (member.low, member.high) == (NEVER, AFTER) else f", active from {member.low} to {member.high} us"


Share = Single | Shared | Board | Joined
"""Whatever a bucket can answer."""
