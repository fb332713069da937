"""How a claim is decided: a rule looks at the rows of a figure and gives the numbers that the claim is about.

A claim names its rule and what the rule needs, and says in which range the numbers should lie (`want: [low, high]`,
null for no bound). All of them inside: confirmed. None: refuted. Some of them, or all of them inside the wider range
`loose`: different.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

Row = dict[str, Any]
Claim = Mapping[str, Any]


EACH = "run"
"""As the field along which a rule looks: each run by itself."""


class Seen(NamedTuple):
    """What a rule found: a number for each label, whether each is as claimed, and the rule in words."""

    numbers: dict[str, float]
    holds: list[bool]
    what: str  # the numbers are
    rule: str


def matching(rows: Iterable[Row], where: Mapping[str, Any] | None) -> list[Row]:
    """The rows whose fields have these values; a list allows each of its values."""
    wanted = {name: value if isinstance(value, list) else [value] for name, value in (where or {}).items()}
    return [row for row in rows if all(row.get(name) in values for name, values in wanted.items())]


def points(
    rows: Iterable[Row], value: str, along: str, where: Mapping[str, Any] | None = None, per: str | None = None
) -> dict[Any, float]:
    """The values along a field, the median where several rows (seeds) share a place.

    Examples
    --------
    >>> points([{"k": 1, "s": 3.0}, {"k": 1, "s": 5.0}, {"k": 2, "s": 8.0}], "s", "k")
    {1: 4.0, 2: 8.0}
    """
    held: dict[Any, list[float]] = {}
    for number, row in enumerate(matching(rows, where), 1):
        if row.get(value) is not None and (along in row or along == EACH):
            held.setdefault(row.get(along, number), []).append(row[value] / (row[per] if per else 1))
    ordered = sorted(held) if not any(isinstance(key, str) for key in held) else list(held)
    return {key: statistics.median(held[key]) for key in ordered}


def within(number: float, bounds: Any) -> bool:
    """Whether a number lies between bounds, either of which may be missing."""
    low, high = bounds
    return (low is None or number >= low) and (high is None or number <= high)


def bounds_in_words(bounds: Any) -> str:
    """A range as one would say it.

    Examples
    --------
    >>> bounds_in_words([None, 0.15]), bounds_in_words([2, 3]), bounds_in_words([1, None])
    ('at most 0.15', 'from 2 to 3', 'at least 1')
    """
    low, high = bounds
    if low is None:
        return f"at most {high:g}"
    return f"at least {low:g}" if high is None else f"from {low:g} to {high:g}"


def _taken(claim: Claim, numbers: dict[str, float], what: str) -> Seen:
    """The numbers, or one of them all (`take: mean, min, max`), held against `want`."""
    take = claim.get("take", "each")
    if take != "each" and numbers:
        numbers = {take: float(_TAKES[take](list(numbers.values())))}
    rule = f"{what}, {take}: {bounds_in_words(claim['want'])}"
    if "loose" in claim:
        rule += f" (different: {bounds_in_words(claim['loose'])})"
    return Seen(numbers, [within(number, claim["want"]) for number in numbers.values()], what, rule)


_TAKES: dict[str, Callable[[list[float]], float]] = {"mean": statistics.mean, "min": min, "max": max}


def _text(where: Mapping[str, Any] | None) -> str:
    return ", ".join(f"{value}" if name in _PLAIN else f"{name} {value}" for name, value in (where or {}).items())


MEASURES = {
    "us": "CPU time",
    "kept": "rows kept",
    "peak": "most rows kept",
    "searched": "part of the slides with a search",
    "ms_variation": "standard deviation / mean of the response time",
    "ms_mean": "mean response time",
    "ms_min": "least response time",
}
"""What the figures of the runs are called in the words of a rule."""


def _measure(claim: Claim) -> str:
    return str(claim.get("name", MEASURES.get(claim["value"], claim["value"])))


_PLAIN = ("engine", "policy", "way", "base")  # fields whose values speak for themselves


def value(rows: list[Row], claim: Claim) -> Seen:
    """A measure at each place along a field."""
    found = points(rows, claim["value"], claim["along"], claim.get("where"), claim.get("per"))
    name = _measure(claim) + (f" / {claim['per']}" if "per" in claim else "")
    of = _text(claim.get("where"))
    return _taken(
        claim, {f"{claim['along']} {key}": one for key, one in found.items()}, name + (f" ({of})" if of else "")
    )


def ratio(rows: list[Row], claim: Claim) -> Seen:
    """A measure of one over that of another, at each place that both have."""
    both = claim.get("where", {})
    a, b = (points(rows, claim["value"], claim["along"], {**both, **claim[side]}) for side in ("of", "to"))
    found = {f"{claim['along']} {key}": a[key] / b[key] for key in a if b.get(key)}
    name = _measure(claim)
    return _taken(claim, found, f"{name} of {_text(claim['of'])} / {_text(claim['to'])}")


def growth(rows: list[Row], claim: Claim) -> Seen:
    """How many times the measure grows between two places along a field."""
    found = points(rows, claim["value"], claim["along"], claim.get("where"))
    low, high = claim["between"]
    high = max(found, default=high) if high == "last" else high
    numbers = {f"{claim['along']} {low} to {high}": found[high] / found[low]} if low in found and high in found else {}
    name = _measure(claim)
    return _taken(
        claim, numbers, f"growth of {name} ({_text(claim.get('where'))}) from {claim['along']} {low} to {high}"
    )


def trend(rows: list[Row], claim: Claim) -> Seen:
    """Each step along a field over the one before: above 1 it rises."""
    found = list(points(rows, claim["value"], claim["along"], claim.get("where")).items())
    steps = {
        f"{claim['along']} {a} to {b}": second / first
        for (a, first), (b, second) in zip(found, found[1:], strict=False)
        if first
    }
    name = _measure(claim)
    return _taken(claim, steps, f"each step of {name} ({_text(claim.get('where'))}) over the one before")


def spread(rows: list[Row], claim: Claim) -> Seen:
    """The largest over the smallest along a field: 1 where it does not matter at all."""
    found = [one for one in points(rows, claim["value"], claim["along"], claim.get("where")).values() if one]
    numbers = {"largest / smallest": max(found) / min(found)} if found else {}
    name = _measure(claim)
    return _taken(claim, numbers, f"{name} ({_text(claim.get('where'))}) along {claim['along']}, largest / smallest")


def best(rows: list[Row], claim: Claim) -> Seen:
    """How far one is from the best of the others at each place; `better: high` or `low`. 0 or more: it is as good."""
    field, among = claim["by"], claim["among"]
    high = claim["better"] == "high"
    ours = points(rows, claim["value"], claim["along"], {**claim.get("where", {}), field: claim["who"]})
    others = [
        points(rows, claim["value"], claim["along"], {**claim.get("where", {}), field: name})
        for name in among
        if name != claim["who"]
    ]
    numbers = {}
    for key, one in ours.items():
        rest = [found[key] for found in others if key in found]
        if rest:
            numbers[f"{claim['along']} {key}"] = one / max(rest) - 1 if high else min(rest) / one - 1
    name = _measure(claim)
    rivals = ", ".join(str(one) for one in among if one != claim["who"])
    return _taken(claim, numbers, f"lead of {claim['who']} in {name} over the best of {rivals}")


def order(rows: list[Row], claim: Claim) -> Seen:
    """Groups from small to large: the largest of each group over the smallest of the next; below 1 they are apart."""
    found = {
        name: points(rows, claim["value"], claim["along"], {**claim.get("where", {}), claim["by"]: name})
        for group in claim["groups"]
        for name in group
    }
    numbers = {}
    for key in next(iter(found.values()), {}):
        pairs = [
            max(found[a][key] for a in before) / min(found[b][key] for b in behind)
            for before, behind in zip(claim["groups"], claim["groups"][1:], strict=False)
            if all(key in found[name] for name in (*before, *behind))
        ]
        if pairs:
            numbers[f"{claim['along']} {key}"] = max(pairs)
    name = _measure(claim)
    groups = " < ".join("{" + ", ".join(group) + "}" for group in claim["groups"])
    return _taken(claim, numbers, f"{name}: {groups}, the largest of a group / the smallest of the next")


def printed(rows: list[Row], claim: Claim) -> Seen:
    """Our number minus the printed one, or its ratio to it (`relative: true`), for each that was printed."""
    numbers = {}
    for entry in claim["printed"]:
        *_, number = entry.values()
        where = dict(list(entry.items())[:-1])
        found = points(rows, claim["value"], next(iter(where)), {**claim.get("where", {}), **where})
        for one in found.values():
            numbers[_text(where)] = one / number if claim.get("relative") else one - number
    how = "measured / printed" if claim.get("relative") else "measured - printed"
    return _taken(claim, numbers, f"{claim.get('name', claim['value'])}, {how}")


def jumps(rows: list[Row], claim: Claim) -> Seen:
    """How many steps along a field raise the measure by more than a quarter: a step function has few."""
    found = list(points(rows, claim["value"], claim["along"], claim.get("where")).values())
    count = sum(b > 1.25 * a for a, b in zip(found, found[1:], strict=False))
    numbers = {"steps": float(count)} if found else {}
    return _taken(
        claim, numbers, f"steps of {_measure(claim)} ({_text(claim.get('where'))}) that raise it by a quarter"
    )


def lowest(rows: list[Row], claim: Claim) -> Seen:
    """Where along a field the measure is least, divided by a field of the rows (`per`) if there is one."""
    found = points(rows, claim["value"], claim["along"], claim.get("where"))
    chosen = matching(rows, claim.get("where"))
    unit = chosen[0][claim["per"]] if chosen and "per" in claim else 1
    numbers = {claim["along"]: min(found, key=lambda place: found[place]) / unit} if found else {}
    per = f" / {claim['per']}" if "per" in claim else ""
    return _taken(
        claim, numbers, f"the {claim['along']}{per} of the least {_measure(claim)} ({_text(claim.get('where'))})"
    )


RULES: dict[str, Callable[[list[Row], Claim], Seen]] = {
    "value": value,
    "ratio": ratio,
    "growth": growth,
    "trend": trend,
    "spread": spread,
    "best": best,
    "order": order,
    "printed": printed,
    "jumps": jumps,
    "lowest": lowest,
}
"""The rules by the names that the grid files use."""
