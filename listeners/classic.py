"""What we ask of Spark through py4j on a classic (not Connect) session, besides the handles' own calls.

Each function is one or a few py4j calls (about 0.3 ms each) and changes nothing; `add_listener` and
`remove_listener` do what they say.
Sources of the names: PySpark 4.3 `pyspark.sql.streaming`, Spark's `StreamExecution` and `Trigger`
classes; all but `facts` also exist in 3.4. What a version lacks comes back as None.
"""

from __future__ import annotations

import json
import os
import re
from typing import Any, NamedTuple

#: Leaves of a plan that cannot change between two starts: data inside the plan itself.
FIXED_LEAVES = ("LocalRelation", "OneRowRelation", "Range")


class Listed(NamedTuple):
    """One active query, as `spark.streams.active` and `query.status` tell."""

    id: str
    run_id: str
    name: str | None
    message: str
    data_available: bool
    trigger_active: bool
    jsq: Any


def is_classic(session: Any) -> bool:
    """Whether the session talks to its JVM over py4j (Connect does not)."""
    return getattr(session, "_jsparkSession", None) is not None


def session_key(session: Any) -> int:
    """The same for all Python wrappers of one JVM session; each session has one manager of queries."""
    return manager_key(session._jsparkSession.streams())


def manager_key(jsqm: Any) -> int:
    """Which Java StreamingQueryManager this is."""
    from pyspark import SparkContext

    return int(SparkContext._jvm.java.lang.System.identityHashCode(jsqm))  # type: ignore[union-attr]


def add_listener(session: Any, listener: Any) -> Any:
    """Register the raw listener with this session's stream manager; returns the Java object for removal."""
    from py4j.java_gateway import java_import  # py4j comes with pyspark
    from pyspark.java_gateway import ensure_callback_server_started

    gateway = session.sparkContext._gateway
    java_import(gateway.jvm, "org.apache.spark.sql.streaming.*")
    ensure_callback_server_started(gateway)
    wrapped = gateway.jvm.PythonStreamingQueryListenerWrapper(listener)
    session.streams._jsqm.addListener(wrapped)
    return wrapped


def remove_listener(session: Any, wrapped: Any) -> None:
    session.streams._jsqm.removeListener(wrapped)


def ids(jsq: Any) -> tuple[str, str, str | None]:
    """(query id, run id, name) of a Java query."""
    return jsq.id().toString(), jsq.runId().toString(), jsq.name()


def active(session: Any) -> list[Listed]:
    """Every active query of this session with its status."""
    return [listed(jsq) for jsq in session.streams._jsqm.active()]


def listed(jsq: Any) -> Listed:
    query_id, run_id, name = ids(jsq)
    status = json.loads(jsq.status().json())
    return Listed(
        query_id,
        run_id,
        name,
        str(status.get("message", "")),
        bool(status.get("isDataAvailable")),
        bool(status.get("isTriggerActive")),
        jsq,
    )


def tasks(session: Any, run_id: str) -> tuple[int, int]:
    """(active, completed) tasks of the newest jobs of a query; its job group is its run id."""
    tracker = session.sparkContext._jsc.statusTracker()
    running = completed = 0
    for job in sorted(_numbers(session, tracker.getJobIdsForGroup(run_id)), reverse=True)[:3]:
        info = tracker.getJobInfo(job)
        for stage in _numbers(session, info.stageIds())[:50] if info is not None else []:
            figures = tracker.getStageInfo(stage)
            if figures is not None:
                running += figures.numActiveTasks()
                completed += figures.numCompletedTasks()
    return running, completed


def _numbers(session: Any, array: Any) -> list[int]:
    """A Java array of numbers in one call; py4j reads one element a call, and a query has a job a batch."""
    text = session.sparkContext._jvm.scala.runtime.ScalaRunTime.stringOf(array)
    return [int(number) for number in re.findall(r"\d+", text)]


def driver_figures(session: Any) -> dict[str, Any]:
    """`executors` that live and `driver` {heapUsed, heapMax} in bytes: ten py4j calls, about 1 ms in all.

    Spark lists the driver beside its executors and is its only entry in local mode: that is 0 executors.
    The list is read from Spark's own store of its status, so that no message to a busy driver is waited for.
    """
    context = session.sparkContext
    listed = len(context._jsc.sc().statusTracker().getExecutorInfos())
    runtime = context._jvm.Runtime.getRuntime()
    used = runtime.totalMemory() - runtime.freeMemory()
    return {"executors": max(0, listed - 1), "driver": {"heapUsed": used, "heapMax": runtime.maxMemory()}}


def is_over(jsq: Any) -> bool:
    """Whether the run has really ended: Spark says "not active" as soon as a stop begins."""
    if jsq.isActive():
        return False
    return not _try(lambda: jsq.streamingQuery().queryExecutionThread().isAlive())


def failure(jsq: Any) -> Exception | None:
    """Why a query failed, as PySpark raises it; None if it did not."""
    from pyspark.sql.streaming.query import StreamingQuery

    return StreamingQuery(jsq).exception()


