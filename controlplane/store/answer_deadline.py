"""PostgreSQL connections that give up a server that does not answer.

A server that hangs (stopped, its disk frozen, its network cut) keeps its sockets open, and no time-out of its own
ends a statement. Each wait for an answer is bounded here; an answer that arrives piece by piece is not interrupted. The
connection is then closed and SQLAlchemy discards it.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any, TypeVar

import psycopg
from sqlalchemy import event
from sqlalchemy.engine import Connection, Engine

from controlplane.runtime import read_budget

CONNECT_SECONDS = 5
READ_SECONDS, WRITE_SECONDS = 8.0, 25.0
#: For the check of a pooled connection before its next use. One that does not answer is replaced.
PING_SECONDS = 2.0
#: libpq's least time for a connection, seconds.
MIN_CONNECT_SECONDS = 2
#: Wait for a connection while all are in use.
POOL_SECONDS = 5.0
#: Execution option: seconds to wait for an answer instead of the above.
OPTION = "answer_seconds"
#: For libpq: a peer that is gone without a word is noticed in about ten seconds.
TCP_OPTIONS = {
    "connect_timeout": CONNECT_SECONDS,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
T = TypeVar("T")


class DeadlineConnection(psycopg.Connection[Any]):
    """A connection that waits for each answer for `answer_seconds` at most."""

    answer_seconds = READ_SECONDS

    def wait(self, gen: Generator[Any, Any, T], *arguments: Any, **options: Any) -> T:
        """Wait for an operation; OperationalError if the server does not answer in time."""
        budget = read_budget.current()
        seconds = self.answer_seconds if budget is None else min(self.answer_seconds, budget.left())
        try:
            result = super().wait(_bounded(gen, seconds), *arguments, **options)
        except _NoAnswer:
            self.close()
            raise _no_answer(seconds) from None
        if budget is not None:
            budget.answered()
        return result


class _NoAnswer(Exception):
    """The deadline is over."""


def _no_answer(seconds: float) -> psycopg.OperationalError:
    return psycopg.OperationalError(f"the database did not answer within {seconds:.2g} s")


def _bounded(gen: Generator[Any, Any, T], seconds: float) -> Generator[Any, Any, T]:
    """The same operation; _NoAnswer after `seconds` in which nothing arrived. psycopg asks ten times a second."""
    try:
        state = next(gen)
        deadline = time.monotonic() + seconds
        while True:
            ready = yield state
            if ready:
                deadline = time.monotonic() + seconds
            elif time.monotonic() > deadline:
                raise _NoAnswer
            state = gen.send(ready)
    except StopIteration as ended:
        result: T = ended.value
        return result


def bound_answers(engine: Engine) -> None:
    """Bound every wait of an engine's connections."""

    @event.listens_for(engine, "do_connect")
    def connect(_dialect: Any, _record: Any, arguments: Any, options: Any) -> Any:
        budget = read_budget.current()
        if budget is not None:
            if budget.left() < MIN_CONNECT_SECONDS:
                raise _no_answer(budget.seconds)
            options["connect_timeout"] = min(CONNECT_SECONDS, int(budget.left()))
        try:
            opened = DeadlineConnection.connect(*arguments, **options)
        except psycopg.errors.ConnectionTimeout:
            raise _no_answer(options["connect_timeout"]) from None
        if budget is not None:
            budget.answered()
        return opened

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        options = connection.get_execution_options()
        default = WRITE_SECONDS if options.get("writes") else READ_SECONDS
        _set(connection.connection.dbapi_connection, options.get(OPTION, default))

    @event.listens_for(engine, "checkin")
    def checkin(dbapi_connection: Any, _record: Any) -> None:
        _set(dbapi_connection, PING_SECONDS)


def _set(connection: Any, seconds: float) -> None:
    if connection is not None:
        connection.answer_seconds = seconds
