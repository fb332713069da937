"""What `sb.explain` says of a join."""

import skyband as sb
from skyband.tables import Memory


def test_explain_tells_of_the_join():
    join = sb.Join(Memory({"u": [1], "y": [1]}, "u"), on="u", columns=["y"], refresh=sb.Refresh("border", budget=7))
    query = sb.TopK(k=5, by="x + y", window=sb.Sliding("10 minutes", "1 minute"), time="t", join=join)
    said = str(sb.explain(query))
    assert "keeps: about 44 objects" in said
    assert "at most 7 keys an answer, within 1 s; policy border" in said


def test_explain_tells_of_a_workload_that_shares_a_budget():
    join = sb.Join(Memory({"u": [1], "y": [1]}, "u"), on="u", columns=["y"], refresh=sb.Refresh(budget=7))
    window = sb.Tumbling("1 minute")
    queries = [
        sb.TopK(k=5, by="x + y", window=window, time="t", join=join, name="one"),
        sb.TopK(k=2, by="x - y", window=window, time="t", join=join, name="two"),
        sb.TopK(k=2, by="x", window=window, time="t", name="plain"),
    ]
    said = str(sb.explain(queries))
    assert "join on u: one, two; they share one replica, and 7 look-ups a moment" in said
    assert "without a join: plain" in said
