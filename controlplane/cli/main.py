"""The entry point: the group of all commands, and the one place where errors become exit codes.

0 done   1 it was tried and did not work   2 a mistake of the user's   130 interrupted
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from controlplane.cli.loading import loaded
from controlplane.errors import ControlPlaneError, StoreUnavailable

#: Command → module and name within; nothing is imported before it is called for.
COMMANDS = {
    "demo": "controlplane.cli.demo:demo",
    "up": "controlplane.cli.serve:up",
    "serve": "controlplane.cli.serve:serve",
    "ui": "controlplane.cli.serve:ui",
    "run": "controlplane.cli.run:run",
    "queries": "controlplane.cli.fleet:queries",
    "actions": "controlplane.cli.fleet:actions",
    "stop": "controlplane.cli.actions:stop",
    "start": "controlplane.cli.actions:start",
    "restart": "controlplane.cli.actions:restart",
    "retire": "controlplane.cli.actions:retire",
    "alerts": "controlplane.cli.alerts:alerts",
    "silence": "controlplane.cli.silences:silence",
    "rules": "controlplane.cli.rules:rules",
    "doctor": "controlplane.cli.checkpoints.doctor:doctor",
    "checkpoints": "controlplane.cli.checkpoints.listing:checkpoints",
    "shape": "controlplane.cli.checkpoints.listing:shape",
    "rewind": "controlplane.cli.checkpoints.repair:rewind",
    "repair": "controlplane.cli.checkpoints.repair:repair",
    "undo": "controlplane.cli.checkpoints.undo:undo",
    "preflight": "controlplane.cli.checkpoints.preflight:preflight",
    "token": "controlplane.cli.tokens:token",
    "db": "controlplane.cli.store:db",
    "config": "controlplane.cli.store:config",
    "history": "controlplane.cli.history.commands:history",
}


class ReaderGone(Exception):
    """Whoever read our output has gone."""


class LazyGroup(click.Group):
    """A group whose commands are imported when they are used."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            # Click would end the process with 1, which means that something failed.
            raise ReaderGone from error

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        try:
            return loaded(COMMANDS, cmd_name)
        except ModuleNotFoundError as error:
            raise click.UsageError(_missing(cmd_name, error)) from None


def _missing(command: str, error: ModuleNotFoundError) -> str:
    extra = "pipeline" if error.name == "pyspark" else "server"
    return f"{command} needs {error.name}: pip install 'spark-controlplane[{extra}]'"


@click.group(
    cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(package_name="spark-controlplane", prog_name="controlplane")
def cli() -> None:
    """A control plane for Apache Spark Structured Streaming."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and end the process with its exit code."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code. Mistakes are one line each on standard error."""
    try:
        code = cli.main(args=arguments, prog_name="controlplane", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return 2
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx else "controlplane"
        return _say(f"{where}: {' '.join(error.format_message().split())}", 2)
    except click.ClickException as error:
        return _say(f"controlplane: {error.format_message()}", error.exit_code)
    except ControlPlaneError as error:
        code = 1 if isinstance(error, StoreUnavailable) else 2
        return _say("\n".join(f"controlplane: {line}" for line in str(error).splitlines()), code)
    except (click.Abort, KeyboardInterrupt):
        return 130
    except (ReaderGone, BrokenPipeError):
        # Python would complain once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def _say(text: str, code: int) -> int:
    click.echo(text, err=True)
    return code


if __name__ == "__main__":
    main()
