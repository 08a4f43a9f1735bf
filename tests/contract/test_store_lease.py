"""The lease of the active server: taken once, fences every write, ends with the process that held it."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine
from sqlalchemy.exc import DBAPIError

from controlplane.errors import LeaseLost
from controlplane.store.engine import open_engine
from controlplane.store.shared import lease
from controlplane.store.tables import counters
from tests.stores import postgres_harness

SECONDS = 60.0


@pytest.fixture
def shared(postgres: str) -> Iterator[Engine]:
    with postgres_harness(postgres) as harness:
        yield harness.engine


def take(engine: Engine, holder: str) -> int | None:
    with engine.begin() as connection:
        seen = lease.read(connection)
        return lease.take(connection, seen, holder, f"http://{holder}", SECONDS) if seen.expired else None


def expire(engine: Engine) -> None:
    """The lease of a server that was killed a while ago."""
    with engine.begin() as connection:
        connection.execute(sa.update(lease.lease).values(expires_at=1.0))


def write(engine: Engine, number: int, value: int) -> None:
    with engine.begin() as connection:
        lease.check(connection, number)
        connection.execute(sa.insert(counters).values(name=f"test {value}", value=value))


def written(engine: Engine) -> set[int]:
    with engine.connect() as connection:
        return set(connection.execute(sa.select(counters.c.value)).scalars())


def test_one_server_takes_the_lease_and_the_next_one_after_it_was_released(shared: Engine) -> None:
    assert take(shared, "a") == 1
    assert take(shared, "b") is None
    with shared.begin() as connection:
        assert lease.renew(connection, 1, SECONDS)
        found = lease.read(connection)
        assert (found.holder, found.url, found.released) == ("a", "http://a", False)
        assert SECONDS - 5 < found.seconds_left <= SECONDS
        lease.release(connection, 1)
        assert lease.read(connection).released
    assert take(shared, "b") == 2
    with shared.begin() as connection:
        assert not lease.renew(connection, 1, SECONDS)


def test_of_many_servers_that_see_an_expired_lease_one_takes_it(shared: Engine) -> None:
    with shared.connect() as connection:
        seen = lease.read(connection)
    numbers: list[int | None] = []

    def candidate(name: str) -> None:
        with shared.begin() as connection:
            numbers.append(lease.take(connection, seen, name, "", SECONDS))

    threads = [threading.Thread(target=candidate, args=(f"server {n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(numbers, key=bool) == [None] * 7 + [1]


def test_a_former_active_server_cannot_write(shared: Engine) -> None:
    take(shared, "a")
    write(shared, 1, 11)
    expire(shared)
    write(shared, 1, 12)  # nobody else is active yet
    assert take(shared, "b") == 2
    with pytest.raises(LeaseLost):
        write(shared, 1, 13)
    write(shared, 2, 14)
    assert written(shared) == {11, 12, 14}


def test_the_write_of_a_stopped_server_is_rolled_back_before_the_next_one_is_active(
    shared: Engine, postgres: str
) -> None:
    take(shared, "a")
    url = shared.url.render_as_string(hide_password=False)
    stopped = open_engine(url, lease.application_name("a"))
    connection = stopped.connect()
    connection.begin()
    lease.check(connection, 1)
    connection.execute(sa.insert(counters).values(name="late", value=99))  # it stops here, before the commit
    expire(shared)
    assert take(shared, "b") == 2
    with pytest.raises(DBAPIError):
        connection.commit()
    connection.invalidate()
    stopped.dispose()
    assert 99 not in written(shared)


def test_a_renewal_does_not_wait_for_a_write(shared: Engine) -> None:
    take(shared, "a")
    with shared.begin() as writing:
        lease.check(writing, 1)
        with shared.begin() as renewing:
            renewing.execute(sa.text("SET LOCAL lock_timeout = '1ms'"))
            assert lease.renew(renewing, 1, SECONDS)
