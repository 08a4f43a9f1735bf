"""Classic (not Connect) Spark sessions: the py4j implementation of `listeners.spark.engine`.

Each function is one or a few py4j calls (about 0.3 ms each). Only `listen` and the methods of a run that say
so change anything. Sources of the names: PySpark 4.3 `pyspark.sql.streaming`, Spark's `StreamExecution` and
`Trigger` classes; most also exist in 3.4. What a version lacks is returned as None.
"""

from __future__ import annotations

import json
import os
import re
import weakref
from collections.abc import Mapping
from functools import partial
from typing import Any, Callable

from listeners.protocol.wire import NO_ANSWER
from listeners.spark import plans
from listeners.spark.engine import SparkOutage, SparkRun, SparkStatus, SparkTasks, Start
from listeners.spark.jvm_shutdown import jvm_end, on_signal

POOL = "spark.scheduler.pool"
LOCATION = "spark.sql.streaming.checkpointLocation"
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
#: Stack frames in a thread state, without the frames of Java and py4j.
MAX_FRAMES = 12
INTERNAL_PREFIXES = ("java.", "jdk.", "py4j.")


class ClassicRun:
    """One run, identified by its Java query (`jsq`)."""

    def __init__(self, jsq: Any):
        self.jsq = jsq
        self.query_id, self.run_id, self.name = ids(jsq)

    def is_active(self) -> bool:
        return bool(self.jsq.isActive())

    def is_over(self) -> bool:
        """Spark reports "not active" as soon as a stop begins, so the query's thread must have ended too."""
        if self.is_active():
            return False
        return not _try(lambda: self.jsq.streamingQuery().queryExecutionThread().isAlive())

    def status(self) -> SparkStatus:
        found = json.loads(self.jsq.status().json())
        return SparkStatus(
            str(found.get("message", "")),
            bool(found.get("isDataAvailable")),
            bool(found.get("isTriggerActive")),
        )

    def stop(self) -> None:
        self.jsq.stop()

    def failure(self) -> Exception | None:
        from pyspark.sql.streaming.query import StreamingQuery

        return StreamingQuery(self.jsq).exception()

    def checkpoint(self) -> str | None:
        """The resolved checkpoint location."""
        return checkpoint(self.jsq)

    def facts(self) -> dict[str, Any]:
        return facts(self.jsq)

    def shape(self, redact: Callable[[str], str] | None) -> dict[str, Any] | None:
        from listeners.spark.shape import shape_of

        return shape_of(self.jsq, redact)

    def thread(self) -> dict[str, Any] | None:
        return _try(lambda: _thread(self.jsq.streamingQuery().queryExecutionThread()))

    def batches_on_record(self) -> tuple[int | None, int | None]:
        execution = _try(lambda: self.jsq.streamingQuery())
        return _newest(execution, "offsetLog"), _newest(execution, "commitLog")


_KEYS: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()


