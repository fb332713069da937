"""A pipeline whose results come as one table, for tests that stop it, save it and go on elsewhere."""

import pyarrow as pa

from skyband.operators.plan import plan
from skyband.operators.ranking import RankingSpec
from skyband.runtime.pipeline import Pipeline


class Line:
    """One query over batches."""

    def __init__(self, query, schema, engine="auto", *, options=None, **ways):
        self.made = (query, schema, engine)
        self.options, self.ways = options, ways
        self.pipeline = Pipeline([plan(query, engine, options)], schema, **ways)

    @property
    def runner(self):
        return self.pipeline.runners[0]

    @property
    def operator(self):
        return self.runner.operator

    @property
    def stats(self):
        return self.pipeline.stats

    def push(self, rows, watermark=None):
        return self._whole(self.pipeline.push(rows, watermark))

    def finish(self):
        return self._whole(self.pipeline.finish())

    def _whole(self, results):
        return pa.concat_tables([self.pipeline.empty(), *results], promote_options="permissive")

    def snapshot(self):
        return self.pipeline.snapshot()

    def fresh(self):
        """Another pipeline of the same query."""
        return type(self)(*self.made, options=self.options, **self.ways)

    def restored(self, snapshot=None):
        """A new pipeline that goes on from here, or from a snapshot."""
        other = self.fresh()
        other.pipeline.restore(self.snapshot() if snapshot is None else snapshot)
        return other


class FamilyLine(Line):
    """A family of queries over batches."""

    def __init__(self, family, schema, engine="sweep", *, options=None, **ways):
        self.made, self.options, self.ways = (family, schema, engine), options, ways
        self.pipeline = Pipeline([RankingSpec(family, engine, many=True, options=options)], schema, **ways)
