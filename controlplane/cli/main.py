"""Entry point of the command line: the group of all commands, and the mapping of errors to exit codes.

0 done   1 tried and failed   2 usage error   130 interrupted   141 output closed
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from controlplane.cli.loading import loaded
from controlplane.errors import ControlPlaneError, StoreUnavailable

#: Command -> module:attribute; imported when the command is used.
COMMANDS = {
    "demo": "controlplane.cli.demo:demo",
    "up": "controlplane.cli.serve:up",
    "serve": "controlplane.cli.serve:serve",
    "ui": "controlplane.cli.serve:ui",
    "run": "controlplane.cli.run:run",
    "spool": "controlplane.cli.spool:spool",
    "queries": "controlplane.cli.fleet:queries",
    "actions": "controlplane.cli.fleet:actions",
    "capacity": "controlplane.cli.fleet:capacity",
    "stop": "controlplane.cli.actions:stop",
    "start": "controlplane.cli.actions:start",
    "restart": "controlplane.cli.actions:restart",
    "retire": "controlplane.cli.actions:retire",
    "bulk-actions": "controlplane.cli.bulk_actions:bulk_actions",
    "suspend": "controlplane.cli.supervision:suspend",
    "resume": "controlplane.cli.supervision:resume",
    "policy": "controlplane.cli.supervision:policy",
    "ledger": "controlplane.cli.supervision:ledger",
    "incidents": "controlplane.cli.alerts:incidents",
    "apps": "controlplane.cli.apps:apps",
    "alerts": "controlplane.cli.alerts:alerts",
    "silence": "controlplane.cli.silences:silence",
    "notify": "controlplane.cli.notify:notify",
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


class OutputClosed(Exception):
    """The reader of standard output has closed it."""


class LazyGroup(click.Group):
    """The group of all commands; each is imported when it is used."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            # Click would exit with 1, which means that the command failed.
            raise OutputClosed from error

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
    """Run the command line and return the exit code. Each error is one line on standard error."""
    try:
        code = cli.main(args=arguments, prog_name="controlplane", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return 2
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx else "controlplane"
        return _fail(f"{where}: {' '.join(error.format_message().split())}", 2)
    except click.ClickException as error:
        return _fail(f"controlplane: {error.format_message()}", error.exit_code)
    except ControlPlaneError as error:
        code = 1 if isinstance(error, StoreUnavailable) else 2
        return _fail("\n".join(f"controlplane: {line}" for line in str(error).splitlines()), code)
    except (click.Abort, KeyboardInterrupt):
        return 130
    except (OutputClosed, BrokenPipeError):
        # Python flushes standard output once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def _fail(text: str, code: int) -> int:
    click.echo(text, err=True)
    return code


if __name__ == "__main__":
    main()
