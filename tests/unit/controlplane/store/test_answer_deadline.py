"""A PostgreSQL that hangs: its processes are stopped, its sockets stay open."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine
from sqlalchemy.exc import OperationalError

from controlplane.errors import StoreUnavailable
from controlplane.store import answer_deadline
from controlplane.store.engine import open_engine
from controlplane.store.shared.bounded_reads import BoundedReads


@pytest.fixture
def engine(postgres: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    monkeypatch.setattr(answer_deadline, "READ_SECONDS", 0.3)
    monkeypatch.setattr(answer_deadline, "WRITE_SECONDS", 0.3)
    opened = open_engine(postgres)
    yield opened
    opened.dispose()


def test_a_statement_without_an_answer_ends_and_its_connection_is_replaced(engine: Engine) -> None:
    with engine.connect() as connection:
        stopped = connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
        os.kill(stopped, signal.SIGSTOP)
        try:
            with pytest.raises(OperationalError, match=r"did not answer within 0\.3 s"):
                connection.exec_driver_sql("SELECT 1")
        finally:
            os.kill(stopped, signal.SIGCONT)
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one() != stopped


def test_a_commit_without_an_answer_ends(engine: Engine) -> None:
    with engine.connect() as connection:
        transaction = connection.begin()
        stopped = connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
        os.kill(stopped, signal.SIGSTOP)
        try:
            with pytest.raises(OperationalError, match="did not answer"):
                transaction.commit()
        finally:
            os.kill(stopped, signal.SIGCONT)


def test_an_answer_that_arrives_piece_by_piece_is_not_interrupted(engine: Engine) -> None:
    slow = sa.text("SELECT pg_sleep(0.02), repeat('x', 30000) FROM generate_series(1, 40)")
    with engine.connect() as connection:
        assert len(connection.execute(slow).all()) == 40  # 0.8 s in all


def test_a_statement_may_be_given_more_time(engine: Engine) -> None:
    with engine.connect().execution_options(answer_seconds=20) as connection:
        assert connection.execute(sa.text("SELECT 1 FROM pg_sleep(1)")).scalar_one() == 1


@contextlib.contextmanager
def pooled_connection_stopped(engine: Engine) -> Iterator[int]:
    """The process that serves the only pooled connection is stopped."""
    with engine.connect() as connection:
        pid = int(connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one())
    os.kill(pid, signal.SIGSTOP)
    try:
        yield pid
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_read_gives_up_when_its_budget_is_spent_and_opens_no_further_connection(postgres: str) -> None:
    engine = open_engine(postgres)
    with (
        pooled_connection_stopped(engine),
        pytest.raises(StoreUnavailable, match=r"did not answer within 0\.5 s"),
        BoundedReads(engine).open(answer_seconds=0.5),
    ):
        pass
    engine.dispose()


def test_a_pooled_connection_without_an_answer_is_replaced_within_the_budget(
    postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answer_deadline, "PING_SECONDS", 0.3)
    engine = open_engine(postgres)
    with (
        pooled_connection_stopped(engine) as stopped,
        BoundedReads(engine).open(answer_seconds=60) as connection,
    ):
        assert connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one() != stopped
    engine.dispose()


def test_a_server_that_accepts_but_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_deadline, "CONNECT_SECONDS", answer_deadline.MIN_CONNECT_SECONDS)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        engine = open_engine(f"postgresql+psycopg://postgres@127.0.0.1:{silent.getsockname()[1]}/postgres")
        with pytest.raises(StoreUnavailable, match="did not answer within 2 s"), BoundedReads(engine).open():
            pass
