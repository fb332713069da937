"""Forms of an earlier version still work, with a warning that names the new form."""

import contextlib
import datetime as dt
import warnings

import pytest

import skyband as sb
from skyband.lang import load
from skyband.tables import Memory

USERS = Memory({"user": [1, 2], "y": [5, 6]}, key="user")
NEW = sb.Join(
    USERS, on="user", columns=["y"], aggregates={"n": "count(*)"},
    refresh=sb.Refresh("top", budget=7, deadline="300 ms", spare=3), calls=sb.Calls(batch=10, retries=0),
)  # fmt: skip


@contextlib.contextmanager
def warned(*words):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    assert {one.category for one in caught} == {DeprecationWarning}
    said = [str(one.message) for one in caught]
    assert all(any(word in text for text in said) for word in words), said
    assert {one.filename for one in caught} == {__file__} or "join." in said[0]


def test_flat_keywords_of_a_join():
    with warned("refresh=sb.Refresh(budget, policy, deadline, spare=...)", "calls=sb.Calls(batch, retries=...)"):
        old = sb.Join(
            USERS, on="user", columns=["y"], budget=7, policy="top", deadline="300 ms", spare=3, batch=10, retries=0,
            n="count(*)",
        )  # fmt: skip
    assert old == NEW
    with warned("sb.Refresh(budget, policy, spare=...)"):
        positional = sb.Join(USERS, "user", ["y"], 7, "top", 3)
    assert positional.refresh == sb.Refresh("top", budget=7, spare=3)
    with pytest.raises(sb.QueryError, match=r"budget must be .* got -1"):
        sb.Join(USERS, on="user", columns=["y"], budget=-1)
    with pytest.raises(sb.QueryError, match="no option 'polcy': did you mean policy"):
        sb.Join(USERS, on="user", columns=["y"], polcy="top")


def test_flat_fields_of_a_join():
    with warned("read join.refresh.budget"):
        assert NEW.budget == sb.Budget(7)
    with warned("read join.refresh.deadline"):
        assert NEW.deadline == dt.timedelta(milliseconds=300)
    with warned("read join.calls.batch"):
        assert NEW.batch == 10
    with pytest.raises(AttributeError, match="bugdet"):
        _ = NEW.bugdet


def test_methods_that_replace_did_not_need():
    with warned("dataclasses.replace(join, ...)"):
        other = NEW.replaced(budget=8, on="u")
    assert (other.refresh.budget, other.on, other.calls) == (sb.Budget(8), "u", NEW.calls)
    query = sb.TopK(k=1, by="x + y", window=sb.Tumbling("1 s"), time="t", join=NEW)
    with warned("dataclasses.replace(query, join=...)"):
        assert query.joining(None).join is None


FILE = """source: {kind: rate}
watermark: 1 s
query: {k: 2, by: value + y + n, window: 1 m, time: timestamp, join: {service: crm, on: value, columns: [y]%s}}
services: {crm: {kind: http, url: 'https://crm.example/users'%s}}
"""


def test_flat_keys_of_a_join_in_a_pipeline_file():
    with warned("query.join: {refresh: {budget: 3}}", "query.join: {aggregates: {n: count(*)}}"):
        old = load(FILE % (", budget: 3, n: count(*)", ""))
    new = load(FILE % (", refresh: {budget: 3}, aggregates: {n: count(*)}", ""))
    assert old.statements[0].remote == new.statements[0].remote
    assert old.queries[0].join.refresh == new.queries[0].join.refresh == sb.Refresh(budget=3)
    with warned("services.crm.join: {refresh: {budget: 3}}", "services.crm.join: {calls: {batch: 2}}"):
        old = load(FILE % (", aggregates: {n: count(*)}", ", join: {budget: 3, batch: 2}"))
    assert (old.queries[0].join.refresh.budget, old.queries[0].join.calls) == (sb.Budget(3), sb.Calls(batch=2))


def test_flat_keys_of_services_given_to_parse():
    text = "{k: 1, by: x + y, window: 1 s, time: t, join: {service: crm, on: user, columns: [y]}}"
    service = {"kind": "http", "url": "https://crm.example/users", "join": {"budget": 3}}
    with warned("services.crm.join: {refresh: {budget: 3}}"):
        asked = sb.parse(text, services={"crm": service})
    assert asked.query.join.refresh == sb.Refresh(budget=3)


def test_new_forms_do_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load(FILE % (", refresh: {budget: 3}, aggregates: {n: mean(value)}", ", join: {calls: {batch: 2}}"))
