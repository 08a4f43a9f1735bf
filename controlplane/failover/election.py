"""Election of the active server on a database that several servers use, by the lease in `controlplane.store.shared.lease`.

One thread takes the lease when it is free, then renews it. A server that loses the lease ends, and starts again as
the standby: nothing of what it held in memory can be wrong then. Built by `controlplane.app`.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable
from enum import StrEnum

from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import DBAPIError

from controlplane.errors import NotActive
from controlplane.store.engine import open_engine, unavailable
from controlplane.store.shared import lease

log = logging.getLogger(__name__)
#: How long the lease holds without a renewal. A server that is killed is replaced after that.
LEASE_SECONDS = 6.0
RENEW_SECONDS = 1.5
#: How often the standby reads the lease: a released one is taken after that.
READ_SECONDS = 0.5


class ServerRole(StrEnum):
    """What a server does: the active one takes events and runs rules, the standby follows the store."""

    ACTIVE = "active"
    STANDBY = "standby"


class OnlyServer:
    """The election where there is one candidate: the server that has locked an SQLite file.

    `number`: of the lease, None while this server has none; `lost`: it had one and must end; `active_since`: when its
    services were started, Unix seconds; `active_address`: where clients reach the active server, if it is known.
    """

    number: int | None = 0
    lost = False
    active_since: float | None = None
    active_address = ""
    #: The name of this server's connections in PostgreSQL.
    connection_name = "controlplane"

    @property
    def role(self) -> ServerRole:
        """The role of this server; `standby` also while it starts."""
        return ServerRole.STANDBY if self.active_since is None else ServerRole.ACTIVE

    def start(self, elected: Callable[[], None]) -> bool:
        """Whether this server is active at once. Otherwise `elected` is called later, in a thread of its own."""
        return True

    def settle(self) -> None:
        """Become active no more; wait for `elected` if it runs."""

    def stop(self) -> None:
        """Let another server become active. Call after the last write."""

    def resign(self) -> None:
        """End this server's part where it cannot do it; the process ends."""
        self.lost = True

    def holds(self) -> bool:
        """Whether this server certainly is the active one now."""
        return True

    def fence(self, connection: Connection) -> None:
        """Check in a write transaction that no other server is active: LeaseLost, or NotActive before the start."""


class Election(OnlyServer):
    """The election by the lease, where several servers use one PostgreSQL."""

    def __init__(self, url: str, address: str, monotonic: Callable[[], float] = time.monotonic):
        """`url`: of the database; `address`: where clients reach this server."""
        self.holder = uuid.uuid4().hex
        self.connection_name = lease.application_name(self.holder)
        self.address = address
        self.number: int | None = None
        self._url, self._monotonic = url, monotonic
        self._held_until = float("-inf")
        self._engine: Engine | None = None
        self._elected: Callable[[], None] = lambda: None
        self._settled, self._stopping = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._activation: threading.Thread | None = None
        self._store_fails = False

    def start(self, elected: Callable[[], None]) -> bool:
        # A connection of its own: a renewal must not wait for the requests of clients.
        self._engine = open_engine(self._url, self.connection_name, 1)
        self._elected = elected
        try:
            found = self._take()
        except DBAPIError as error:
            raise unavailable(error) from error
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)
        self._thread.start()
        return found

    def settle(self) -> None:
        self._settled.set()
        if self._activation is not None:
            self._activation.join()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(LEASE_SECONDS)
        if self._engine is None:
            return
        try:
            if self.number is not None and not self.lost:
                with self._engine.begin() as connection:
                    lease.release(connection, self.number)
        except DBAPIError as error:
            log.warning("the lease cannot be released and ends by itself: %s", error.orig)
        self._engine.dispose()

    def holds(self) -> bool:
        # False for a process that was stopped, from the moment it wakes.
        return self.number is not None and not self.lost and self._monotonic() < self._held_until

    def fence(self, connection: Connection) -> None:
        if self.number is None:
            raise not_active(self.active_address)
        lease.check(connection, self.number)

    # -- the thread --------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self.lost and not self._stopping.wait(
            READ_SECONDS if self.number is None else RENEW_SECONDS
        ):
            try:
                self._step()
            except (
                Exception
            ) as error:  # the next attempt may succeed; until then nobody else can take it either
                level = logging.DEBUG if self._store_fails else logging.WARNING
                log.log(level, "the lease cannot be read or renewed now: %s", error)
                self._store_fails = True
            else:
                self._store_fails = False

    def _step(self) -> None:
        if self.number is not None:
            self._renew(self.number)
        elif not self._settled.is_set() and self._take():
            self._activation = threading.Thread(target=self._elected, name="take-over", daemon=True)
            self._activation.start()

    def _take(self) -> bool:
        """Take the lease if it is free."""
        assert self._engine is not None
        asked_at = self._monotonic()
        with self._engine.begin() as connection:
            seen = lease.read(connection)
            self.active_address = seen.url
            if not seen.expired:
                return False
            number = lease.take(connection, seen, self.holder, self.address, LEASE_SECONDS)
        if number is None:
            return False
        self._held_until = asked_at + LEASE_SECONDS
        self.number, self.active_address = number, self.address
        log.info("active with lease %d; the former active server was %s", number, seen.url or "none")
        return True

    def _renew(self, number: int) -> None:
        assert self._engine is not None
        asked_at = self._monotonic()
        with self._engine.begin() as connection:
            held = lease.renew(connection, number, LEASE_SECONDS)
        if held:
            self._held_until = asked_at + LEASE_SECONDS
        else:
            log.error("another server has become active; this one ends")
            self.lost = True


def not_active(address: str) -> NotActive:
    """The refusal of a standby; `address`: of the active server, empty if it is unknown."""
    where = f"send it to the active server at {address}" if address else "no server is active now; try again"
    return NotActive(f"this server is the standby; {where}", detail={"active": address or None})
