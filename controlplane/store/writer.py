"""Group commit: the only thread that writes to the store.

A durable commit costs milliseconds whatever its size, so all waiting jobs are written in one transaction, each in a
savepoint of its own: a failing job does not affect the others. A future resolves only after the commit; when the
commit fails, all futures of the group fail.

A ThreadPoolExecutor with one worker would run each job alone and so commit each alone; the queue is what groups them.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError

from controlplane.errors import StoreUnavailable
from controlplane.store.engine import is_fatal, unavailable

T = TypeVar("T")
log = logging.getLogger(__name__)

MAX_GROUP = 64
MAX_WAITING = 2_000
WRITE_TIMEOUT_SECONDS = 30.0


@dataclass
class _Job:
    work: Callable[[Connection], Any]
    then: Callable[[Any], None] | None
    future: Future[Any]
    result: Any = None
    error: Exception | None = None


class Writer:
    """Writer thread. Call `start` before use; after `stop` every submission fails with StoreUnavailable."""

    def __init__(self, engine: Engine, max_group: int = MAX_GROUP, max_waiting: int = MAX_WAITING):
        self._engine = engine
        self._max_group = max_group
        self._waiting: queue.Queue[_Job | None] = queue.Queue(max_waiting)
        self._lock = threading.Lock()  # no job is queued behind the stop marker
        self._thread: threading.Thread | None = None
        self._broken: StoreUnavailable | None = None
        #: Seconds of the last group from BEGIN to COMMIT; None before the first.
        self.commit_seconds: float | None = None

    @property
    def engine(self) -> Engine:
        """The engine, for reading."""
        return self._engine

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name="store-writer", daemon=True)
        self._thread.start()

    def stop(self, timeout: float = 30.0) -> None:
        """Write the waiting jobs, then end the thread."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            self._waiting.put(None)
            thread.join(timeout)

    def submit(self, work: Callable[[Connection], T], then: Callable[[T], None] | None = None) -> Future[T]:
        """Run `work` in the next group; the future resolves after COMMIT.

        `then(result)` is called in the writer's thread after COMMIT and before the future resolves, in the order of
        the submissions. State in memory that mirrors the store is changed there.
        """
        job = _Job(work, then, Future())
        with self._lock:
            if self._broken is not None:
                job.future.set_exception(self._broken)
            elif self._thread is None:
                job.future.set_exception(StoreUnavailable("the store is not open"))
            else:
                self._enqueue(job)
        return job.future

    def _enqueue(self, job: _Job) -> None:
        try:
            self._waiting.put_nowait(job)
        except queue.Full:
            job.future.set_exception(StoreUnavailable("too many writes are waiting for the store"))

    def write(
        self,
        work: Callable[[Connection], T],
        then: Callable[[T], None] | None = None,
        timeout: float = WRITE_TIMEOUT_SECONDS,
    ) -> T:
        """`submit` and wait. StoreUnavailable after `timeout` seconds; the job may still be written later."""
        if threading.current_thread() is self._thread:
            raise RuntimeError("write() in the writer's thread would wait for itself")
        future = self.submit(work, then)
        try:
            return future.result(timeout)
        except FutureTimeout:
            future.cancel()
            raise StoreUnavailable(f"the store did not answer within {timeout:g} s") from None

    # -- the thread ------------------------------------------------------------------------------

    def _run(self) -> None:
        stopping = False
        while not stopping:
            group, stopping = self._collect()
            if group:
                self._write_group(group)

    def _collect(self) -> tuple[list[_Job], bool]:
        """Wait for a job, then take the others that wait; True if the stop marker was among them."""
        group: list[_Job] = []
        item = self._waiting.get()
        while item is not None:
            if item.future.set_running_or_notify_cancel():
                group.append(item)
            if len(group) >= self._max_group:
                return group, False
            try:
                item = self._waiting.get_nowait()
            except queue.Empty:
                return group, False
        return group, True

    def _write_group(self, group: list[_Job]) -> None:
        started = time.perf_counter()
        try:
            if self._broken is not None:
                raise self._broken
            self._commit(group)
        except StoreUnavailable as error:
            self._fail(group, error)
        except DBAPIError as error:
            self._fail(group, self._unavailable(error))
        except Exception:
            log.exception("a group of writes failed")
            self._fail(group, StoreUnavailable("the store cannot be used; see the server log"))
        else:
            self.commit_seconds = time.perf_counter() - started
            for job in group:
                _resolve(job)

    def _commit(self, group: list[_Job]) -> None:
        with self._engine.connect().execution_options(writes=True) as connection, connection.begin():
            for job in group:
                _run_job(connection, job)

    def _unavailable(self, error: DBAPIError) -> StoreUnavailable:
        failure = unavailable(error)
        if is_fatal(error):
            self._broken = failure
        log.error("%s", failure)
        return failure

    def _fail(self, group: list[_Job], error: StoreUnavailable) -> None:
        for job in group:
            job.future.set_exception(job.error or error)


def _run_job(connection: Connection, job: _Job) -> None:
    """Run one job in a savepoint. Raise errors of the whole database; keep the job's own errors with the job.

    Its own are DataError, IntegrityError and exceptions of its code. Any other driver error may concern the database:
    a damaged file is a DatabaseError, a PostgreSQL that became read-only an InternalError.
    """
    try:
        with connection.begin_nested():
            job.result = job.work(connection)
    except (DataError, IntegrityError) as error:
        job.error = error
    except DBAPIError:
        raise
    except Exception as error:
        job.error = error


def _resolve(job: _Job) -> None:
    if job.error is not None:
        job.future.set_exception(job.error)
        return
    if job.then is not None:
        try:
            job.then(job.result)
        except Exception:
            log.exception("a callback after a commit failed; the commit is durable")
    job.future.set_result(job.result)
