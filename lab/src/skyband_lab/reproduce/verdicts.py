"""What the data says about a claim: confirmed, refuted, or different and why. Decided by a rule, never by hand."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from skyband_lab.reproduce.rules import RULES, Claim, Row, matching, within
from skyband_lab.reproduce.runs import rows_of

if TYPE_CHECKING:
    from skyband_lab.reproduce.grid import Figure

CONFIRMED, REFUTED, DIFFERENT, UNTESTED = "confirmed", "refuted", "different", "not run"


class Verdict(NamedTuple):
    """One claim of a paper, and what became of it."""

    paper: str
    figure: str
    says: str
    cite: str
    verdict: str
    what: str  # was measured
    measured: str
    rule: str
    because: str

    def line(self) -> str:
        """All in one line."""
        why = f" ({self.because})" if self.because else ""
        return f"{self.verdict}: {self.says} [{self.cite}]: {self.measured}{why}"


def verdict_on(figure: Figure, claim: Claim, rows: list[Row]) -> Verdict:
    """Decide one claim.

    Examples
    --------
    >>> from skyband_lab.reproduce.grid import figure
    >>> claim = {"says": "half", "cite": "6", "rule": "ratio", "value": "us", "along": "k", "of": {"engine": "a"},
    ...          "to": {"engine": "b"}, "want": [None, 0.5]}
    >>> rows = [{"k": 1, "engine": "a", "us": 1.0}, {"k": 1, "engine": "b", "us": 4.0}]
    >>> verdict_on(figure("mintopk", "figure-7"), claim, rows).verdict
    'confirmed'
    """
    seen = RULES[claim["rule"]](rows, claim)
    if not seen.holds:
        said, measured = UNTESTED, "no run measures it"
    else:
        said = CONFIRMED if all(seen.holds) else DIFFERENT if any(seen.holds) or _near(claim, seen.numbers) else REFUTED
        measured = told(seen.numbers, sum(seen.holds))
    because = [] if said == UNTESTED else [_reason(claim, said, seen.numbers)]
    if any(row.get("filled") is False for row in _concerned(claim, rows)):
        because.append("measured before the longest window was full")
    return Verdict(
        figure.paper,
        figure.name,
        claim["says"],
        claim["cite"],
        said,
        seen.what,
        measured,
        seen.rule,
        "; ".join(filter(None, because)),
    )


def verdicts(figure: Figure, folder: Path) -> list[Verdict]:
    """All claims of a figure, by its results."""
    _, rows = rows_of(folder, figure)
    return [verdict_on(figure, claim, rows) for claim in figure.claims]


def _reason(claim: Claim, said: str, numbers: dict[str, float]) -> str:
    """What the grid file says of this verdict, or of numbers that are all `above` or `below` what was claimed."""
    reasons = claim.get("because", {})
    low, high = claim["want"]
    if said != CONFIRMED and high is not None and all(number > high for number in numbers.values()):
        return str(reasons.get("above", reasons.get(said, "")))
    if said != CONFIRMED and low is not None and all(number < low for number in numbers.values()):
        return str(reasons.get("below", reasons.get(said, "")))
    return str(reasons.get(said, ""))


def _concerned(claim: Claim, rows: list[Row]) -> list[Row]:
    """The rows that a claim is about."""
    sides = [claim[side] for side in ("of", "to") if side in claim] or [{}]
    if "by" in claim:
        names = claim.get("among") or [name for group in claim["groups"] for name in group]
        sides = [{claim["by"]: names}]
    return [row for side in sides for row in matching(rows, {**claim.get("where", {}), **side})]


def _near(claim: Claim, numbers: dict[str, float]) -> bool:
    """Whether all numbers lie in the wider range, if there is one."""
    return "loose" in claim and all(within(number, claim["loose"]) for number in numbers.values())


def told(numbers: dict[str, float], held: int) -> str:
    """The numbers in words: each of a few, the range of many.

    Examples
    --------
    >>> told({"k 1": 0.5}, 1), told({"k 1": 0.5, "k 2": 0.25}, 1)
    ('0.5', '0.5 at k 1, 0.25 at k 2; as claimed in 1 of 2')
    """
    if len(numbers) == 1:
        return short(next(iter(numbers.values())))
    part = f"; as claimed in {held} of {len(numbers)}" if held < len(numbers) else ""
    if len(numbers) <= _FEW:
        return ", ".join(f"{short(number)} at {place}" for place, number in numbers.items()) + part
    if len(set(numbers.values())) == 1:
        return f"{short(next(iter(numbers.values())))} in all {len(numbers)} places{part}"
    low, high = min(numbers, key=lambda n: numbers[n]), max(numbers, key=lambda n: numbers[n])
    return f"{short(numbers[low])} ({low}) to {short(numbers[high])} ({high})" + part


_FEW = 5


def short(number: Any) -> str:
    """A number in three digits.

    Examples
    --------
    >>> short(0.012345), short(12345.6), short(2_500_000.0), short(None)
    ('0.0123', '12,300', '2,500,000', '')
    """
    if number is None:
        return ""
    if isinstance(number, str):
        return number
    if number == 0:
        return "0"
    if abs(number) >= 1000:
        return f"{float(f'{number:.3g}'):,.0f}"
    return f"{number:.3g}" if abs(number) >= 1e-3 else f"{number:.2g}"
