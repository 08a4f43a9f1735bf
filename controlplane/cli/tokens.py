"""`controlplane token create|list|revoke`: works on the store, with or without a running server.

A running server accepts a new token at once and rejects a revoked one within five seconds.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import click
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError

from alerts.durations import DAY_SECONDS
from controlplane.cli.options import FiniteRange, data_dir_option, database_option, json_option, settings_of
from controlplane.console.errors import UsageProblem
from controlplane.console.tables import age, table
from controlplane.model import Role
from controlplane.runtime.tokens import issue
from controlplane.settings import Settings
from controlplane.store import audit
from controlplane.store import tokens as rows
from controlplane.store.engine import default_url, open_engine, sqlite_file, unavailable, upgrade
from listeners.protocol.wire import rfc3339

HEAD = ("ID", "NAME", "ROLE", "TOKEN", "APP", "AGE", "STATE")
ACTOR = "command line"


@click.group()
def token() -> None:
    """Tokens for agents, people and programs."""


@token.command()
@click.option("--role", required=True, type=click.Choice([role.value for role in Role]))
@click.option("--name", help="Who or what uses it; recorded with actions.  [default: the role]")
@click.option("--app", help="Bind an agent's token to this app.")
@click.option(
    "--may-impersonate",
    is_flag=True,
    help="Requests may name the person they are made for, with at most this role: for a dashboard with log-in.",
)
@click.option("--expires-days", type=FiniteRange(min=0, min_open=True), help="Valid for this many days.")
@json_option
@database_option
@data_dir_option
def create(
    role: str,
    name: str | None,
    app: str | None,
    may_impersonate: bool,
    expires_days: float | None,
    as_json: bool,
    **where: Any,
) -> None:
    """Create a token. The secret is shown only once."""
    if app is not None and role != Role.AGENT.value:
        raise UsageProblem("--app needs --role agent")
    if may_impersonate and role == Role.AGENT.value:
        raise UsageProblem("--may-impersonate needs a role of people: viewer, operator or admin")
    now = time.time()
    expires_at = now + expires_days * DAY_SECONDS if expires_days else None
    secret, made = issue(name or role, Role(role), now, app, expires_at, may_impersonate)
    with _writing(settings_of(**where), create=True) as conn:
        rows.insert(conn, **made.columns())
        audit.record(conn, now, ACTOR, ACTOR, "token.create", made.id, {"name": made.name})
    if as_json:
        click.echo(json.dumps({"id": made.id, "name": made.name, "role": role, "token": secret}))
    else:
        click.echo(secret)


@token.command("list")
@json_option
@database_option
@data_dir_option
def list_tokens(as_json: bool, **where: Any) -> None:
    """List the tokens without their secrets."""
    with _writing(settings_of(**where)) as conn:
        found = [_shown(dict(row)) for row in rows.all(conn)]
    if as_json:
        click.echo(json.dumps({"tokens": found}, indent=2))
        return
    now = time.time()
    click.echo(table(HEAD, [_row(shown, now) for shown in found]))


def _row(t: dict[str, Any], now: float) -> tuple[object, ...]:
    visible = t["prefix"] + "…"
    return t["id"], t["name"], t["role"], visible, t["app"], age(t["created_at"], now), _state(t, now)


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    kept = {name: row[name] for name in ("id", "name", "role", "prefix", "app", "may_impersonate")}
    times = ("created_at", "expires_at", "revoked_at")
    return kept | {name: rfc3339(row[name]) if row[name] is not None else None for name in times}


def _state(shown: dict[str, Any], now: float) -> str:
    if shown["revoked_at"]:
        return "revoked"
    expired = shown["expires_at"] and shown["expires_at"] <= rfc3339(now)
    return "expired" if expired else "valid"


@token.command()
@click.argument("which", metavar="ID")
@database_option
@data_dir_option
def revoke(which: str, **where: Any) -> None:
    """Revoke a token by its id or a unique prefix of it."""
    with _writing(settings_of(**where)) as conn:
        found = _one_of(rows.all(conn), which)
        now, token_id = time.time(), str(found["id"])
        if not rows.revoke(conn, token_id, now):
            raise UsageProblem(f"the token {found['name']} is already revoked")
        audit.record(conn, now, ACTOR, ACTOR, "token.revoke", token_id, {"name": found["name"]})
    click.echo(f"the token {found['name']} is revoked")


def _one_of(found: Sequence[Mapping[str, Any]], which: str) -> Mapping[str, Any]:
    meant = [row for row in found if which and str(row["id"]).startswith(which)]
    if len(meant) != 1:
        count = len(meant) or "no"
        raise UsageProblem(f"{count} tokens begin with {which!r}; controlplane token list shows them")
    return meant[0]


@contextmanager
def _writing(settings: Settings, create: bool = False) -> Iterator[Connection]:
    """A write transaction on the store, beside a server that may be running."""
    engine = open_engine(settings.database_url or default_url(settings.data_dir))
    file = sqlite_file(engine)
    if file is not None and not file.exists() and not create:
        raise UsageProblem(f"there is no store at {file}; give --data-dir or --database-url")
    try:
        upgrade(engine)
        with engine.connect().execution_options(writes=True) as connection, connection.begin():
            yield connection
    except DBAPIError as error:
        raise unavailable(error) from None
    finally:
        engine.dispose()
