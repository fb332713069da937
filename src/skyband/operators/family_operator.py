"""Families of queries that come and go on a running operator."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from skyband.engines import ENGINES
from skyband.engines.family import FamilyMember
from skyband.errors import QueryError, nearest
from skyband.query import Sliding
from skyband.query.limits import MAX_K
from skyband.query.validation import check_choice, check_integer
from skyband.runtime.groups import window_columns
from skyband.runtime.protocols import Operator
from skyband.runtime.result import AnswerBound
from skyband.runtime.schema import TimeType
from skyband.windows import MAX_TIME, MIN_TIME, WindowAssigner, WindowAssignerUnion
from skyband.workload.family import Admission, first_start

if TYPE_CHECKING:
    from skyband.engines.family import QueryFamily
    from skyband.kernels.columns import Windows
    from skyband.runtime.protocols import Assigner, Context
    from skyband.runtime.runner import OperatorRunner


def family_assigner(family: QueryFamily) -> Assigner:
    """Return the windows and panes of a family."""
    if family.points or family.query.window.kind == "row" or (len(family.members) == 1 and family.reserve is None):
        return WindowAssigner.of(family.query.window)
    finest = None if family.reserve is None else family.reserve.finest
    return WindowAssignerUnion((m.clock for m in family.members), counts=family.counts, finest=finest)


def check_changes(engine: str, *, able: bool) -> None:
    """Raise unless queries may come and go on an engine."""
    if not able:
        names = " or ".join(repr(name) for name, entry in ENGINES.items() if entry.traits.changes)
        raise QueryError(f"queries can come and go only with engine={names}, got engine={engine!r}")


class FamilyOperator(Operator):
    """An operator that serves a family of queries on one engine, and lets them come and go."""

    engine: Any
    engine_name: str

    def __init__(self, family: QueryFamily, context: Context) -> None:
        self._context = context
        self.planned = [member.name for member in family.members]
        self.blind_until = MIN_TIME  # rows before this were not seen
        self.set_family(family)

    def set_family(self, family: QueryFamily) -> None:
        """Take over the windows and names of the members."""
        self.family = family
        self.assigner = family_assigner(family)
        members = family.members
        single = isinstance(self.assigner, WindowAssigner)
        self._windows = window_columns([self.assigner] if single else [m.clock for m in members])  # type: ignore[list-item]
        self._size, self._shift = np.zeros((2, family.numbers), np.int64)
        for member in members:
            self._size[member.number], self._shift[member.number] = member.clock.size, member.clock.shift
        self.mixes_ends = len({member.clock.shift for member in members}) > 1
        self._answer_bound = AnswerBound.of((m.k, m.clock.size, m.clock.slide) for m in members)
        names, before = family.names(), self.names
        self.names = [new or old for new, old in zip(names, before, strict=False)] + names[len(before) :]
        self._next_end: int | None = None  # when the next window ends; None: not known
        query, schema = family.query, self._context.schema
        if query.time is not None and not family.counts:  # refuse windows that the time column cannot name
            kind = TimeType.of(query, schema.field(query.time).type)
            for member in members:
                kind.check_window(member.window)

    @property
    def windows(self) -> Windows:
        """The windows of which one must be empty before a group appears anew."""
        return self._windows

    def bounds(self, end: np.ndarray, query: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Return the displayed start and end of windows."""
        number = 0 if query is None else query
        start, shift = end - self._size[number], self._shift[number]
        return (np.maximum(start, 0), end) if self.family.counts else (start - shift, end - shift)

    @property
    @abstractmethod
    def takes_queries(self) -> bool:
        """Whether queries may come, and change their k."""

    def check_change(self) -> None:
        """Raise unless queries may come, and change their k."""
        check_changes(self.engine_name, able=self.takes_queries)

    def check_removal(self) -> None:
        """Raise unless queries may leave."""
        if self.family.points or ENGINES[self.engine_name].traits.shared:
            self.check_change()

    def tidy(self, watermark: int) -> None:
        """Let go of queries whose last window has closed."""
        if self.family.reserve is not None and self.takes_queries and watermark < MAX_TIME:
            stay = [m for m in self.family.members if not self.is_over(m, watermark)]
            if len(stay) < len(self.family.members):
                self.change(stay)

    def is_over(self, member: FamilyMember, watermark: int) -> bool:
        """Return whether the last window of a query has closed."""
        return not self.family.counts and member.high + member.clock.size - 1 <= watermark

    def change(self, members: Sequence[FamilyMember], positions: np.ndarray | None = None) -> None:
        """Go on with these queries. With `positions`, the newest ones know no row before these positions."""
        self.check_removal()
        old, family = self.family.members, self.family.with_members(members)
        if positions is not None and family.counts:
            family = replace(family, moments=family.moments + 1)
        place = {(m.number, m.moment, m.low, m.window): at for at, m in enumerate(family.members)}
        moved = np.array([place.get((m.number, m.moment, m.low, m.window), -1) for m in old], np.int64)
        self.set_family(family)
        self.engine.change(family, moved, positions)
        for number, ids in self.engine.take_reported() if hasattr(self.engine, "take_reported") else ():
            self._context.emitter.add_reported(number, ids)
        for number in {m.number for m in old} - {m.number for m in family.members}:
            self._context.emitter.forget_query(number)

    def admit(self, member: FamilyMember, runner: OperatorRunner, old: Sequence[FamilyMember] = ()) -> Admission:
        """Let a member in, exact from the first window that starts after what has been seen; it replaces `old`."""
        self.check_change()
        assigner, reach = member.clock, self._reach(runner)
        others = [m for m in self.family.members if m.number != member.number]
        if isinstance(reach, np.ndarray):
            seen = int(reach.max(initial=0))
            if seen == 0:
                self.change([*others, member])
                return Admission(member.name)
            moment = self.family.moments
            followed = [m if m.until else replace(m, until=moment) for m in old]
            self.change([*others, *followed, replace(member, moment=moment)], runner.positions)
            start = -(-(seen + assigner.size) // assigner.slide) * assigner.slide - assigner.size
            return Admission(member.name, start)
        new = replace(member, low=max(member.low, int(reach)))
        # windows of the old member that start before the first of the new one are still answered
        self.change([*others, *(replace(m, high=min(m.high, first_start(new))) for m in old), new])
        return admission(new, runner.time)

    def _reach(self, runner: OperatorRunner) -> int | np.ndarray:
        """Return from where on every row is still to come: a time, or a position of every group."""
        tracker = runner.tracker
        if self.family.counts:
            return runner.positions
        if not self.assigner.slide:  # after every row, rows are handed on as soon as time has passed them
            passed = tracker.newest + 1 if runner.sorted_input else tracker.watermark
            return max(passed, self.blind_until)
        reach = max(int(self.engine.reach()), tracker.watermark, self.blind_until)
        if runner.buffer.pruned and len(runner.buffer) and self.family.reserve is None:  # buffered rows may be gone
            return max(reach, tracker.newest + 1)
        return reach


def admission(member: FamilyMember, time: TimeType | None) -> Admission:
    """Return from which window on a member is answered."""
    start = first_start(member)
    if start == MIN_TIME or time is None:
        return Admission(member.name)
    tick = time.per  # after every row a start need not be a whole number of ticks
    start = -(-(start - member.clock.shift) // tick) * tick
    return Admission(member.name, time.column(np.array([start]))[0].as_py())


# ---------------------------------------------------------------- commands

_ACTIONS = ("add", "update", "remove")


def apply_commands(
    running: FamilyOperator, commands: Iterable[str], runner: OperatorRunner, *, leads: bool, sole: bool
) -> None:
    """Apply the commands that concern a family; count those that are refused, and note what became of each.

    A new query is exact from the watermark on, where all buckets stand alike, whatever rows they have met. The family
    that `leads` takes queries that are like none; a `sole` family knows all names.
    """
    if runner.tracker.watermark > MIN_TIME:
        running.blind_until = runner.tracker.watermark
    planned = running.planned
    for command in sorted((json.loads(text) for text in set(commands)), key=_turn):
        names = {*planned, *(m.name for m in running.family.members)}
        like, name, action = command.get("like"), str(command.get("name")), command.get("action")
        mine = name in names if action != "add" else (leads if like is None else like in names)
        if not mine and not sole and not (leads and not _is_complete(command)):
            continue
        try:
            _check_command(command, names)
            note = _apply(running, str(action), name, command, runner)
        except (QueryError, TypeError, ValueError) as error:
            runner.counters["refused"] = runner.counters.get("refused", 0) + 1
            note = f"{name}: refused: {error}"
        runner.notices.append(note)


def _is_complete(command: Mapping[str, Any]) -> bool:
    return command.get("action") in _ACTIONS and bool(command.get("name")) and command.get("at") is not None


def _check_command(command: Mapping[str, Any], names: Iterable[str]) -> None:
    """Raise unless a command says what is to be done, to which query, and when."""
    like = command.get("like")
    check_choice("action", command.get("action"), _ACTIONS)
    if not command.get("name"):
        raise QueryError(f"name must be that of a query, got {command.get('name')!r}: write one in every command")
    if command.get("at") is None:
        raise QueryError("the time of a command must not be NULL: it says from when on the command holds")
    if like is not None and like not in names:
        raise QueryError(f"like must name a query of this workload, got {like!r}: {nearest(str(like), names)}")


def _turn(command: Mapping[str, Any]) -> tuple[int, int, str, str]:
    action = command.get("action")
    return (
        MIN_TIME if command.get("at") is None else command["at"],
        -_ACTIONS.index(action) if action in _ACTIONS else 0,
        str(command.get("name")),
        json.dumps(command, sort_keys=True),
    )


def _apply(running: FamilyOperator, action: str, name: str, command: Mapping[str, Any], runner: OperatorRunner) -> str:
    """Apply one command; return a note."""
    family = running.family
    old = [m for m in family.members if m.name == name]
    rest = [m for m in family.members if m.name != name]
    active = [m for m in old if m.high > command["at"] + m.clock.shift]  # has windows that start later
    if action == "add" and active:
        raise QueryError(
            f"name must not be that of a running query, got {name!r}: remove it first, or choose another name"
        )
    if action != "add" and not (active if action == "update" else old):
        raise QueryError(f"name must be that of a running query, got {name!r}: add it, or correct the name")
    if action == "remove":
        running.change([*rest, *(_ending(m, command["at"]) for m in old)])
        return f"{name}: leaves"
    window = active[-1].window if action == "update" else _window_of(command)
    k = _k_of(command)
    assert family.reserve is not None
    family.reserve.check(k, window)
    number = active[-1].number if action == "update" else family.numbers
    member = FamilyMember(number, name, k, window)
    member = replace(member, low=command["at"] + member.clock.shift)
    if action == "update":  # its bounds stay
        member = replace(member, low=max(member.low, active[0].low), high=active[-1].high)
    admitted = running.admit(member, runner, [m for m in old if m.number == number])
    return f"{name}: exact from {admitted.exact_from}"


def _k_of(command: Mapping[str, Any]) -> int:
    given = command.get("k")
    if given is None:
        raise QueryError("k must be given in a command that adds or updates a query, got none")
    text = str(given).removesuffix(".0")
    return check_integer("k", int(text) if text.isdecimal() else given, 1, MAX_K)


def _window_of(command: Mapping[str, Any]) -> Sliding:
    missing = [field for field in ("k", "size", "slide") if command.get(field) is None]
    if missing:
        raise QueryError(f"{missing[0]} must be given in a command that adds a query, got none")
    origin = command.get("origin")
    return Sliding(command["size"], command["slide"], **({} if origin is None else {"origin": origin}))


def _ending(member: FamilyMember, at: int) -> FamilyMember:
    """Return the member without windows that end after `at`."""
    assigner = member.clock
    return replace(member, high=min(member.high, at + assigner.shift - assigner.size + 1))
