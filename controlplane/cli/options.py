"""Options that several commands share, and how they become settings.

What is not given stays None, so that the environment and then the defaults of `controlplane.settings` decide.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from alerts.durations import parse_duration
from controlplane.settings import Settings, load

F = TypeVar("F", bound=Callable[..., Any])

data_dir_option = click.option(
    "--data-dir", type=click.Path(path_type=Path, file_okay=False), help="Tokens, store and logs."
)
server_option = click.option("--server", "url", metavar="URL", help="The server; default: the local one.")
database_option = click.option("--database-url", metavar="URL", help="sqlite:///FILE or postgresql://…")
json_option = click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
host_option = click.option("--host", help="Address to listen on.  [default: 127.0.0.1]")
port_option = click.option("--port", type=click.IntRange(0, 65535), help="[default: 8420]")
ui_port_option = click.option("--ui-port", type=click.IntRange(0, 65535), help="[default: 8501]")


class Duration(click.ParamType):
    """`2h`, `1h30m` → seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            return parse_duration(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


DURATION = Duration()


def client_options(command: F) -> F:
    """`--server` and `--data-dir`, for commands that speak to a server."""
    return server_option(data_dir_option(command))


def settings_of(**overrides: Any) -> Settings:
    """Settings from the environment, with the command line over it."""
    return load(os.environ, overrides)
