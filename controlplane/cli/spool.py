"""`controlplane spool send [DIR]`: deliver the events that ended drivers could not send.

The process becomes `python -m listeners.send_spools`: the spools are the agent's.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from controlplane.cli.options import data_dir_option, server_option, settings_of


@click.group()
def spool() -> None:
    """Events that drivers keep on disk until the server has them."""


@spool.command()
@click.argument("directory", required=False, type=click.Path(path_type=Path, file_okay=False))
@server_option
@data_dir_option
def send(directory: Path | None, url: str | None, data_dir: Path | None) -> None:
    """Deliver the spools of ended drivers in DIRECTORY; default: the spool directory of this user.

    The server is --server, or else CONTROLPLANE_URL. Spools for another server are kept unless --server is given.
    """
    environment = dict(os.environ)
    if not environment.get("CONTROLPLANE_TOKEN") and not environment.get("CONTROLPLANE_TOKEN_FILE"):
        environment["CONTROLPLANE_TOKEN_FILE"] = str(
            settings_of(data_dir=data_dir).agent_token_file.absolute()
        )
    arguments = [*([str(directory)] if directory else []), *(["--server", url] if url else [])]
    sys.stdout.flush()
    os.execve(sys.executable, [sys.executable, "-m", "listeners.send_spools", *arguments], environment)
