"""Group commit: the only thread that writes to the store.

A durable commit costs milliseconds whatever its size, so all waiting jobs are written in one transaction, each in a
savepoint of its own: a failing job does not affect the others. A future resolves only after the commit; when the
commit fails, all futures of the group fail.

Jobs of one `CommitPace`, the events, are written at most once in PACE_SECONDS: many drivers then share the cost of a commit, and
the first event after a pause is written at once.

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

from controlplane.errors import StoreDamaged, StoreUnavailable
from controlplane.store.engine import unavailable
from controlplane.store.writing.row_cache import RowCache

T = TypeVar("T")
log = logging.getLogger(__name__)

MAX_GROUP = 64
MAX_WAITING = 2_000
WRITE_TIMEOUT_SECONDS = 30.0
PACE_SECONDS = 0.1


@dataclass(eq=False)
class CommitPace:
    """What jobs share that are written at most once in `Writer.pace_seconds`.

    `joins`: their commit may come earlier, together with that of other jobs. `until`: not before, of time.monotonic().
    """

    joins: bool = True
    until: float = 0.0


@dataclass(eq=False)
class _Job:
    work: Callable[[Connection], Any]
    then: Callable[[Any], None] | None
    future: Future[Any]
    pace: CommitPace | None
    result: Any = None
    error: Exception | None = None

    @property
    def until(self) -> float:
        return self.pace.until if self.pace else 0.0


class Writer:
    """Writer thread. Call `start` before use; after `stop` every submission fails with StoreUnavailable."""

    def __init__(self, engine: Engine, max_group: int = MAX_GROUP, max_waiting: int = MAX_WAITING):
        self._engine = engine
        self._max_group = max_group
        self._waiting: queue.Queue[_Job | None] = queue.Queue(max_waiting)
        self._lock = threading.Lock()  # no job is queued behind the stop marker
        self._thread: threading.Thread | None = None
        self._broken: StoreUnavailable | None = None
        self._held: list[_Job] = []  # until their pace allows it; of the thread
        #: At least so long between two commits of the jobs of a pace.
        self.pace_seconds = PACE_SECONDS
        #: Rows that events change, as of the last commit.
        self.rows = RowCache()
        #: Called first in each transaction; raises StoreUnavailable if this server must not write.
        self.fence: Callable[[Connection], None] = lambda connection: None
        #: Seconds of the last group from BEGIN to COMMIT; None before the first.
        self.commit_seconds: float | None = None
        #: Bytes that the store used after the last retention pass; None before the first.
        self.store_bytes: int | None = None

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

    def submit(
        self,
        work: Callable[[Connection], T],
        then: Callable[[T], None] | None = None,
        pace: CommitPace | None = None,
    ) -> Future[T]:
        """Run `work` in the next group, or when `pace` allows it; the future resolves after COMMIT.

        `then(result)` is called in the writer's thread after COMMIT and before the future resolves, in the order of
        the submissions. State in memory that mirrors the store is changed there.
        """
        job = _Job(work, then, Future(), pace)
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
        """Wait until a job is due, then take all that may be written with it; True if the stop marker was among them."""
        stopping = self._receive()
        now = time.monotonic()
        if stopping:
            group = self._held
        elif any(job.until <= now for job in self._held):
            group = [job for job in self._held if job.until <= now or (job.pace and job.pace.joins)]
        else:
            group = []
        self._held = [job for job in self._held if job not in group]
        return group, stopping

    def _receive(self) -> bool:
        """Wait for a job or until one is due, then take the others; True after the stop marker."""
        wait: float | None = None
        if self._held:
            wait = max(0.0, min(job.until for job in self._held) - time.monotonic())
        try:
            item = self._waiting.get(timeout=wait)
            while item is not None:
                if item.future.set_running_or_notify_cancel():
                    self._held.append(item)
                if len(self._held) >= self._max_group:
                    return False
                item = self._waiting.get_nowait()
        except queue.Empty:
            return False
        return True

    def _write_group(self, group: list[_Job]) -> None:
        started = time.perf_counter()
        for pace in {job.pace for job in group if job.pace}:
            pace.until = time.monotonic() + self.pace_seconds
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
            self.fence(connection)
            for job in group:
                _run_job(connection, job)

    def _unavailable(self, error: DBAPIError) -> StoreUnavailable:
        failure = unavailable(error)
        if isinstance(failure, StoreDamaged):
            self._broken = failure
        log.error("%s", failure)
        return failure

    def _fail(self, group: list[_Job], error: StoreUnavailable) -> None:
        self.rows.clear()
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