def checkpoint(jsq: Any) -> str | None:
    """Where the query keeps its checkpoint; None where Spark does not tell."""
    found = _try(lambda: jsq.streamingQuery().resolvedCheckpointRoot())
    return str(found) if found else None


def facts(jsq: Any) -> dict[str, Any]:
    """Trigger, checkpoint, output mode, sink and watermark of a running query, as far as this Spark tells."""
    execution = _try(lambda: jsq.streamingQuery()) or jsq
    trigger, interval = parse_trigger(_try(lambda: execution.trigger().toString()))
    root = checkpoint(jsq)
    return {
        "trigger": trigger,
        "triggerInterval": interval,
        "checkpoint": root,
        "checkpointIsTemporary": None if root is None else is_temporary(root),
        "outputMode": _try(lambda: execution.outputMode().toString().lower()),
        "sink": _try(lambda: str(execution.sink().toString())[:200]),
        "watermarkDelay": parse_delay(str(_try(lambda: execution.analyzedPlan().toString()))),
    }


def _try(ask: Any) -> Any:
    try:
        return ask()
    except Exception:
        return None


def parse_trigger(text: str | None) -> tuple[str | None, float | None]:
    """`ProcessingTimeTrigger(2000)` → ("processing_time", 2.0 seconds)."""
    kinds = {
        "ProcessingTime": "processing_time",
        "AvailableNow": "available_now",
        "OneTime": "once",
        "Continuous": "continuous",
        "RealTime": "real_time",
    }
    for word, kind in kinds.items():
        if text and text.startswith(word):
            interval = re.search(r"\((\d+)", text)
            return kind, int(interval.group(1)) / 1000.0 if interval else None
    return None, None


_WATERMARK = re.compile(r"EventTimeWatermark .*, ((?:-?[\d.]+ [a-z]+ ?)+)$", re.MULTILINE)
#: As Spark reckons the delay of a watermark: a month has 31 days.
_UNITS = {
    "years": 12 * 31 * 86400.0,
    "months": 31 * 86400.0,
    "days": 86400.0,
    "hours": 3600.0,
    "minutes": 60.0,
    "seconds": 1.0,
}


def parse_delay(plan: str) -> float | None:
    """The longest delay of a plan's watermarks in seconds; None without one.

    `EventTimeWatermark 41fd…, ts#0: timestamp, 1 minutes 30 seconds` → 90.0; Spark 3 names no node id.
    """
    try:
        return max((_seconds(delay) for delay in _WATERMARK.findall(plan)), default=None)
    except (KeyError, ValueError):  # a later Spark writes it another way
        return None


def _seconds(interval: str) -> float:
    words = interval.split()
    return sum(float(number) * _UNITS[unit] for number, unit in zip(words[::2], words[1::2]))


def is_temporary(checkpoint: str) -> bool:
    """Whether Spark made this checkpoint up because the program named none (`temporary-<uuid>`)."""
    return os.path.basename(checkpoint.rstrip("/")).startswith("temporary-")


def batches_on_record(jsq: Any) -> tuple[int | None, int | None]:
    """(newest planned, newest committed) batch in the checkpoint's logs; None where unknown or none yet."""
    execution = _try(lambda: jsq.streamingQuery())
    return _newest(execution, "offsetLog"), _newest(execution, "commitLog")


def _newest(execution: Any, log: str) -> int | None:
    found = _try(lambda: getattr(execution, log)().getLatestBatchId())
    return int(found.get()) if found is not None and found.isDefined() else None


def static_leaves(writer: Any) -> list[str]:
    """Class names of the non-streaming inputs of a writer's plan that may change between two starts."""
    plan = writer._df._jdf.queryExecution().analyzed()
    plans = [plan, *_items(plan.subqueriesAll())]
    names = []
    for leaf in [leaf for each in plans for leaf in _items(each.collectLeaves())]:
        name = leaf.getClass().getSimpleName()
        if not leaf.isStreaming() and name not in FIXED_LEAVES:
            names.append(name)
    return names


def _items(sequence: Any) -> list[Any]:
    return [sequence.apply(i) for i in range(sequence.size())]


def error_class_of(error: BaseException) -> str | None:
    """Spark's error condition of a Python-side exception (`getCondition` in 4.x, `getErrorClass` in 3.x)."""
    for name in ("getCondition", "getErrorClass"):
        ask = getattr(error, name, None)
        if callable(ask):
            found = _try(ask)
            if found:
                return str(found)
    return None


def text_of(error: BaseException) -> str:
    """An exception's full text: the Java causes where there are any, else Python's."""
    origin = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    stack = None
    if origin is not None:
        stack = _try(lambda: _java_stack(origin))
    return str(stack or getattr(error, "_stackTrace", None) or f"{type(error).__name__}: {error}")


def _java_stack(throwable: Any) -> str:
    from pyspark import SparkContext

    jvm = SparkContext._jvm
    return str(jvm.org.apache.spark.util.Utils.exceptionString(throwable))  # type: ignore[union-attr]