class ClassicEngine:
    """Implements `listeners.spark.engine.Engine` with py4j."""

    independent_sessions = False

    def classes(self) -> Mapping[str, type]:
        from pyspark import SparkContext
        from pyspark.sql import SparkSession
        from pyspark.sql.streaming.query import StreamingQuery, StreamingQueryManager
        from pyspark.sql.streaming.readwriter import DataStreamWriter

        return {
            "context": SparkContext,
            "session": SparkSession,
            "query": StreamingQuery,
            "manager": StreamingQueryManager,
            "writer": DataStreamWriter,
        }

    def app(self, session: Any) -> dict[str, Any]:
        context = session.sparkContext
        return {
            "name": context.appName,
            "id": context.applicationId,
            "spark_version": context.version,
            "master": context.master,
            "ui_url": context.uiWebUrl,
        }

    def setting(self, session: Any, name: str) -> str | None:
        found = session.sparkContext.getConf().get(name)
        return None if found is None else str(found)

    def key(self, session: Any) -> int:
        known = _KEYS.get(session)
        if known is None:  # six py4j calls, and needed at every start of a query
            known = _KEYS[session] = manager_key(session._jsparkSession.streams())
        return known

    def key_of(self, manager: Any) -> int:
        return manager_key(manager._jsqm)

    def session_of(self, writer: Any) -> Any:
        return getattr(writer, "_spark", None)

    def listen(self, session: Any, listener: Any) -> Callable[[], None]:
        """Register a Java listener that py4j forwards to `listener`."""
        from py4j.java_gateway import java_import  # py4j comes with pyspark
        from pyspark.java_gateway import ensure_callback_server_started

        gateway = session.sparkContext._gateway
        java_import(gateway.jvm, "org.apache.spark.sql.streaming.*")
        ensure_callback_server_started(gateway)
        wrapped = gateway.jvm.PythonStreamingQueryListenerWrapper(listener)
        session.streams._jsqm.addListener(wrapped)
        # A weak reference: the listener must not keep alive a session that its program has released.
        return partial(_remove_listener, weakref.ref(session), wrapped)

    def on_signal(self, session: Any, act: Callable[[str], None]) -> Callable[[], None]:
        return on_signal(session.sparkContext._gateway.jvm, act)

    def run(self, query: Any, start: Start | None = None) -> ClassicRun:
        return ClassicRun(query._jsq)

    def run_id(self, query: Any) -> str:
        return str(query._jsq.runId().toString())

    def rebind(self, query: Any, run: Any) -> None:
        query._jsq = run.jsq

    def active(self, session: Any) -> list[ClassicRun]:
        return [ClassicRun(jsq) for jsq in session.streams._jsqm.active()]

    def active_of(self, manager: Any) -> list[ClassicRun]:
        return [ClassicRun(jsq) for jsq in manager._jsqm.active()]

    def reset_terminated(self, manager: Any) -> None:
        manager._jsqm.resetTerminated()

    def is_outage(self, failure: Exception) -> bool:
        """False: the driver is this process."""
        return False

    def outage(self, error: Exception | None) -> SparkOutage | None:
        """Whether the JVM has ended, else whether `error` is one of py4j's connection."""
        from py4j.protocol import Py4JJavaError, Py4JNetworkError
        from pyspark import SparkContext

        if isinstance(error, Py4JJavaError) or SparkContext._gateway is None:
            return None
        ended = jvm_end(SparkContext._gateway)
        if ended is not None:
            return ended
        unanswered = isinstance(error, (Py4JNetworkError, OSError))
        return SparkOutage(NO_ANSWER, f"the driver's JVM did not answer: {error}") if unanswered else None

    def permanent_outage(self, run: SparkRun) -> Exception | None:
        """A Java error is an answer.

        Try a broken connection twice: py4j opens a new one for the second try.
        """
        return _unreachable(run) and _unreachable(run)

    def tasks(self, session: Any, run_id: str) -> SparkTasks | None:
        return tasks(session, run_id)

    def driver_figures(self, session: Any) -> dict[str, Any]:
        return driver_figures(session)

    def pool(self, session: Any) -> str | None:
        found = session.sparkContext.getLocalProperty(POOL)
        return None if found is None else str(found)

    def activate(self, session: Any, pool: str | None) -> None:
        """Set the thread's scheduler pool and its active Java session."""
        session.sparkContext.setLocalProperty(POOL, pool)
        find = getattr(session, "_get_j_spark_session_class", None)  # Spark 4 has two classes of that name
        java = find(session._jvm) if find is not None else session._jvm.SparkSession
        java.setActiveSession(session._jsparkSession)

    def stream_formats(self, writer: Any) -> list[str]:
        return [str(leaf.sourceName()) for leaf, name in _leaves(writer) if name == "StreamingRelationV2"]

    def static_leaves(self, writer: Any) -> list[str]:
        return [
            name
            for leaf, name in _leaves(writer)
            if name not in plans.FIXED_LEAVES and not leaf.isStreaming()
        ]


ENGINE = ClassicEngine()


def _remove_listener(session: weakref.ReferenceType[Any], wrapped: Any) -> None:
    alive = session()
    if alive is not None:
        alive.streams._jsqm.removeListener(wrapped)


def _unreachable(run: SparkRun) -> Exception | None:
    from py4j.protocol import Py4JError, Py4JJavaError

    try:
        run.is_active()
    except Py4JJavaError:
        return None
    except (Py4JError, OSError) as error:
        return error
    return None


def manager_key(jsqm: Any) -> int:
    """An identity of the Java StreamingQueryManager."""
    from pyspark import SparkContext

    return int(SparkContext._jvm.java.lang.System.identityHashCode(jsqm))  # type: ignore[union-attr]


def ids(jsq: Any) -> tuple[str, str, str | None]:
    """(query id, run id, name) of a Java query."""
    return jsq.id().toString(), jsq.runId().toString(), jsq.name()


def tasks(session: Any, run_id: str) -> SparkTasks:
    """The tasks of the newest jobs of a query; its job group is its run id."""
    tracker = session.sparkContext._jsc.statusTracker()
    jobs = sorted(_numbers(session, tracker.getJobIdsForGroup(run_id)), reverse=True)
    active = completed = 0
    for job in jobs[:3]:
        info = tracker.getJobInfo(job)
        for stage in _numbers(session, info.stageIds())[:50] if info is not None else []:
            figures = tracker.getStageInfo(stage)
            if figures is not None:
                active += figures.numActiveTasks()
                completed += figures.numCompletedTasks()
    return SparkTasks(active, completed, max(jobs, default=-1))


