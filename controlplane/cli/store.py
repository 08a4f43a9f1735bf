"""`controlplane db upgrade` and `controlplane config check`: they work without a server.

`check` prints the effective settings with masked secrets.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from typing import Any

import click

from alerts.notify.config import unused_receivers
from controlplane.alerting import rulebook
from controlplane.alerting.rulebook import Rulebook
from controlplane.cli.options import data_dir_option, database_option, settings_of
from controlplane.cli.rules import warnings
from controlplane.cli.serve import alerting_options
from controlplane.settings import SECRETS

MASK = "(set)"


@click.group()
def db() -> None:
    """The store."""


@db.command("upgrade")
@database_option
@data_dir_option
def upgrade_store(**where: Any) -> None:
    """Migrate the store's schema to this release. Safe to repeat."""
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
@alerting_options
def check(**given: Any) -> None:
    """List every error of settings, rule files and receivers (exit code 2), or print the effective settings."""
    settings = settings_of(**{name: None if value == () else value for name, value in given.items()})
    book = rulebook.load(settings)
    for item in dataclasses.fields(settings):
        value = getattr(settings, item.name)
        secret = item.name in (*SECRETS, "token")
        click.echo(f"{item.name} = {MASK if secret and value else _shown(value)}")
    for line in _warnings(book):
        click.echo(line, err=True)


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return os.pathsep.join(value)
    return "" if value is None else str(value)


def _warnings(book: Rulebook) -> Iterator[str]:
    """Settings that are allowed but probably not intended."""
    for source in dict.fromkeys(group.source for group in book.groups):
        yield from warnings(source, [group for group in book.groups if group.source == source])
    for name in unused_receivers(book.config):
        yield f"warning: no route names the receiver {name!r}"
