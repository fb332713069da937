"""WBM without known change rates: it goes by what the replica has watched."""

import numpy as np

from skyband.operators.lookup_join.policies import NAMED_POLICIES
from skyband.operators.lookup_join.replica import Replica
from test_join_likely import SLIDE, candidates, read


def test_a_value_found_as_it_was_does_not_end_all_look_ups():
    replica, values = Replica(("y",), SLIDE), np.arange(4.0)
    replica.make_room(4)
    read(replica, np.arange(4), values, 0)
    made = []
    for step in range(1, 60):
        now = step * SLIDE
        for id_ in NAMED_POLICIES["wsj-wbm"](candidates(replica, now, 2, listed=range(4)), replica, 1, now):
            read(replica, [id_], values[[id_]], now)
            made.append(step)
    assert 5 <= len(made) < 30, "fewer and fewer, since nothing changes ..."
    assert made[-1] > 25, "... but it goes on"
