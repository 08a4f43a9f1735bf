"""What the agent asks of Spark; its two forms are `listeners.spark.classic` (py4j) and `listeners.spark.connect.session` (gRPC).

An `Engine` knows one kind of session. A `SparkRun` is one run of one query: a value that stays what it is,
while the user's own handle may come to stand for a later run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Callable, NamedTuple, Protocol


class SparkStatus(NamedTuple):
    """`query.status` as Spark tells it."""

    message: str
    data_available: bool
    trigger_active: bool


class SparkRun(Protocol):
    """One run of a query. Each call asks Spark: not for a callback of Spark's own threads."""

    @property
    def query_id(self) -> str: ...

    @property
    def run_id(self) -> str: ...

    @property
    def name(self) -> str | None: ...

    def is_active(self) -> bool:
        """What Spark says; false as soon as a stop begins."""

    def is_over(self) -> bool:
        """Whether the run has really ended, its last batch included."""

    def status(self) -> SparkStatus: ...

    def stop(self) -> None:
        """May block for ever (SPARK-30143), and cuts the running batch."""

    def failure(self) -> Exception | None:
        """Why it failed, as PySpark raises it; None if it did not."""

    def checkpoint(self) -> str | None:
        """Where it keeps its checkpoint; None where Spark does not tell."""

    def facts(self) -> dict[str, Any]:
        """`trigger`, `triggerInterval` (seconds), `checkpoint`, `checkpointIsTemporary`, `outputMode`, `sink`,
        `watermarkDelay` (seconds), …; None for what this Spark does not tell."""

    def shape(self, redact: Callable[[str], str] | None) -> dict[str, Any] | None:
        """What of the query its checkpoint depends on (`listeners.spark.shape`); None where it cannot be known."""

    def thread(self) -> dict[str, Any] | None:
        """`state` and the upper frames, `stack`, of the thread that runs it; None where it cannot be seen."""

    def batches_on_record(self) -> tuple[int | None, int | None]:
        """(newest planned, newest committed) batch in the checkpoint's logs; None where unknown or none yet."""


class Engine(Protocol):
    """One kind of Spark session. `session`, `query`, `manager`, `writer` are PySpark's own objects."""

    #: Whether `stop()` of a session ends that session only, and not the application.
    independent_sessions: bool

    def classes(self) -> Mapping[str, type]:
        """PySpark's classes whose methods are wrapped, by the names `session`, `query`, `manager`, `writer`, and
        `context` where there is one."""

    def app(self, session: Any) -> dict[str, Any]:
        """`name`, `id`, `spark_version`, `master`, `ui_url` of the application; None for what is unknown."""

    def setting(self, session: Any, name: str) -> str | None:
        """A setting of the session or the application."""

    def key(self, session: Any) -> int:
        """The same for all Python wrappers of one Spark session; each has one manager of queries."""

    def key_of(self, manager: Any) -> int:
        """The key of the session whose manager this is."""

    def session_of(self, writer: Any) -> Any:
        """The session in which this writer starts its query."""

    def listen(self, session: Any, listener: Any) -> Callable[[], None]:
        """Have the session's events go to a `listeners.spark.listener.RawListener`; the answer takes it off again."""

    def run(self, query: Any, start: Start | None = None) -> SparkRun:
        """The run that a handle stands for now. `start`: how it was started, where that was seen."""

    def run_id(self, query: Any) -> str:
        """Cheap: for the user's own thread."""

    def rebind(self, query: Any, run: SparkRun) -> None:
        """From now on the user's handle stands for this run."""

    def active(self, session: Any) -> Sequence[SparkRun]: ...

    def active_of(self, manager: Any) -> Sequence[SparkRun]: ...

    def reset_terminated(self, manager: Any) -> None: ...

    def is_outage(self, failure: Exception) -> bool:
        """Whether a wait raised this because Spark could not be asked, and not because a query failed."""

    def permanent_outage(self, run: SparkRun) -> Exception | None:
        """What Spark answers where it will never run this query again: it is over, or forgot it. Else None,
        also where it only does not answer now."""

    def tasks(self, session: Any, run_id: str) -> tuple[int, int] | None:
        """(active, completed) tasks of the run's newest jobs; None where they cannot be seen."""

    def driver_figures(self, session: Any) -> dict[str, Any]:
        """`executors` and `driver` {heapUsed, heapMax} in bytes; empty where they cannot be seen."""

    def pool(self, session: Any) -> str | None:
        """The scheduler pool of the calling thread."""

    def activate(self, session: Any, pool: str | None) -> None:
        """Let the calling thread start queries as the program's own did: this session active, in this pool."""

    def static_leaves(self, writer: Any) -> list[str]:
        """Names of the non-streaming inputs of a writer's plan that may change between two starts."""


@dataclass(eq=False)
class Start:
    """One recorded call that started a query. `repeat` makes the same call on the unwrapped method."""

    method: str
    original: Callable[..., Any]
    writer: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    session: Any
    generation: int
    engine: Engine
    pool: str | None = None  # the scheduler pool of the thread that called
    #: The writer's own trigger interval in seconds, where a command ever asked for another.
    own_interval: float | None = None
    #: What a command gave the newest run instead.
    interval: float | None = None

    def repeat(self, interval: float | None = None, own: float | None = None) -> Any:
        """Start again; returns PySpark's StreamingQuery.

        `interval` in seconds replaces the trigger's for this start, and then the writer is the program's own
        again; `own` is the interval of the present run.
        """
        self.engine.activate(self.session, self.pool)
        self.interval = interval
        if interval is None:
            return self.original(self.writer, *self.args, **self.kwargs)
        if self.own_interval is None:  # else the present run may be one with another interval
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
    """As Spark reads it."""
    return f"{round(seconds * 1000)} milliseconds"
