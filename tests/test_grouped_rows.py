"""The rows of groups that come and go, against a dictionary of lists."""

from typing import NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from skyband.engines.groups import GroupedRows


class Scores(NamedTuple):
    score: np.ndarray
    first: np.ndarray


def columns(lists):
    ends = np.cumsum([len(part) for part in lists], dtype=np.int64)
    first = np.stack([ends - [len(part) for part in lists], ends]).astype(np.int64)
    return Scores(np.array([x for part in lists for x in part], np.float64), first)


parts = st.dictionaries(st.integers(0, 5), st.lists(st.integers(0, 9).map(float), max_size=900), min_size=1)


@given(st.lists(st.tuples(parts, st.booleans()), max_size=8))
def test_rows_are_those_that_were_set_last(changes):
    rows, model = GroupedRows(columns([[]] * 6)), {group: [] for group in range(6)}
    for change, compact in changes:
        model |= change
        groups = sorted(change)
        rows.set_rows(np.array(groups), columns([change[group] for group in groups]))
        assert len(rows) == sum(map(len, model.values()))
        found = rows.rows_of(np.array([4, 1])).score.tolist()
        assert found == model[4] + model[1]
        if compact:
            assert rows.all_rows().score.tolist() == [x for group in range(6) for x in model[group]]
    rows.keep_groups(np.array([5, 0]))
    assert rows.all_rows().score.tolist() == model[5] + model[0]
