"""Queries that come and go on Spark: control rows, a second source beside the rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skyband.errors import QueryError, SchemaError, nearest
from skyband.query import Sliding
from skyband.query.limits import MAX_K
from skyband.query.validation import check_integer
from skyband.runtime.time_type import TimeType
from skyband.spark.prune import NO_COUNTS, Packed, in_utc
from skyband.spark.session import column
from skyband.windows.watermark import MIN_TIME
from skyband.workload.admission import joined
from skyband.workload.family import Member

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from skyband.query import TopK
    from skyband.workload.pipeline import FamilyPipeline

CONTROL = "__skyband_control"
"""The column that makes a row a control row."""

_FIELDS = ("action", "name", "k", "size", "slide", "origin", "like")
_ACTIONS = ("add", "update", "remove")


def controlled(rows: DataFrame, control: DataFrame) -> DataFrame:
    """The rows of a stream together with control rows, which add, update and remove queries of a workload.

    Parameters
    ----------
    rows
        What is ranked.
    control
        Streaming too. Its columns: `action` ("add", "update" or "remove"), `name`, `k`, `size` and `slide` such as
        "10 minutes", if wanted `origin` and `like`, the name of a query with the same score and groups (by default the
        first), and the time column of `rows`: from then on it holds.

    Returns
    -------
    Both as one: set the watermark on it, so that a silent `control` holds nothing back.

    Examples
    --------
    >>> import skyband as sb
    >>> def started(trades, changes):
    ...     query = sb.TopK(k=10, by="price", window=sb.Sliding("10 minutes", "1 minute"), time="ts", name="calm")
    ...     workload = sb.Workload([query], max_k=100, finest="10 s")
    ...     both = sb.spark.controlled(trades, changes).withWatermark("ts", "30 seconds")
    ...     return both.transform(sb.spark.top_k(workload))
    """
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own way

    missing = [name for name in ("action", "name") if name not in control.columns]
    shared = [name for name in rows.columns if name in control.columns and name not in _FIELDS]
    if missing or not shared:
        what = f"no column {missing[0]!r}" if missing else f"none of the columns {', '.join(rows.columns)}"
        msg = f"control has {what}: it needs action, name, the time column of the rows, and k, size and slide to add"
        raise SchemaError(msg)
    said = F.to_json(F.struct(*[column(name) for name in _FIELDS if name in control.columns]))
    orders = control.select(*[column(name) for name in shared], said.alias(CONTROL))
    return rows.unionByName(orders, allowMissingColumns=True)


def orders_in(rows: pa.Table, query: TopK) -> tuple[pa.Table, list[str]]:
    """The rows without control rows, and these as texts."""
    if CONTROL not in rows.column_names:
        return rows, []
    said = rows.column(CONTROL)
    plain, control = rows.filter(said.is_null()).drop_columns([CONTROL]), in_utc(rows.filter(said.is_valid()))
    if not control.num_rows:
        return plain, []
    assert query.time is not None
    kind = TimeType.of(query, control.schema.field(query.time).type)
    time, none = kind.micros(control.column(query.time))
    texts = []
    for at, text in enumerate(control.column(CONTROL).to_pylist()):
        when = None if none is not None and none[at] else int(time[at])
        texts.append(json.dumps({"at": when, **json.loads(text)}, sort_keys=True))
    return plain, texts


def told_all(keys: Iterable[int], orders: list[str]) -> Iterator[pa.RecordBatch]:
    """Control rows packed for the shuffle, for each of the buckets."""
    out = Packed()
    for key in keys:
        out.add(key, NO_COUNTS, pa.table({CONTROL: pa.array(orders, pa.string())}))
    yield from out.batches()


def obey(
    line: FamilyPipeline, orders: Iterable[str], names: Iterable[str], *, lead: bool, sole: bool = False
) -> tuple[list[str], int]:
    """Carry out what concerns this family: what there is to say of it, and how many orders were refused.

    `names` are those of the queries that it began with; the family that leads takes queries that are `like` none, and
    refuses what can concern nobody. A `sole` family knows all names.
    A new query is exact from the watermark on, where all buckets stand alike, whatever rows they have met.
    """
    notes, refused = [], 0
    if line.timeline.watermark > MIN_TIME:
        line.blind = line.timeline.watermark
    for order in sorted((json.loads(text) for text in set(orders)), key=_turn):
        known = {*names, *(m.name for m in line.family.members)}
        like, name, action = order.get("like"), str(order.get("name")), order.get("action")
        mine = name in known if action != "add" else (lead if like is None else like in known)
        if not mine and not sole and not (lead and _broken(order)):
            continue
        try:
            _check(order, known)
            notes.append(_done(line, str(action), name, order))
        except (QueryError, TypeError, ValueError) as error:
            refused += 1
            notes.append(f"{name}: refused: {error}")
    return notes, refused


def _broken(order: dict[str, Any]) -> bool:
    """Whether an order makes no sense to any family."""
    return order.get("action") not in _ACTIONS or not order.get("name") or order.get("at") is None


def _check(order: dict[str, Any], known: Iterable[str]) -> None:
    """Raise unless an order says what is to be done, to which query, and when."""
    action, name, like = order.get("action"), order.get("name"), order.get("like")
    if action not in _ACTIONS:
        msg = f"action={action!r} is none: write {', '.join(_ACTIONS)}"
        raise QueryError(msg)
    if not name:
        msg = f"name={name!r} is no name: a control row says which query it is about"
        raise QueryError(msg)
    if order.get("at") is None:
        msg = "its time is missing: the time column of the rows says from when on it holds"
        raise QueryError(msg)
    if like is not None and like not in known:
        msg = f"like={like!r} is no query of this workload: {nearest(str(like), known)}"
        raise QueryError(msg)


def _turn(order: dict[str, Any]) -> tuple[int, int, str, str]:
    action = order.get("action")
    return (
        MIN_TIME if order.get("at") is None else order["at"],
        -_ACTIONS.index(action) if action in _ACTIONS else 0,
        str(order.get("name")),
        json.dumps(order, sort_keys=True),
    )


def _done(line: FamilyPipeline, action: str, name: str, order: dict[str, Any]) -> str:
    """One order carried out, in words."""
    old = [m for m in line.family.members if m.name == name]
    rest = [m for m in line.family.members if m.name != name]
    stays = [m for m in old if m.high > order["at"] + m.clock.shift]  # has windows that begin later
    if action == "add" and stays:
        msg = f"name={name!r} stands for a query already: remove it first, or choose another name"
        raise QueryError(msg)
    if action != "add" and not (stays if action == "update" else old):
        msg = f"name={name!r} is no query that runs: add it, or correct the name"
        raise QueryError(msg)
    if action == "remove":
        line.change([*rest, *(_ending(m, order["at"]) for m in old)])
        return f"{name}: leaves"
    window = stays[-1].window if action == "update" else _window(order)
    k = _wanted(order)
    reserve = line.family.reserve
    assert reserve is not None
    reserve.check(k, window)
    replace(line.family.query, k=k, window=window)  # checks k as ever
    number = stays[-1].number if action == "update" else line.family.numbers
    member = Member(number, name, k, window)
    member = replace(member, low=order["at"] + member.clock.shift)
    if action == "update":  # its bounds stay
        member = replace(member, low=max(member.low, stays[0].low), high=stays[-1].high)
    told = joined(line, member, [m for m in old if m.number == number])
    return f"{name}: exact from {told.exact_from}"


def _wanted(order: dict[str, Any]) -> int:
    """The k of an order."""
    said = order.get("k")
    if said is None:
        msg = "k is missing: a query that is added or updated has one"
        raise QueryError(msg)
    text = str(said).removesuffix(".0")
    return check_integer("k", int(text) if text.isdecimal() else said, 1, MAX_K)


def _window(order: dict[str, Any]) -> Sliding:
    missing = [field for field in ("k", "size", "slide") if order.get(field) is None]
    if missing:
        msg = f"{missing[0]} is missing: a query that is added has k, size and slide"
        raise QueryError(msg)
    origin = order.get("origin")
    return Sliding(order["size"], order["slide"], **({} if origin is None else {"origin": origin}))


def _ending(member: Member, at: int) -> Member:
    """The member, none of whose windows ends after `at`."""
    clock = member.clock
    return replace(member, high=min(member.high, at + clock.shift - clock.size + 1))


def tidied(line: FamilyPipeline) -> None:
    """Let go of members whose last window has closed, and of what only they needed."""
    gone = [m for m in line.family.members if line.over(m)]
    if gone and line.alters:
        stay = [m for m in line.family.members if m not in gone]
        line.change(stay)
        for number in {m.number for m in gone} - {m.number for m in stay}:
            line.emitter.forget(number)  # type: ignore[attr-defined]  # that of a family
