"""Joins for tests that vary any of their options: one flat mapping, sorted into the parts of a join."""

from dataclasses import fields, replace

import skyband as sb

PARTS = {"refresh": sb.Refresh, "calls": sb.Calls}


def join_of(table=None, **options):
    """A join with options of `sb.Join`, `sb.Refresh` and `sb.Calls` side by side."""
    parts = {part: {f.name: options.pop(f.name) for f in fields(of) if f.name in options} for part, of in PARTS.items()}
    return sb.Join(table, **options, **{part: PARTS[part](**given) for part, given in parts.items()})


def refreshed(join, **change):
    """The join with other options of `sb.Refresh`."""
    return replace(join, refresh=replace(join.refresh, **change))
