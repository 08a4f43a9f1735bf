"""One thread writes; what waits shares a commit; nothing is confirmed that is not on the disk."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.exc import (
    DatabaseError,
    DBAPIError,
    IntegrityError,
    InternalError,
    OperationalError,
    ProgrammingError,
)

from controlplane.errors import StoreUnavailable
from controlplane.store import audit, engine
from controlplane.store.tables import counters
from controlplane.store.writer import CommitPace, Writer
from tests.stores import StoreHarness, sqlite_harness


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[StoreHarness]:
    with sqlite_harness(tmp_path) as opened:
        yield opened


def put(name: str) -> Any:
    return lambda connection: connection.execute(sa.insert(counters).values(name=name, value=1))


def names(harness: StoreHarness) -> set[str]:
    with harness.engine.connect() as connection:
        return set(connection.execute(sa.select(counters.c.name)).scalars())


class Held:
    """Keeps the writer busy until `release`, so that what is submitted meanwhile is one group."""

    def __init__(self, writer: Writer):
        self._gate, entered = threading.Event(), threading.Event()

        def hold(connection: Connection) -> None:
            entered.set()
            self._gate.wait(10)

        self.future = writer.submit(hold)
        entered.wait(10)

    def release(self) -> None:
        self._gate.set()
        self.future.result(10)


def test_a_write_returns_what_the_work_returned(harness: StoreHarness) -> None:
    assert harness.writer.write(lambda connection: connection.execute(sa.select(sa.literal(7))).scalar()) == 7
    assert harness.writer.commit_seconds is not None


def test_what_waits_shares_one_transaction(harness: StoreHarness) -> None:
    begun: list[int] = []
    sa.event.listen(harness.engine, "begin", lambda connection: begun.append(1))
    held = Held(harness.writer)
    futures = [harness.writer.submit(put(f"n{n}")) for n in range(20)]
    held.release()
    for future in futures:
        future.result(10)
    assert len(begun) == 2  # the one that was held, and all others together
    assert len(names(harness)) == 20


def test_a_failing_submission_does_not_affect_others(harness: StoreHarness) -> None:
    held = Held(harness.writer)
    good, twice, bad, last = (harness.writer.submit(put(name)) for name in ("a", "a", "b", "c"))
    held.release()
    assert good.result(10) is not None
    with pytest.raises(IntegrityError):
        twice.result(10)
    bad.result(10)
    last.result(10)
    assert names(harness) == {"a", "b", "c"}


def test_a_submission_that_fails_half_way_leaves_nothing(harness: StoreHarness) -> None:
    def half(connection: Connection) -> None:
        put("half")(connection)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        harness.writer.write(half)
    assert names(harness) == set()


def test_memory_follows_after_the_commit_and_in_its_order(harness: StoreHarness) -> None:
    seen: list[Any] = []

    def follow(name: str) -> None:
        seen.append((name, name in names(harness), threading.current_thread().name))

    held = Held(harness.writer)
    futures = [harness.writer.submit(lambda c, n=n: (put(n)(c), n)[1], follow) for n in ("a", "b")]
    held.release()
    for future in futures:
        future.result(10)
    assert seen == [("a", True, "store-writer"), ("b", True, "store-writer")]


def test_what_follows_a_commit_cannot_undo_it(harness: StoreHarness) -> None:
    assert harness.writer.write(lambda connection: 5, lambda result: 1 / 0) == 5


def refused(name: str) -> OperationalError:
    origin = sqlite3.OperationalError("trouble")
    origin.sqlite_errorname = name  # type: ignore[misc]
    return OperationalError("statement", None, origin)


def test_a_full_disk_fails_the_whole_group_and_the_next_one_is_tried_again(harness: StoreHarness) -> None:
    def full(connection: Connection) -> None:
        raise refused("SQLITE_FULL")

    held = Held(harness.writer)
    futures = [harness.writer.submit(put("a")), harness.writer.submit(full), harness.writer.submit(put("b"))]
    held.release()
    for future in futures:
        with pytest.raises(StoreUnavailable, match="the disk of the store is full"):
            future.result(10)
    assert names(harness) == set()
    harness.writer.write(put("later"))
    assert names(harness) == {"later"}


def test_after_a_failed_sync_nothing_is_confirmed_any_more(harness: StoreHarness) -> None:
    def broken(connection: Connection) -> None:
        raise refused("SQLITE_IOERR_FSYNC")

    with pytest.raises(StoreUnavailable, match="restart the server"):
        harness.writer.write(broken)
    with pytest.raises(StoreUnavailable, match="restart the server"):
        harness.writer.write(put("later"))
    assert names(harness) == set()


@pytest.mark.parametrize("code", ["SQLITE_CORRUPT", "SQLITE_CORRUPT_INDEX", "SQLITE_NOTADB"])
def test_a_damaged_file_stops_confirmation_of_every_batch(harness: StoreHarness, code: str) -> None:
    def damaged(connection: Connection) -> None:
        origin = sqlite3.DatabaseError("database disk image is malformed")
        origin.sqlite_errorname = code  # type: ignore[misc]
        raise DatabaseError("INSERT INTO secrets", {"value": "hunter2"}, origin)

    held = Held(harness.writer)
    futures = [
        harness.writer.submit(put("a")),
        harness.writer.submit(damaged),
        harness.writer.submit(put("b")),
    ]
    held.release()
    for future in futures:
        with pytest.raises(StoreUnavailable, match="damaged"):
            future.result(10)
    with pytest.raises(StoreUnavailable, match="damaged"):
        harness.writer.write(put("later"))
    assert names(harness) == set()


@pytest.mark.parametrize("kind", [InternalError, ProgrammingError, DatabaseError])
def test_a_database_that_changes_over_fails_the_group_and_its_text_report_no_statement(
    harness: StoreHarness, kind: type[DBAPIError]
) -> None:
    def changing_over(connection: Connection) -> None:
        origin = Exception("cannot execute INSERT in a read-only transaction\nLINE 1: INSERT INTO secrets")
        raise kind("INSERT INTO secrets", {"value": "hunter2"}, origin)

    held = Held(harness.writer)
    futures = [harness.writer.submit(put("a")), harness.writer.submit(changing_over)]
    held.release()
    for future in futures:
        with pytest.raises(StoreUnavailable) as refused_with:
            future.result(10)
        assert str(refused_with.value).endswith("cannot execute INSERT in a read-only transaction")
    harness.writer.write(put("later"))
    assert names(harness) == {"later"}


def test_a_commit_that_fails_confirms_nothing(harness: StoreHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(connection: Connection) -> None:
        raise refused("SQLITE_IOERR_WRITE")

    sa.event.listen(harness.engine, "commit", fail, once=True)
    with pytest.raises(StoreUnavailable):
        harness.writer.write(put("a"))
    harness.writer.write(put("b"))
    assert names(harness) == {"b"}


def test_a_store_locked_by_another_process_is_unavailable_for_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "BUSY_SECONDS", 0.1)
    with sqlite_harness(tmp_path) as harness:
        other = sqlite3.connect(tmp_path / "controlplane.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable, match="locked by another process"):
            harness.writer.write(put("a"))
        other.execute("ROLLBACK")
        harness.writer.write(put("a"))
        other.close()


def test_stopping_writes_what_waits_and_refuses_what_comes_after(harness: StoreHarness) -> None:
    held = Held(harness.writer)
    waiting = [harness.writer.submit(put(f"n{n}")) for n in range(5)]
    stopper = threading.Thread(target=harness.writer.stop)
    stopper.start()
    held.release()
    stopper.join(10)
    assert all(future.done() and future.exception() is None for future in waiting)
    with pytest.raises(StoreUnavailable, match="not open"):
        harness.writer.write(put("late"))
    harness.writer.stop()


def test_too_many_waiting_writes_are_refused_at_once(harness: StoreHarness) -> None:
    writer = Writer(harness.engine, max_waiting=2)
    writer.start()
    held = Held(writer)
    kept = [writer.submit(put("a")), writer.submit(put("b"))]
    with pytest.raises(StoreUnavailable, match="too many"):
        writer.submit(put("c")).result(10)
    held.release()
    assert all(future.exception(10) is None for future in kept)
    writer.stop()


def test_a_write_that_takes_too_long_is_given_up_by_its_caller(harness: StoreHarness) -> None:
    held = Held(harness.writer)
    with pytest.raises(StoreUnavailable, match=r"did not answer within 0\.05 s"):
        harness.writer.write(put("a"), timeout=0.05)
    held.release()
    harness.writer.write(put("b"))
    assert names(harness) == {"b"}  # it had not begun, so it never happened


def test_a_write_inside_a_write_is_a_mistake_not_a_deadlock(harness: StoreHarness) -> None:
    with pytest.raises(RuntimeError, match="would wait for itself"):
        harness.writer.write(lambda connection: harness.writer.write(put("a")))


def test_readers_see_nothing_of_what_is_not_committed(harness: StoreHarness) -> None:
    gate, wrote = threading.Event(), threading.Event()

    def work(connection: Connection) -> None:
        audit.record(connection, 1.0, "ada", "page", "test", "q")
        wrote.set()
        gate.wait(10)

    future = harness.writer.submit(work)
    wrote.wait(10)
    assert harness.read(audit.read, 10) == []
    gate.set()
    future.result(10)
    assert len(harness.read(audit.read, 10)) == 1


def test_paced_jobs_share_a_commit_and_one_after_a_pause_does_not_wait(
    harness: StoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits: list[int] = []
    real = Writer._commit
    monkeypatch.setattr(
        Writer, "_commit", lambda self, group: (commits.append(len(group)), real(self, group))[1]
    )
    harness.writer.pace_seconds = 1_000.0
    pace = CommitPace()
    harness.writer.submit(put("first"), pace=pace).result(10)
    paced = [harness.writer.submit(put(f"paced {n}"), pace=pace) for n in range(3)]
    harness.writer.submit(put("urgent")).result(10)
    assert all(future.done() for future in paced)
    assert commits == [1, 4]


def test_jobs_that_do_not_join_leave_the_commits_of_others_and_their_pace_alone(
    harness: StoreHarness,
) -> None:
    harness.writer.pace_seconds = 1_000.0
    flood, calm = CommitPace(joins=False), CommitPace()
    harness.writer.submit(put("flood"), pace=flood).result(10)
    held = harness.writer.submit(put("more of it"), pace=flood)
    harness.writer.submit(put("calm"), pace=calm).result(10)
    harness.writer.submit(put("urgent")).result(10)
    assert not held.done()
    harness.writer.stop()
    assert held.done()


def test_a_paced_job_is_written_when_its_pause_is_over(harness: StoreHarness) -> None:
    harness.writer.pace_seconds, pace = 0.01, CommitPace()
    for name in ("first", "second"):
        harness.writer.submit(put(name), pace=pace).result(10)
    assert names(harness) >= {"first", "second"}


def test_a_paced_job_is_written_when_the_writer_stops(harness: StoreHarness) -> None:
    harness.writer.pace_seconds, pace = 1_000.0, CommitPace()
    harness.writer.submit(put("first"), pace=pace).result(10)
    waiting = harness.writer.submit(put("second"), pace=pace)
    harness.writer.stop()
    assert waiting.done()
    assert names(harness) >= {"first", "second"}
