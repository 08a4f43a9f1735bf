"""The interface to Spark.

`listeners.spark.classic` (py4j) and `listeners.spark.connect.session` (gRPC) implement it. An `Engine`
handles one kind of session. A `SparkRun` is one run of one query and never changes, while the user's own
handle may later stand for a newer run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Callable, NamedTuple, Protocol


class SparkStatus(NamedTuple):
    """Spark's `query.status`."""

    message: str
    data_available: bool
    trigger_active: bool


class SparkOutage(NamedTuple):
    """Why Spark does not answer. `cause` is one of `listeners.protocol.wire.OUTAGE_CAUSES`."""

    cause: str
    detail: str
    #: One failed request is evidence enough.
    certain: bool = False
    #: SIGTERM ended the JVM: a person or a scheduler did.
    by_sigterm: bool = False


class SparkTasks(NamedTuple):
    """Tasks of a run's newest jobs, and the id of the newest of them: many small jobs have equal counts."""

    active: int
    completed: int
    job: int


class SparkRun(Protocol):
    """One run of a query. Every call asks Spark, so it must not run on Spark's callback threads."""

    @property
    def query_id(self) -> str:
        """The query's id, the same in all its runs."""

    @property
    def run_id(self) -> str:
        """The run's id."""

    @property
    def name(self) -> str | None:
        """The query's name, if it has one."""

    def is_active(self) -> bool:
        """Spark's answer; False as soon as a stop begins."""

    def is_over(self) -> bool:
        """Whether the run has ended, including its last batch."""

    def status(self) -> SparkStatus:
        """The current status."""

    def stop(self) -> None:
        """Stop the run and cancel its running batch. May block forever (SPARK-30143)."""

    def failure(self) -> Exception | None:
        """The failure as PySpark raises it; None if the run did not fail."""

    def checkpoint(self) -> str | None:
        """The checkpoint location; None if Spark does not report it."""

    def facts(self) -> dict[str, Any]:
        """Facts of the run; None for those that this Spark does not report.

        `trigger`, `triggerInterval` (seconds), `checkpoint`, `checkpointIsTemporary`, `outputMode`, `sink`,
        `watermarkDelay` (seconds), ….
        """

    def shape(self, redact: Callable[[str], str] | None) -> dict[str, Any] | None:
        """The properties that the checkpoint depends on (`listeners.spark.shape`); None if unknown."""

    def thread(self) -> dict[str, Any] | None:
        """`state` and upper frames (`stack`) of the thread that executes the run; None if unknown."""

    def batches_on_record(self) -> tuple[int | None, int | None]:
        """(newest planned, newest committed) batch in the checkpoint's logs; None if unknown or none yet."""


class Engine(Protocol):
    """One kind of Spark session. `session`, `query`, `manager` and `writer` are PySpark's own objects."""

    #: Whether `stop()` of a session ends only that session, not the application.
    independent_sessions: bool

    def classes(self) -> Mapping[str, type]:
        """PySpark's classes to wrap, by name: `session`, `query`, `manager`, `writer`, `context` if any."""

    def app(self, session: Any) -> dict[str, Any]:
        """`name`, `id`, `spark_version`, `master`, `ui_url` of the application; None where unknown."""

    def setting(self, session: Any, name: str) -> str | None:
        """A setting of the session or the application; None if it is not set."""

    def key(self, session: Any) -> int:
        """A key of the Spark session, equal for all its Python wrappers.

        Each session has one query manager.
        """

    def key_of(self, manager: Any) -> int:
        """The key of this manager's session."""

    def session_of(self, writer: Any) -> Any:
        """The session in which this writer starts its query."""

    def listen(self, session: Any, listener: Any) -> Callable[[], None]:
        """Send the session's events to a RawListener; returns a call that removes the listener."""

    def on_signal(self, session: Any, act: Callable[[str], None]) -> Callable[[], None]:
        """Call `act(reason)` when a signal ends Spark's process; returns a call that removes this."""

    def run(self, query: Any, start: Start | None = None) -> SparkRun:
        """The run that a handle stands for now. `start` is the recorded start, if it was seen."""

    def run_id(self, query: Any) -> str:
        """The run id of a handle. Cheap, so the user's thread may call it."""

    def rebind(self, query: Any, run: SparkRun) -> None:
        """Make the user's handle stand for this run."""

    def active(self, session: Any) -> Sequence[SparkRun]:
        """The session's active runs."""

    def active_of(self, manager: Any) -> Sequence[SparkRun]:
        """The active runs of this manager's session."""

    def reset_terminated(self, manager: Any) -> None:
        """Call Spark's `resetTerminated`."""

    def is_outage(self, failure: Exception) -> bool:
        """Whether a wait raised this because Spark did not answer, not because a query failed."""

    def outage(self, error: Exception | None) -> SparkOutage | None:
        """Why Spark did not answer a request; None where it answers, if only with an error.

        `error` is what the request raised; None asks what is known without a request.
        """

    def permanent_outage(self, run: SparkRun) -> Exception | None:
        """Spark's error if it will never run this query again: it ended or forgot the query.

        None otherwise, also if Spark only does not answer now.
        """

    def tasks(self, session: Any, run_id: str) -> SparkTasks | None:
        """The tasks of the run's newest jobs; None if unknown."""

    def driver_figures(self, session: Any) -> dict[str, Any]:
        """`executors` and `driver` {heapUsed, heapMax} in bytes; empty if unknown."""

    def pool(self, session: Any) -> str | None:
        """The scheduler pool of the calling thread."""

    def activate(self, session: Any, pool: str | None) -> None:
        """Prepare the calling thread to start queries like the program: this active session, this pool."""

    def stream_formats(self, writer: Any) -> list[str]:
        """The formats of the streaming inputs of a writer's plan, where the plan names them."""

    def static_leaves(self, writer: Any) -> list[str]:
        """Names of the non-streaming inputs of a writer's plan that may change between two starts."""


@dataclass(eq=False)
class Start:
    """A recorded call that started a query. `repeat` makes the same call on the unwrapped method."""

    method: str
    original: Callable[..., Any]
    writer: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    session: Any
    generation: int
    engine: Engine
    pool: str | None = None  # the scheduler pool of the calling thread
    #: The writer's own trigger interval in seconds, set once a command has requested another.
    own_interval: float | None = None
    #: The interval that a command set for the newest run.
    interval: float | None = None

    def repeat(self, interval: float | None = None, own: float | None = None) -> Any:
        """Start the query again; returns PySpark's StreamingQuery.

        `interval` in seconds replaces the trigger's interval for this start only. `own` is the interval of
        the current run, restored in the writer afterwards.
        """
        self.engine.activate(self.session, self.pool)
        self.interval = interval
        if interval is None:
            return self.original(self.writer, *self.args, **self.kwargs)
        if self.own_interval is None:  # otherwise the current run may have another interval
            self.own_interval = own
        try:
            self._set_interval(interval)
            return self.original(self.writer, *self.args, **self.kwargs)
        finally:
            if self.own_interval is not None:
                self._set_interval(self.own_interval)

    def _set_interval(self, seconds: float) -> None:
        self.writer.trigger(processingTime=spark_interval(seconds))


def spark_interval(seconds: float) -> str:
    """The interval in the form that Spark parses."""
    return f"{round(seconds * 1000)} milliseconds"
