"""Commands that other packages add to `skyband`, through entry points of the group `skyband.commands`.

An entry point is named like its command and refers to a `typer.Typer`. It is looked up when the command is given or
help is shown, so that all other commands start as fast as without it.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Any

import typer

GROUP = "skyband.commands"
LAB = ("bench", "reproduce", "compare-policies")
"""The commands of skyband-lab, which the wheel does not contain."""


def added_commands() -> dict[str, EntryPoint]:
    """Find the commands of installed packages, in the order of their names."""
    return {entry.name: entry for entry in sorted(entry_points(group=GROUP))}


def load_command(name: str) -> Any:
    """Load an added command; None if no package adds it and skyband-lab does not have it either."""
    entry = added_commands().get(name)
    if entry is None:
        return _missing_command(name) if name in LAB else None
    command = typer.main.get_command(entry.load())
    command.name = name
    for each in (command, *getattr(command, "commands", {}).values()):
        each.help = reflow(each.help or "")
    return command


def _missing_command(name: str) -> Any:
    """A command that takes any arguments and tells what to install."""
    app = typer.Typer(add_completion=False)
    anything = {"ignore_unknown_options": True, "allow_extra_args": True}

    @app.command(name, add_help_option=False, context_settings=anything)
    def missing() -> None:
        msg = f"`skyband {name}` needs the package skyband-lab: run `make env` or `pip install ./lab` in a checkout"
        raise ImportError(msg)

    return typer.main.get_command(app)


def reflow(text: str) -> str:
    r"""Join the lines of each paragraph, so that it fits any width; indented paragraphs stay as they are.

    Examples
    --------
    >>> reflow("One line\nof two.\n\nExamples:\n\n  skyband demo\n")
    'One line of two.\n\nExamples:\n\n  skyband demo'
    """
    parts = text.strip("\n").split("\n\n")
    return "\n\n".join(part if part.startswith(" ") else part.replace("\n", " ") for part in parts)
