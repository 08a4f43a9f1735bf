"""Lease of the active server in PostgreSQL: one row, whose number fences every write.

A server takes the lease when it has expired, raises the number, and renews it. Each write transaction begins with
`check`, which locks the row in share mode: PostgreSQL commits the write before another server takes the lease, or
refuses it. Only the database's clock decides whether the lease has expired. SQLite has one server and needs no lease.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.exc import ProgrammingError

from controlplane.errors import LeaseLost
from controlplane.store.tables import CleanText, Seconds, metadata

log = logging.getLogger(__name__)
#: One row. `url`: where clients reach the holder; times are Unix seconds, `expires_at` 0 after a release.
lease = sa.Table(
    "lease",
    metadata,
    sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("holder", CleanText, nullable=False),
    sa.Column("url", CleanText, nullable=False),
    sa.Column("since", Seconds, nullable=False),
    sa.Column("expires_at", Seconds, nullable=False),
)
_NOW = sa.extract("epoch", sa.func.clock_timestamp()).cast(Seconds)
#: How long taking the lease waits for a write of the former holder that its end has not rolled back yet.
LOCK_WAIT = "2s"


@dataclass(frozen=True)
class Lease:
    """The lease as of a read. `seconds_left`: by the database's clock, negative once it has expired."""

    number: int
    holder: str
    url: str
    since: float
    seconds_left: float
    released: bool

    @property
    def expired(self) -> bool:
        """Whether another server may take it."""
        return self.seconds_left <= 0.0


def read(connection: Connection) -> Lease:
    """The lease as it is now."""
    left = (lease.c.expires_at - _NOW).label("left")
    row = connection.execute(
        sa.select(lease.c.number, lease.c.holder, lease.c.url, lease.c.since, lease.c.expires_at, left)
    ).one()
    return Lease(row.number, row.holder, row.url, row.since, row.left, row.expires_at == 0.0)


def take(connection: Connection, seen: Lease, holder: str, url: str, seconds: float) -> int | None:
    """Take the expired lease that was `seen` for `seconds`; its new number, or None if another server was first.

    A write of the former holder in progress holds the row: a stopped process, or a machine without network, would hold
    it for hours. Its connections are therefore closed, which rolls the write back.
    """
    connection.execute(sa.text(f"SET LOCAL lock_timeout = '{LOCK_WAIT}'"))
    if not seen.released:
        _close_connections(connection, seen.holder)
    free = (lease.c.number == seen.number) & (lease.c.expires_at <= _NOW)
    values = {"number": seen.number + 1, "holder": holder, "url": url, "since": _NOW}
    # A new number is a new key, so the update waits for the share locks of `check`.
    taken = sa.update(lease).where(free).values(**values, expires_at=_NOW + seconds)
    return seen.number + 1 if connection.execute(taken).rowcount else None


def _close_connections(connection: Connection, holder: str) -> None:
    query = sa.text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = :name")
    try:
        with connection.begin_nested():
            connection.execute(query, {"name": application_name(holder)})
    except ProgrammingError as error:  # another role's connections; the update below then waits for them
        log.warning("the connections of the former active server cannot be closed: %s", error.orig)


def application_name(holder: str) -> str:
    """The name of a server's connections in PostgreSQL."""
    return f"controlplane {holder}"


def renew(connection: Connection, number: int, seconds: float) -> bool:
    """Extend the lease to `seconds` from now; False if another server holds it."""
    mine = sa.update(lease).where(lease.c.number == number).values(expires_at=_NOW + seconds)
    return connection.execute(mine).rowcount == 1


def release(connection: Connection, number: int) -> None:
    """Let another server take the lease at once."""
    connection.execute(sa.update(lease).where(lease.c.number == number).values(expires_at=0.0))


def check(connection: Connection, number: int) -> None:
    """Keep the lease until the end of this transaction; LeaseLost if another server holds it."""
    mine = (
        sa.select(lease.c.number).where(lease.c.number == number).with_for_update(key_share=True, read=True)
    )
    if connection.execute(mine).first() is None:
        raise LeaseLost("another server has become active; this one takes no more writes")
