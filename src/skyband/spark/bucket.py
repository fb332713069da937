"""A bucket of groups: packed rows in, results out, its state as a snapshot. Knows nothing of Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from skyband.runtime.combine import read_counts
from skyband.runtime.pipeline import Pipeline
from skyband.runtime.snapshot import unwrite
from skyband.windows import MIN_TIME

if TYPE_CHECKING:
    from skyband.runtime.protocols import OperatorSpec, Snapshot


class Bucket:
    """One operator for the groups of a bucket.

    Parameters
    ----------
    spec
        The operator.
    schema
        The columns of the source.
    early
        Also return provisional results of open windows, told apart by the column `final`.
    live
        The input is a stream.
    """

    def __init__(self, spec: OperatorSpec, schema: pa.Schema, *, early: bool = False, live: bool = True) -> None:
        self.spec, self.schema, self.early = spec, schema, early
        self.pipeline = Pipeline([spec], schema, live=live)
        self._runner = self.pipeline.runners[0]

    def advance(self, packed: Mapping[str, Sequence[Any]], watermark: int) -> pa.Table:
        """Take packed rows, with the watermark that holds as their batch begins; return the results."""
        inputs: dict[str, list[pa.Table]] = {}
        late_panes = partial(self._runner.late_panes, watermark=watermark)
        for name, counts, blob in zip(packed["input"], packed["counts"], packed["blob"], strict=True):
            read_counts(unwrite(counts), late_panes, self._runner.counters, self.spec.unranked)
            if blob:
                inputs.setdefault(name, []).append(unwrite(blob))
        found = self._marked(list(self.pipeline.accept(inputs, watermark)), final=True)
        if not self.early or not self.pipeline.timed:
            return found
        return pa.concat_tables([found, self._preview()])

    def finish(self, newest: int = MIN_TIME) -> pa.Table:
        """Return the results of the windows still open, at the end of a finite input. Time has come to `newest`."""
        tracker = self.pipeline.tracker
        tracker.watermark = max(tracker.watermark, newest)
        return self._marked(list(self.pipeline.finish()), final=True)

    def _preview(self) -> pa.Table:
        """Return what the results would be if no more rows came."""
        copy = Pipeline([self.spec.for_preview()], self.schema)
        copy.restore(self.pipeline.snapshot())
        return self._marked(list(copy.finish()), final=False)

    def _marked(self, tables: list[pa.Table], *, final: bool) -> pa.Table:
        whole = pa.concat_tables(tables) if tables else self.pipeline.empty()
        name = self.spec.query.column("query")
        if name in whole.column_names and self.spec.result().many:  # numbers of names, as operators have them
            whole = whole.set_column(0, name, whole.column(name).cast(pa.string()))
        if not self.early:
            return whole
        return whole.append_column(self.spec.query.column("final"), pa.array(np.full(whole.num_rows, final)))

    # ------------------------------------------------------------ what is kept

    @property
    def counters(self) -> Mapping[str, int]:
        """What has been counted since the bucket was opened."""
        counted = {**self._runner.counters, **self._runner.operator.counters, "candidates": self.pipeline.candidates()}
        return {name: count for name, count in counted.items() if not isinstance(count, str)}

    @property
    def notice(self) -> str | None:
        """What became of commands."""
        return "; ".join(self._runner.notices) or None

    def is_idle(self) -> bool:
        """Return whether there is nothing to remember."""
        return self.pipeline.is_idle()

    def next_timer(self) -> int | None:
        """Return when a result may come without rows, in milliseconds; None if none can."""
        timer = self.pipeline.next_timer()
        return None if timer is None else -(-timer // 1000)

    def snapshot(self) -> Snapshot:
        """Return all that is needed to go on elsewhere."""
        return self.pipeline.snapshot()

    def restore(self, saved: Snapshot) -> None:
        """Go on from a snapshot; the counters are those of one trigger."""
        self.pipeline.restore(saved)
        self._runner.counters |= dict.fromkeys(self._runner.counters, 0)