def _numbers(session: Any, array: Any) -> list[int]:
    """A Java array of numbers in one call: py4j reads one element a call, and a query has one job a batch."""
    text = session.sparkContext._jvm.scala.runtime.ScalaRunTime.stringOf(array)
    return [int(number) for number in re.findall(r"\d+", text)]


def driver_figures(session: Any) -> dict[str, Any]:
    """Live `executors` and `driver` {heapUsed, heapMax} in bytes: ten py4j calls, about 1 ms in total.

    Spark lists the driver as one of its executors, in local mode as the only one, which counts as 0
    executors. The list comes from Spark's own status store, so the call never waits for a busy driver.
    """
    context = session.sparkContext
    listed = len(context._jsc.sc().statusTracker().getExecutorInfos())
    runtime = context._jvm.Runtime.getRuntime()
    used = runtime.totalMemory() - runtime.freeMemory()
    return {"executors": max(0, listed - 1), "driver": {"heapUsed": used, "heapMax": runtime.maxMemory()}}


def checkpoint(jsq: Any) -> str | None:
    """The query's checkpoint location; None if Spark does not report it."""
    found = _try(lambda: jsq.streamingQuery().resolvedCheckpointRoot())
    return str(found) if found else None


def facts(jsq: Any) -> dict[str, Any]:
    """Trigger, checkpoint, output mode, sink and watermark of a running query, if Spark reports them."""
    execution = _try(lambda: jsq.streamingQuery()) or jsq
    trigger, interval = plans.parse_trigger(_try(lambda: execution.trigger().toString()))
    root = checkpoint(jsq)
    made_up = root is not None and is_made_up(root, jsq.name(), _session_location(jsq))
    return {
        "trigger": trigger,
        "triggerInterval": interval,
        "checkpoint": root,
        "checkpointIsTemporary": None if root is None else is_temporary(root),
        **({"checkpointIsMadeUp": True} if made_up else {}),
        "outputMode": _try(lambda: execution.outputMode().toString().lower()),
        "sink": _try(lambda: str(execution.sink().toString())[:200]),
        "watermarkDelay": plans.parse_delay(str(_try(lambda: execution.analyzedPlan().toString()))),
    }


def is_made_up(checkpoint: str, name: str | None, location: str | None) -> bool:
    """Whether Spark made up this directory below the session's `checkpointLocation` for a query without a name.

    Source: ResolveWriteToStream. Every start gets another directory.
    """
    folder, _, last = checkpoint.rstrip("/").rpartition("/")
    return not name and bool(location and _UUID.fullmatch(last)) and _path(folder) == _path(location or "")


def _path(url: str) -> str:
    return re.sub(r"^[\w+.-]+:(//[^/]*)?", "", url).rstrip("/")


def _session_location(jsq: Any) -> str | None:
    return _try(lambda: jsq.sparkSession().conf().get(LOCATION, None))


def _try(ask: Any) -> Any:
    try:
        return ask()
    except Exception:
        return None


def is_temporary(checkpoint: str) -> bool:
    """Whether Spark created this checkpoint because the program set none (`temporary-<uuid>`)."""
    return os.path.basename(checkpoint.rstrip("/")).startswith("temporary-")


def _thread(thread: Any) -> dict[str, Any]:
    """A Java thread's state and stack: the top frame, then all frames that are not Java's or py4j's own."""
    from pyspark import SparkContext

    stack = thread.getStackTrace()
    text = SparkContext._jvm.scala.runtime.ScalaRunTime.stringOf(stack)  # type: ignore[union-attr]
    frames = str(text)[len("Array(") : -1].split(", ")
    # A frame may begin with the name of a class loader: `app//py4j…`.
    kept = frames[:1] + [
        frame for frame in frames[1:] if not frame.split("//")[-1].startswith(INTERNAL_PREFIXES)
    ]
    return {"state": thread.getState().toString(), "stack": kept[:MAX_FRAMES]}


def _newest(execution: Any, log: str) -> int | None:
    found = _try(lambda: getattr(execution, log)().getLatestBatchId())
    return int(found.get()) if found is not None and found.isDefined() else None


def _leaves(writer: Any) -> list[tuple[Any, str]]:
    """The inputs of a writer's plan, with the names of their classes."""
    plan = writer._df._jdf.queryExecution().analyzed()
    trees = [plan, *_items(plan.subqueriesAll())]
    return [
        (leaf, str(leaf.getClass().getSimpleName()))
        for tree in trees
        for leaf in _items(tree.collectLeaves())
    ]


def _items(sequence: Any) -> list[Any]:
    return [sequence.apply(i) for i in range(sequence.size())]
