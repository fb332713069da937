"""The command `skyband`. Its rooms parse arguments and print; what they call loads when it is called."""

from __future__ import annotations

import sys
import traceback
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from skyband.cli import bench, demo, explain, view
from skyband.errors import SkybandError


class _Errors(TyperGroup):
    """A group of commands whose errors are one line; a traceback only helps those who ask for it."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except SkybandError as error:
            if ctx.params.get("debug"):
                traceback.print_exc()
            else:
                print(f"skyband: {' '.join(str(error).split())}", file=sys.stderr)
            raise typer.Exit(2) from None


app = typer.Typer(
    name="skyband",
    cls=_Errors,
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


@app.callback(help="Keep the k best rows of a stream up to date.", epilog="Start with: skyband demo")
def _skyband(
    *,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """What all commands share; `_Errors` and `_version` read it."""


app.command("demo", help=demo.HELP)(demo.demo)
app.command("explain", help=explain.HELP)(explain.explain)
app.add_typer(bench.app, name="bench")
app.add_typer(view.app, name="view")


def main() -> None:
    """Run the command that the arguments name."""
    app()
