"""`controlplane db upgrade` and `controlplane config check`: both before a server starts, neither needs one.

`check` shows the settings in force with the secrets masked.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import click

from controlplane.cli.options import data_dir_option, database_option, settings_of
from controlplane.settings import SECRETS

MASK = "(set)"


@click.group()
def db() -> None:
    """The store."""


@db.command("upgrade")
@database_option
@data_dir_option
def upgrade_store(**where: Any) -> None:
    """Bring the store's schema to this release's. Safe to repeat."""
    from controlplane.store.engine import default_url, open_engine, upgrade

    settings = settings_of(**where)
    engine = open_engine(settings.database_url or default_url(settings.data_dir))
    try:
        upgrade(engine)
    finally:
        engine.dispose()
    click.echo("the store is up to date")


@click.group()
def config() -> None:
    """The configuration."""


@config.command()
@data_dir_option
def check(data_dir: Path | None) -> None:
    """Name every mistake of the configuration (exit 2), or show what is in force."""
    settings = settings_of(data_dir=data_dir)
    for item in dataclasses.fields(settings):
        value = getattr(settings, item.name)
        secret = item.name in (*SECRETS, "token")
        click.echo(f"{item.name} = {MASK if secret and value else '' if value is None else value}")
