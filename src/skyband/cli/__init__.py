"""The command `skyband`. Its rooms parse arguments and print; what they call loads when it is called."""

from __future__ import annotations

import os
import re
import select
import sys
import traceback
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from skyband.cli import _commands, _exit, demo, doctor, explain, init, parse, run, view, warm
from skyband.errors import MissingLibraryError, SkybandError


class _Group(TyperGroup):
    """Our commands and those that other packages add; errors are printed as one line, with `--debug` as a traceback."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*super().list_commands(ctx), *_commands.added_commands()]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return super().get_command(ctx, cmd_name) or _commands.load_command(cmd_name)

    def make_context(self, *args: Any, **options: Any) -> Any:
        try:
            return super().make_context(*args, **options)
        except BrokenPipeError:  # of the version or a help text
            if not _reader_gone():
                raise
            raise typer.Exit(_exit.FINE) from None

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (typer.Exit, typer.Abort):
            raise
        except KeyboardInterrupt:
            raise typer.Exit(_exit.INTERRUPTED) from None
        except Exception as error:
            if hasattr(error, "exit_code"):  # of a wrong option, which typer shows
                raise
            if isinstance(error, BrokenPipeError) and _reader_gone():
                raise typer.Exit(_exit.FINE) from None
            raise typer.Exit(_told(error, debug=ctx.params.get("debug"))) from None


def _told(error: Exception, *, debug: bool) -> int:
    """Say what went wrong, and give the exit code for it."""
    if debug:
        traceback.print_exc()
        return _exit.code(error)
    if isinstance(error, ModuleNotFoundError):  # of a library; commands load what they need when they are called
        error = MissingLibraryError.of("this command", error.name)
    said = " ".join(str(error).split())
    if isinstance(error, OSError) and error.filename is not None:
        print(f"skyband: {error.filename}: {error.strerror}", file=sys.stderr)
        return _exit.code(error)
    if type(error).__module__.startswith("pyspark."):
        said = _spark(str(error))
    elif not isinstance(error, (SkybandError, ImportError)):
        hint = "skyband --debug ... shows where" if not isinstance(error, OSError) else ""
        said = f"{type(error).__name__}: {said}" + (f" ({hint})" if hint else "")
    print(f"skyband: {said}", file=sys.stderr)
    return _exit.code(error)


def _spark(said: str) -> str:
    r"""What an error of Spark says, without the plan of the query and the codes around it.

    Examples
    --------
    >>> _spark("[PATH_NOT_FOUND] Path does not exist: file:/x. SQLSTATE: 42K03\n'Project ...")
    'Path does not exist: file:/x.'
    >>> _spark("[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number.")
    'Java gateway process exited before sending its port number. (skyband doctor says more)'
    """
    line = next((line for line in said.splitlines() if line.strip()), "Spark failed")
    found = re.sub(r"^\[[A-Z_.]+\] *", "", re.split(r" *;? *SQLSTATE", line)[0]).strip()
    return f"{found} (skyband doctor says more)" if "JAVA_GATEWAY" in said else found


_EPILOG = """Start with: skyband demo

Exit codes: 0 done, 1 unforeseen, 2 the command or query is wrong, 3 the data, 4 the saved state, 5 the machine."""

app = typer.Typer(
    name="skyband",
    cls=_Group,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from skyband import __version__

        print(f"skyband {__version__}")
        raise typer.Exit


@app.callback(help="Keep the k best rows of a stream up to date.", epilog=_EPILOG)
def _skyband(
    *,
    debug: Annotated[
        bool, typer.Option("--debug", envvar="SKYBAND_DEBUG", help="Show the traceback of an error.")
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """What all commands share; `_Group` and `_version` read it."""


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
        _command.help = _commands.reflow(_command.help or "")


def _reader_gone() -> bool:
    """Whether whoever read stdout has closed it, as `head` does; then nothing more is written there."""
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
    except (OSError, ValueError):  # stdout is no file
        return False
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes stdout once more at its end
    return True


def _break_pipe(_console: object) -> NoReturn:
    """In place of Rich's handler, which exits with 1."""
    raise BrokenPipeError


def main() -> None:
    """Run the command that the arguments name. Exits with 0 if the reader of its output has had enough."""
    from rich.console import Console

    Console.on_broken_pipe = _break_pipe  # type: ignore[method-assign, assignment]
    try:
        app()
    finally:
        _reader_gone()
