"""Builds the engine that serves a family of queries."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from skyband.engines.plan import DEFAULT_ENGINE, check_options, is_shared
from skyband.engines.registry import ENGINES

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from skyband.engines.family import QueryFamily
    from skyband.engines.protocol import Engine, EngineClass


def build(
    name: str,
    family: QueryFamily,
    resume: Mapping[str, np.ndarray] | None = None,
    options: Mapping[str, object] | None = None,
    *,
    fixed: bool = False,
) -> Engine:
    """Build an engine for `family`, or restore it from a snapshot.

    A single query, or a family that shares a structure, gets one engine, behind `PerGroup` if it takes no group
    column; any other family gets one engine for every member. Where members are `fixed`, none will be added or removed.
    """
    check_options(name, family, options)
    entry = ENGINES[name]
    if not family.is_single and not is_shared(name, family, fixed=fixed):
        from skyband.engines.independent import Independent

        alone = DEFAULT_ENGINE if entry.traits.shared else name
        return Independent(partial(build, alone, options=options), family, resume)
    given: dict[str, Any] = dict(options or {})
    engine_class: Any = entry.engine_class()
    if family.points and entry.traits.points == "watched":
        from skyband.engines.watched import Watched

        engine_class, given["engine"] = Watched, name
    make: EngineClass = partial(engine_class, **given)
    if family.query.per and (family.points or not entry.traits.groups):
        from skyband.engines.per_group import PerGroup

        return PerGroup(make, family, resume)
    return make(family, resume)
