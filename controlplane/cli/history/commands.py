"""`controlplane history …`: the long past. The group; each command is in a file of its own, loaded when it is used."""

from __future__ import annotations

from typing import Any

import click

from controlplane.cli.loading import loaded
from controlplane.console.errors import ServerFailed, UsageProblem
from controlplane.errors import ControlPlaneError

#: Command → module and name within.
COMMANDS = {
    "import": "controlplane.cli.history.import_logs:import_logs",
    "ingest": "controlplane.cli.history.ingest:ingest",
    "rollup": "controlplane.cli.history.rollup:rollup",
    "report": "controlplane.cli.history.report:report",
    "offload": "controlplane.cli.history.offload:offload",
    "compact": "controlplane.cli.history.compact:compact",
}


class HistoryGroup(click.Group):
    """Its commands are imported when they are used: some need PySpark, which is not everywhere."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ControlPlaneError as error:
            if error.code == "spark":  # the cluster could not; nothing the user did wrong
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
    """A command that cannot be loaded says so when it is called, and spoils no list of commands."""

    def say() -> None:
        raise UsageProblem(
            f"history {name} needs {module}: pip install 'spark-controlplane[pipeline,server]'"
        )

    settings = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}
    return click.Command(
        name, callback=say, context_settings=settings, short_help=f"Not available: {module} is missing."
    )


@click.group(cls=HistoryGroup)
def history() -> None:
    """The long past of all queries: the lake, what fills it and what is made of it."""
