"""The `controlplane history` group. Each command is in a module of its own, imported when it is used."""

from __future__ import annotations

from typing import Any

import click

from controlplane.cli.loading import loaded
from controlplane.console.errors import ServerFailed, UsageProblem
from controlplane.errors import ControlPlaneError

#: Command → its module and name.
COMMANDS = {
    "import": "controlplane.cli.history.import_logs:import_logs",
    "ingest": "controlplane.cli.history.ingest:ingest",
    "rollup": "controlplane.cli.history.rollup:rollup",
    "report": "controlplane.cli.history.report:report",
    "offload": "controlplane.cli.history.offload:offload",
    "compact": "controlplane.cli.history.compact:compact",
}


class HistoryGroup(click.Group):
    """A group that imports its commands on use: some need PySpark, which may not be installed."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ControlPlaneError as error:
            if error.code == "spark":  # the cluster failed: not a usage error
                raise ServerFailed(str(error)) from None
            raise

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        try:
            return loaded(COMMANDS, cmd_name)
        except ModuleNotFoundError as error:
            return _missing(cmd_name, error.name or "a module")


def _missing(name: str, module: str) -> click.Command:
    """A placeholder for a command that cannot be imported: it fails when it is called and leaves `--help`
    intact.
    """

    def fail() -> None:
        raise UsageProblem(
            f"history {name} needs {module}: pip install 'spark-controlplane[pipeline,server]'"
        )

    context = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}
    return click.Command(
        name, callback=fail, context_settings=context, short_help=f"Not available: {module} is missing."
    )


@click.group(cls=HistoryGroup)
def history() -> None:
    """Query history in the lake: import, ingest, offload, compact, rollup, report."""
