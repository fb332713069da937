"""The command `skyband`. Its modules parse arguments and print; what they call is imported when it is called."""

from __future__ import annotations

import os
import re
import select
import sys
import traceback
from importlib.metadata import EntryPoint, entry_points
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from skyband.cli import demo, doctor, explain, init, parse, run, view, warm
from skyband.cli._common import ExitCode, exit_code
from skyband.errors import MissingLibraryError, SkybandError

ENTRY_POINTS = "skyband.commands"
"""Entry points of other packages that add commands: each has the name of its command and refers to a `typer.Typer`.

They are looked up when such a command is given or help is shown, so that the other commands start as fast as without.
"""

LAB_COMMANDS = ("bench", "reproduce", "compare-policies")
"""The commands of skyband-lab, which is not part of the wheel."""


class _Group(TyperGroup):
    """Our commands and added ones; errors are printed as one line, with `--debug` as a traceback."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*super().list_commands(ctx), *_added_commands()]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return super().get_command(ctx, cmd_name) or _load_command(cmd_name)

    def make_context(self, *args: Any, **options: Any) -> Any:
        try:
            return super().make_context(*args, **options)
        except BrokenPipeError:  # of the version or a help text
            if not _close_broken_stdout():
                raise
            raise typer.Exit(ExitCode.OK) from None

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (typer.Exit, typer.Abort):
            raise
        except KeyboardInterrupt:
            raise typer.Exit(ExitCode.INTERRUPTED) from None
        except Exception as error:
            if hasattr(error, "exit_code"):  # of a wrong option, which typer shows
                raise
            if isinstance(error, BrokenPipeError) and _close_broken_stdout():
                raise typer.Exit(ExitCode.OK) from None
            if ctx.params.get("debug"):
                traceback.print_exc()
            else:
                print(f"skyband: {_error_line(error)}", file=sys.stderr)
            raise typer.Exit(exit_code(error)) from None


def _added_commands() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in sorted(entry_points(group=ENTRY_POINTS))}


def _load_command(name: str) -> Any:
    """Load an added command; None if neither an installed package nor skyband-lab has it."""
    entry = _added_commands().get(name)
    if entry is None:
        return _missing_command(name) if name in LAB_COMMANDS else None
    command = typer.main.get_command(entry.load())
    command.name = name
    for each in (command, *getattr(command, "commands", {}).values()):
        each.help = _reflow(each.help or "")
    return command


def _missing_command(name: str) -> Any:
    """Return a command that takes any arguments and says what to install."""
    app = typer.Typer(add_completion=False)
    anything = {"ignore_unknown_options": True, "allow_extra_args": True}

    @app.command(name, add_help_option=False, context_settings=anything)
    def missing() -> None:
        raise ImportError(
            f"`skyband {name}` needs the package skyband-lab: run `make env` or `pip install ./lab` in a checkout"
        )

    return typer.main.get_command(app)


def _reflow(text: str) -> str:
    r"""Join the lines of each paragraph, so that it fits any width; indented paragraphs stay as they are.

    Examples
    --------
    >>> _reflow("One line\nof two.\n\nExamples:\n\n  skyband demo\n")
    'One line of two.\n\nExamples:\n\n  skyband demo'
    """
    parts = text.strip("\n").split("\n\n")
    return "\n\n".join(part if part.startswith(" ") else part.replace("\n", " ") for part in parts)


# ---------------------------------------------------------------- errors


def _error_line(error: Exception) -> str:
    """Return an error in one line."""
    if isinstance(error, ModuleNotFoundError):  # of a library; commands import what they need when they are called
        error = MissingLibraryError.of("this command", error.name)
    text = " ".join(str(error).split())
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    if type(error).__module__.startswith("pyspark."):
        return _spark_error(str(error))
    if isinstance(error, SkybandError | ImportError):
        return text
    hint = "" if isinstance(error, OSError) else " (skyband --debug ... shows where)"
    return f"{type(error).__name__}: {text}{hint}"


def _spark_error(text: str) -> str:
    r"""Return the message of an error of Spark without the plan of the query and the codes.

    Examples
    --------
    >>> _spark_error("[PATH_NOT_FOUND] Path does not exist: file:/x. SQLSTATE: 42K03\n'Project ...")
    'Path does not exist: file:/x.'
    >>> _spark_error("[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number.")
    'Java gateway process exited before sending its port number. (see skyband doctor)'
    """
    line = next((line for line in text.splitlines() if line.strip()), "Spark failed")
    message = re.sub(r"^\[[A-Z_.]+\] *", "", re.split(r" *;? *SQLSTATE", line)[0]).strip()
    return f"{message} (see skyband doctor)" if "JAVA_GATEWAY" in text else message


def _close_broken_stdout() -> bool:
    """Whether the reader of stdout has closed it, as `head` does; if so, later output is discarded."""
    try:
        sys.stdout.flush()
        if not hasattr(select, "poll"):
            return False
        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)
        if not any(state & (select.POLLERR | select.POLLHUP) for _, state in poll.poll(0)):
            return False
    except BrokenPipeError:
        pass
    except (OSError, ValueError):  # stdout is not a file
        return False
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes stdout once more when it exits
    return True


# ---------------------------------------------------------------- commands

_EPILOG = """Start with: skyband demo

Exit codes: 0 success, 1 unexpected error, 2 wrong command or query, 3 wrong data, 4 wrong state, 5 missing Java,
library or port."""

app = typer.Typer(
    name="skyband",
    cls=_Group,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from skyband import __version__

        print(f"skyband {__version__}")
        raise typer.Exit


@app.callback(help="Maintain the k highest-scoring rows of a stream.", epilog=_EPILOG)
def _skyband(
    *,
    debug: Annotated[
        bool, typer.Option("--debug", envvar="SKYBAND_DEBUG", help="Show the traceback of an error.")
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Declare the options of all commands, which `_Group` and `_print_version` read."""


app.command("run", help=run.HELP)(run.run)
app.command("demo", help=demo.HELP)(demo.demo)
app.command("init", help=init.HELP)(init.init)
app.command("parse", help=parse.HELP)(parse.parse)
app.command("explain", help=explain.HELP)(explain.explain)
app.command("doctor", help=doctor.HELP)(doctor.doctor)
app.command("warm", help=warm.HELP)(warm.warm)
app.add_typer(view.app, name="view")

for _typer in (app, view.app):
    for _command in _typer.registered_commands:
        _command.help = _reflow(_command.help or "")


def _raise_broken_pipe(_console: object) -> NoReturn:
    raise BrokenPipeError


def main() -> None:
    """Run the command that the arguments name. Exits with 0 if the reader of its output has closed it."""
    from rich.console import Console

    Console.on_broken_pipe = _raise_broken_pipe  # type: ignore[method-assign, assignment]  # Rich's exits with 1
    try:
        app()
    finally:
        _close_broken_stdout()
