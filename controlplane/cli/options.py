"""Options that several commands share, and their conversion to settings.

An option that is not given is None: then the environment and the defaults of `controlplane.settings` apply.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from alerts.durations import parse_duration
from controlplane.server_urls import named_servers
from controlplane.settings import Settings, load

F = TypeVar("F", bound=Callable[..., Any])

data_dir_option = click.option(
    "--data-dir", type=click.Path(path_type=Path, file_okay=False), help="Tokens, store and logs."
)


def _joined(_: click.Context, option: click.Parameter, given: tuple[str, ...]) -> str | None:
    """Several `--server` as one text; each of them must then have a name."""
    try:
        named_servers(";".join(given))
    except ValueError as error:
        raise click.BadParameter(str(error), param=option) from None
    return ";".join(given) or None


server_option = click.option(
    "--server",
    "url",
    multiple=True,
    callback=_joined,
    metavar="[NAME=]URL",
    help="URL of the server; default: the local one. NAME=URL, repeated, for several servers side by side.",
)
database_option = click.option("--database-url", metavar="URL", help="sqlite:///FILE or postgresql://…")
json_option = click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
host_option = click.option("--host", help="Address to listen on.  [default: 127.0.0.1]")
allowed_host_option = click.option(
    "--allowed-host",
    "allowed_hosts",
    multiple=True,
    metavar="NAME",
    help="Host name that clients use, beside the local ones; *.example.com and * are patterns; may be repeated.",
)
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


class FiniteRange(click.FloatRange):
    """A number within bounds; `nan` and `inf`, which `click.FloatRange` takes, are refused."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number


ca_option = click.option(
    "--ca",
    "ca_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Certificates of a private CA, for an https server.  [environment: CONTROLPLANE_CA_FILE]",
)
_file = click.Path(path_type=Path, dir_okay=False)
tls_cert_option = click.option(
    "--tls-cert", type=_file, help="Certificate chain (PEM); a renewed file is loaded without a restart."
)
tls_key_option = click.option("--tls-key", type=_file, help="Its private key (PEM, without a password).")


def tls_options(command: F) -> F:
    """`--tls-cert` and `--tls-key`, for commands that listen."""
    return tls_cert_option(tls_key_option(command))


def client_options(command: F) -> F:
    """`--server`, `--data-dir` and `--ca`, for commands that call a server."""
    return server_option(data_dir_option(ca_option(command)))


def settings_of(**overrides: Any) -> Settings:
    """Settings from the environment; options of the command line take precedence."""
    return load(os.environ, overrides)
