"""Figures 1 to 5 of Yang et al., EDBT 2011: 20 objects, win 16, slide 4, k 3, step by step.

Stated in the text and in figure 5: which objects are in which predicted list, their order on the list,
their window marks, the lower bound pointers, and that o19 does not get on the list. From this follows::

    o17 > o6 > o14 > o15 > o18 > o20 > o19     the list of figure 5 after the new objects
    o1 > o6 > o14 > o7 > o15 > o16             the list before
    o2 o3 o4 < o14    o5 o8 < o7    o9 .. o13 < o16     they are on no list

Filled in by us: the scores themselves, whatever fits this order, and the places of o1 against o17, of
o18 and o20 against o16 and o7, and of the objects that are on no list among each other.

::

    o1 o2 o3 o4 | o5 .. o8 | o9 .. o12 | o13 .. o16 | o17 .. o20
    W0 ------------------------------------------->
                  W1 ------------------------------------------>
                              W2 ----------------------------------- ...
                                          W3 ----------------------- ...
                                                       W4 ---------- ...
"""

import numpy as np
import pytest

from skyband.engines import Objects, QueryFamily
from skyband.engines.mintopk import MinTopk
from skyband.engines.pretopk import PreTopk
from skyband.engines.recompute import Recompute
from skyband.query import Sliding, TopK

SCORE = {
    1: 95.0, 2: 30.0, 3: 42.0, 4: 12.0,
    5: 25.0, 6: 90.0, 7: 70.0, 8: 33.0,
    9: 20.0, 10: 37.0, 11: 8.0, 12: 28.0,
    13: 15.0, 14: 80.0, 15: 60.0, 16: 50.0,
    17: 99.0, 18: 48.0, 19: 5.0, 20: 40.0,
}  # fmt: skip
# Object o arrives at time 2 (o - 1), so that there is a moment between the last row of W0 and its end.
QUERY = TopK(k=3, by="x", window=Sliding("32 us", "8 us"), time="t")
BEFORE, SLID, AFTER = 31, 32, 39  # the three columns of figure 5


def objects(first, last):
    ids = np.arange(first, last + 1)
    return Objects(np.array([SCORE[o] for o in ids]), 2 * (ids - 1), ids)


def at(engine, moment):
    """The engine in one column of figure 5, and what it said last."""
    running = engine(QueryFamily.of(QUERY))
    said = running.advance(objects(1, 16), BEFORE)
    if moment > BEFORE:
        said = running.advance(objects(1, 0), SLID)
    if moment > SLID:
        said = running.advance(objects(17, 20), AFTER)
    return running, said


def predicted(marks, window):
    """A window's predicted list, read off the marks."""
    return [o for o, start, end in marks if start <= window <= end]


@pytest.mark.parametrize("engine", [PreTopk, MinTopk])
def test_figure_1_keeps_the_predicted_and_forgets_the_rest(engine):
    # The text counts 7 kept and 9 discarded. That contradicts the rest: W0 and W1 differ in one object, so
    # they have 4; W2 and W3 are the same and share o14 with them, which adds 2. Figure 5 lists these 6.
    running, _ = at(engine, BEFORE)
    assert running.candidates().id.tolist() == [1, 6, 14, 7, 15, 16]


def test_figure_3_predicts_four_windows():
    marks = at(MinTopk, BEFORE)[0].marks()
    assert [predicted(marks, w) for w in range(4)] == [[1, 6, 14], [6, 14, 7], [14, 15, 16], [14, 15, 16]]


def test_figure_3_after_the_new_objects():
    marks = at(MinTopk, AFTER)[0].marks()
    assert [predicted(marks, w) for w in range(1, 5)] == [
        [17, 6, 14],
        [17, 14, 15],
        [17, 14, 15],
        [17, 18, 20],
    ]


def test_lemma_4_1_what_w1_inherits_ranks_above_what_is_new_in_it():
    marks = at(MinTopk, BEFORE)[0].marks()
    w0, w1 = predicted(marks, 0), predicted(marks, 1)
    assert [o for o in w1 if o in w0] == [6, 14]
    assert [o for o in w1 if o not in w0] == [7]


def test_figure_4_object_14_is_in_all_four_windows():
    marks = at(MinTopk, BEFORE)[0].marks()
    assert (14, 0, 3) in marks
    assert at(MinTopk, BEFORE)[0].bounds() == {0: 14, 1: 7, 2: 16, 3: 16}


FIGURE_5 = {
    BEFORE: (
        [(1, 0, 0), (6, 0, 1), (14, 0, 3), (7, 1, 1), (15, 2, 3), (16, 2, 3)],
        {0: 14, 1: 7, 2: 16, 3: 16},
    ),
    # printed with o1 still on the list, marked W1 to W0: it starts after its end and is removed
    SLID: (
        [(6, 1, 1), (14, 1, 3), (7, 1, 1), (15, 2, 3), (16, 2, 3)],
        {1: 7, 2: 16, 3: 16},
    ),
    AFTER: (
        [(17, 1, 4), (6, 1, 1), (14, 1, 3), (15, 2, 3), (18, 4, 4), (20, 4, 4)],
        {1: 14, 2: 15, 3: 15, 4: 20},
    ),
}


@pytest.mark.parametrize("moment", FIGURE_5)
def test_figure_5_entries_marks_and_pointers(moment):
    running, _ = at(MinTopk, moment)
    marks, bounds = FIGURE_5[moment]
    assert running.marks() == marks
    assert running.bounds() == bounds


@pytest.mark.parametrize("moment", FIGURE_5)
def test_figure_5_after_a_resume(moment):
    running, _ = at(MinTopk, moment)
    again = MinTopk(QueryFamily.of(QUERY), resume=running.snapshot())
    assert (again.marks(), again.bounds()) == FIGURE_5[moment]


@pytest.mark.parametrize("engine", [Recompute, PreTopk, MinTopk])
def test_figures_1_and_2_the_answers(engine):
    running, said = at(engine, SLID)
    assert (said.step.tolist(), said.id.tolist()) == ([0], [1, 6, 14])
    running, _ = at(engine, AFTER)
    said = running.advance(objects(1, 0), 40)
    assert (said.step.tolist(), said.id.tolist()) == ([1], [17, 6, 14])
