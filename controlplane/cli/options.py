"""Options that several commands share, and their conversion to settings.

An option that is not given is None: then the environment and the defaults of `controlplane.settings` apply.
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
server_option = click.option(
    "--server", "url", metavar="URL", help="URL of the server; default: the local one."
)
database_option = click.option("--database-url", metavar="URL", help="sqlite:///FILE or postgresql://…")
json_option = click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
host_option = click.option("--host", help="Address to listen on.  [default: 127.0.0.1]")
port_option = click.option("--port", type=click.IntRange(0, 65535), help="[default: 8420]")
ui_port_option = click.option("--ui-port", type=click.IntRange(0, 65535), help="[default: 8501]")


class Duration(click.ParamType):
    """`2h` or `1h30m` as seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            return parse_duration(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


DURATION = Duration()


def client_options(command: F) -> F:
    """`--server` and `--data-dir`, for commands that call a server."""
    return server_option(data_dir_option(command))


def settings_of(**overrides: Any) -> Settings:
    """Settings from the environment; options of the command line take precedence."""
    return load(os.environ, overrides)
