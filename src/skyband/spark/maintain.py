"""A bucket of groups: packed rows in, answers out, all it remembers by name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from skyband.runtime.saved import load, save
from skyband.runtime.snapshot import unwrite
from skyband.spark.control import CONTROL, obey, tidied
from skyband.spark.prune import Counts, Origin, arranged, unpacked
from skyband.workload.family import Member

if TYPE_CHECKING:
    from skyband.runtime.batch import PreparedBatch
    from skyband.runtime.pipeline import Pipeline
    from skyband.runtime.saved import Saved
    from skyband.spark.share import Shared, Single
    from skyband.workload.pipeline import FamilyPipeline


class Bucket:
    """The groups of one bucket: takes packed rows, gives answers. Knows nothing of Spark."""

    def __init__(self, share: Single | Shared, schema: pa.Schema, engine: str, *, early: bool = False) -> None:
        self.share, self.query = share, share.query
        self.early = early
        self.schema = schema
        self.engine = engine
        self.line = share.line(schema, engine)
        self.counts = dict.fromkeys(("rows", "without_score", "without_time", "late"), 0)

    def take(self, packed: Mapping[str, Any], watermark: int) -> pa.Table:
        """Rows as `prune` packed them, with the watermark that holds as this batch begins."""
        line = self.line
        line.timeline.watermark = max(line.timeline.watermark, watermark)
        edge = line.timeline.watermark
        parts, origins, orders = [], [], []
        for counts, blob in zip(packed["counts"], packed["blob"], strict=True):
            Counts.read(unwrite(counts), edge, self.counts)
            table = unwrite(blob) if blob else None
            if table is not None and CONTROL in table.column_names:
                orders += table.column(CONTROL).to_pylist()
            elif table is not None:
                parts.append(self._punctual(unpacked(table, self.schema), edge))
                origins.append(Origin.of(table))
        self._obey(orders)
        late, without_score = line.stats.late, line.stats.without_score
        answers = self._push(parts, origins, watermark)
        self.counts["late"] += line.stats.late - late
        self.counts["without_score"] += line.stats.without_score - without_score
        return self._told(answers)

    def _obey(self, orders: list[str]) -> None:
        """Queries that come and go: here there are none."""

    def _copy(self) -> Pipeline:
        """A pipeline that stands where this one does."""
        copy = self.share.line(self.schema, self.engine)
        load(copy, self.engine, save(self.line))
        return copy

    def _punctual(self, part: PreparedBatch, edge: int) -> PreparedBatch:
        """Without the rows of panes that have closed, which are counted already."""
        clock = self.line.clock
        if clock.counts or not clock.slide:
            return part
        late = np.asarray(clock.pane_end(part.time)) <= edge
        return part.take(np.flatnonzero(~late)) if late.any() else part

    def _push(self, parts: list[PreparedBatch], origins: list[Origin | None], watermark: int) -> pa.Table:
        line = self.line
        if not parts:
            return line.finish() if line.clock.counts else line.push(self.schema.empty_table(), watermark)
        part = arranged(parts, origins, self.query)
        group = line.group(part.rows)
        part = part._replace(rows=part.rows.drop_columns(list(self.query.per)), group=group)
        if line.clock.counts:
            return line.count(part)
        return line.take(part, watermark)

    @property
    def timed(self) -> bool:
        """Whether something may happen as time goes by."""
        return not self.query.window.counts

    @property
    def kept(self) -> int:
        """How many rows are kept."""
        return self.line.kept

    def save(self) -> Saved:
        """All there is to remember."""
        return save(self.line)

    def load(self, saved: Saved) -> None:
        """Go on where another one stood."""
        load(self.line, self.engine, saved)

    def finish(self, newest: int) -> pa.Table:
        """No more rows will come: what the windows still open hold. Time has come to `newest`."""
        self.line.timeline.watermark = max(self.line.timeline.watermark, newest)
        return self._marked(self.line.finish(), final=True)

    def _told(self, answers: pa.Table) -> pa.Table:
        """Answers, and with `early` what they would be if nothing more came."""
        final = self._marked(answers, final=True)
        if not self.early or self.line.clock.counts:
            return final
        return pa.concat_tables([final, self._marked(self._copy().finish(), final=False)])

    def _marked(self, answers: pa.Table, *, final: bool) -> pa.Table:
        name = self.query.column("query")
        if name in answers.column_names:  # names by number, as the engine has them
            answers = answers.set_column(0, name, answers.column(name).cast(pa.string()))
        if not self.early:
            return answers
        return answers.append_column(self.query.column("final"), pa.array(np.full(answers.num_rows, final)))

    def next_end(self) -> int | None:
        """When something will happen next without new rows, in milliseconds; None if nothing can."""
        line = self.line
        clock, watermark = line.clock, line.timeline.watermark
        if clock.counts or not self.alive():
            return None
        waiting = min((int(p.time[0]) for p in line.waiting), default=None)
        if not clock.slide:
            return None if waiting is None else waiting // 1000 + 1  # a row is done once time has passed it
        idle = waiting is not None and not len(line.engine.candidates().id) and not len(line.emitter.busy())
        since = max(watermark, waiting) if idle and waiting is not None else watermark
        return -(-int(clock.next_end(since)) // 1000)

    def alive(self) -> bool:
        """Whether there is anything to remember."""
        line = self.line
        if line.clock.counts or line.waiting or len(line.engine.candidates().id):
            return True
        return bool(len(line.emitter.busy()))


class ChangingBucket(Bucket):
    """A bucket whose queries come and go: which ones take part is a part of its state."""

    share: Shared
    line: FamilyPipeline

    def __init__(self, share: Shared, schema: pa.Schema, engine: str, *, early: bool = False) -> None:
        super().__init__(share, schema, engine, early=early)
        self.counts["refused"] = 0
        self.notice: str | None = None

    def take(self, packed: Mapping[str, Any], watermark: int) -> pa.Table:
        """Control rows, which come before the rows of their batch, and these; who has left is then forgotten."""
        answers = super().take(packed, watermark)
        tidied(self.line)
        return answers

    def _obey(self, orders: list[str]) -> None:
        names = [member.name for member in self.share.family.members]
        notes, self.counts["refused"] = obey(self.line, orders, names, lead=self.share.lead, sole=self.share.sole)
        self.notice = "; ".join(notes) or None

    def _copy(self) -> Pipeline:
        copy = self.share.line(self.schema, self.engine, self.line.family.members)
        load(copy, self.engine, save(self.line))
        return copy

    def save(self) -> Saved:
        """All there is to remember, and who takes part."""
        members = [json.dumps(member.as_json()) for member in self.line.family.members]
        return {**save(self.line), "members": pa.table({"v": pa.array(members, pa.string())})}

    def load(self, saved: Saved) -> None:
        """Go on where another one stood, with the queries that took part there."""
        told = cast("pa.Table", saved.pop("members")).column("v").to_pylist()
        members = [Member.from_json(json.loads(text)) for text in told]
        self.line = self.share.line(self.schema, self.engine, members)
        load(self.line, self.engine, saved)

    def alive(self) -> bool:
        """Whether there is anything to remember: queries that came or went too."""
        return self.line.family.members != self.share.family.members or super().alive()

    def next_end(self) -> int | None:
        """When something will happen next without new rows."""
        return super().next_end() if super().alive() and self.line.family.members else None
