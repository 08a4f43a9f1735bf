"""`controlplane db upgrade|backup|restore|check` and `controlplane config check`: they work without a server.

`check` prints the effective settings with masked secrets.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from alerts.notify.config import unused_receivers
from controlplane.alerting import rulebook
from controlplane.alerting.rulebook import Rulebook
from controlplane.cli.options import data_dir_option, database_option, settings_of
from controlplane.cli.rules import warnings
from controlplane.cli.serve import alerting_options
from controlplane.settings import SECRETS, Settings

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


def _url(where: dict[str, Any]) -> tuple[Settings, str]:
    """The settings and the database URL that the options of a command name."""
    from controlplane.store.engine import default_url

    settings = settings_of(**where)
    return settings, settings.database_url or default_url(settings.data_dir)


@db.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@database_option
@data_dir_option
def backup(file: Path, **where: Any) -> None:
    """Copy the store to FILE, while the server runs. PostgreSQL needs pg_dump."""
    from controlplane.store_backup import backup as copy

    _, url = _url(where)
    click.echo(f"{copy(url, file):,} bytes in {file}")


@db.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@database_option
@data_dir_option
def restore(file: Path, **where: Any) -> None:
    """Replace the store by the backup FILE. Stop the server first. PostgreSQL needs pg_restore."""
    from controlplane.runtime import data_dir
    from controlplane.store.engine import sqlite_path
    from controlplane.store_backup import restore as put_back

    settings, url = _url(where)
    with data_dir.locked(settings.data_dir), data_dir.locked_store(sqlite_path(url)):
        kept = put_back(url, file)
    click.echo(f"restored {file}" + (f"; the store before is {kept}" if kept else ""))


@db.command("check")
@database_option
@data_dir_option
def check_store(**where: Any) -> None:
    """Check that the store is intact, and that its schema is this release's (exit code 1 if not)."""
    from controlplane.store_backup import check as problems_of

    problems = problems_of(_url(where)[1])
    for problem in problems:
        click.echo(problem, err=True)
    if problems:
        raise SystemExit(1)
    click.echo("the store is intact")


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
