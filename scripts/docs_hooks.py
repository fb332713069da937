"""What mkdocs asks while it builds: the table of engines, from the registry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from skyband import ENGINES

if TYPE_CHECKING:
    from skyband.engines.registry import EngineEntry

MARKER = "<!-- engines -->"

_KINDS = {"slide": "sliding, tumbling, counting", "row": "after every row, by time"}


def _yes(value: bool) -> str:
    return "yes" if value else "no"


COLUMNS: dict[str, Callable[[EngineEntry], str]] = {
    "engine": lambda entry: f"`{entry.name}`",
    "exact": lambda entry: _yes(entry.traits.exact),
    "groups": lambda entry: _yes(entry.traits.groups),
    "windows": lambda entry: "; ".join(_KINDS.get(k, k) for k in sorted(entry.traits.windows, reverse=True)),
    "many queries": lambda entry: "one structure" if entry.traits.shared else "one engine each",
    "minimal": lambda entry: _yes(entry.traits.minimal),
    "cost of a row": lambda entry: entry.traits.cost,
    "memory": lambda entry: entry.traits.memory,
    "from": lambda entry: entry.traits.paper,
}


def engines_table(columns: Sequence[str] = tuple(COLUMNS)) -> str:
    """The registry as a Markdown table."""
    lines = [list(columns), ["---"] * len(columns)]
    lines += [[COLUMNS[name](entry).replace("|", "\\|") for name in columns] for entry in ENGINES.values()]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the table where a page asks for it."""
    return markdown.replace(MARKER, engines_table())
