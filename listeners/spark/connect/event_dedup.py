"""Deduplicate the events of a Connect session, which arrive in two ways.

One way is Spark's event stream, the other Spark's memory of each run (`recentProgress`). A start event is
generated for a run not seen before: Connect reports a start only to the client that requested it.
"""

from __future__ import annotations

import collections
import json
import re
import threading
import time
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Callable, NamedTuple

from listeners.spark.connect import pipelines

#: Reports remembered of a run: more than Spark remembers (`numRecentProgressUpdates`, 100).
MAX_REPORTS = 1000
#: Ended runs remembered; beyond this number the oldest is forgotten.
MAX_ENDED = 200
#: Stands for the batch in the key of an idle trigger.
IDLE = -1

_WRAPPED = '{"progress":'
#: Spark writes JSON without blanks. PySpark adds them when it serializes an event for a program's listener.
_RUN = re.compile(r'"id": ?"([0-9a-f-]{36})".*?"runId": ?"([0-9a-f-]{36})"', re.DOTALL)
_NAME = re.compile(r'"name": ?("(?:[^"\\]|\\.)*"|null)')
_BATCH = re.compile(r'"timestamp": ?"([^"]+)", ?"batchId": ?(-?\d+)')


class ConnectEvent(NamedTuple):
    """An event for the inbox: `data` is JSON text; `at` in Unix seconds, None for now."""

    type: str
    data: str
    at: float | None = None


@dataclass
class RunEvents:
    """The events of one run that have been passed on."""

    query_id: str
    run_id: str
    name: str | None = None
    reports: collections.OrderedDict[tuple[int, str], None] = field(default_factory=collections.OrderedDict)
    ended: bool = False
    #: The end event, while reports that Spark made before it are still to be read.
    held_end: list[ConnectEvent] = field(default_factory=list)
    #: Rounds in which the run was not active, although no end has arrived.
    missing: int = 0
    #: The `EventStream`'s number when all reports in Spark's memory were last read.
    listening_number: int | None = None

    def is_new(self, report: tuple[int, str]) -> bool:
        """Whether the report (batch id, time) has not been seen; remembers it."""
        if report in self.reports:
            return False
        self.reports[report] = None
        while len(self.reports) > MAX_REPORTS:
            self.reports.popitem(last=False)
        return True


class EventDeduplicator:
    """Returns the new events for each event that arrives: none, the event itself, or a start before it.

    Thread-safe.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._runs: collections.OrderedDict[str, RunEvents] = collections.OrderedDict()
        self._lock = threading.Lock()

    def admit(self, type: str, data: str, late: bool = False) -> list[ConnectEvent]:
        """`data` is Spark's JSON. `late`: it comes from Spark's memory, so the report's own time counts."""
        if type == "progress" and data.startswith(_WRAPPED):
            data = data[len(_WRAPPED) : -1]
        ids = _RUN.search(data)
        if ids is None:
            return []
        with self._lock:
            name = _name(data) if type in ("progress", "started") else None
            found = self._start_unless_known(ids.group(1), ids.group(2), name)
            if (
                type == "started"
            ):  # PySpark's own, where the program has listeners: more exact than the generated
                return [ConnectEvent(type, data)] if found else []
            run = self._runs[ids.group(2)]
            if not self._is_new(run, type, data):
                return found
            if not late:
                return [*found, ConnectEvent(type, data)]
            at = report_time(data, self._clock())
            if (timestamp := idle_timestamp(data)) is None:
                return [*found, ConnectEvent(type, data, at)]
            idle = _dump(id=run.query_id, runId=run.run_id, timestamp=timestamp)
            return [*found, *([ConnectEvent("idle", idle, at)] if self._is_new(run, "idle", idle) else [])]

    def hold_end(self, event: ConnectEvent, listening_number: int) -> bool:
        """Keep an end event in its run's `held_end`, if reports made before it may not have been read yet."""
        ids = _RUN.search(event.data)
        with self._lock:
            run = self._runs.get(ids.group(2)) if ids else None
            if run is None or run.listening_number == listening_number:
                return False
            run.held_end.append(event)
            return True

    def run_started(self, query_id: str, run_id: str, name: str | None) -> list[ConnectEvent]:
        """The start event of a run, unless it is known."""
        with self._lock:
            return self._start_unless_known(query_id, run_id, name)

    def _start_unless_known(self, query_id: str, run_id: str, name: str | None) -> list[ConnectEvent]:
        if run_id in self._runs:
            return []
        self._runs[run_id] = RunEvents(query_id, run_id, name)
        ended = [run.run_id for run in self._runs.values() if run.ended and not run.held_end]
        for old in ended[: max(0, len(ended) - MAX_ENDED)]:
            del self._runs[old]
        now = spark_timestamp(self._clock())
        flow = {"facts": facts} if (facts := pipelines.flow_facts()) else {}
        return [ConnectEvent("started", _dump(id=query_id, runId=run_id, name=name, timestamp=now, **flow))]

    def _is_new(self, run: RunEvents, type: str, data: str) -> bool:
        if type == "progress":
            return run.is_new(report_key(data))
        if type == "idle":
            return run.is_new((IDLE, str(json.loads(data).get("timestamp"))))
        if type == "terminated":
            run.ended, was_ended = True, run.ended
            return not was_ended
        return True

    def open_runs(self) -> list[RunEvents]:
        """Runs whose end has not been passed on."""
        with self._lock:
            return [run for run in self._runs.values() if not run.ended or run.held_end]

    def release_end(self, run: RunEvents) -> list[ConnectEvent]:
        """The end event that is held, if any; it is held no more."""
        with self._lock:
            held, run.held_end = run.held_end, []
            return held

    def ended(self, run_id: str, exception: str | None, error_class: str | None) -> list[ConnectEvent]:
        """The end event of a run that ended without one, unless its end is known by now."""
        with self._lock:
            run = self._runs.get(run_id)
            if run is None or run.ended:
                return []
            run.ended = True
            data = _dump(
                id=run.query_id, runId=run_id, exception=exception, errorClassOnException=error_class
            )
            return [ConnectEvent("terminated", data)]


def report_key(data: str) -> tuple[int, str]:
    """(batch id, time) of a progress report, which identifies it within its run."""
    found = _BATCH.search(data)
    if found is None:  # a later Spark writes the fields in another order
        document = json.loads(data)
        return int(document["batchId"]), str(document["timestamp"])
    return int(found.group(2)), found.group(1)


def idle_timestamp(data: str) -> str | None:
    """The time of a report of a trigger that ran no batch; None for the report of a batch.

    Spark's memory has such reports between those of batches, with the number of the next batch (`updateIdleness`
    in its `ProgressReporter`). Its event for them is another, `QueryIdleEvent`.
    """
    document = json.loads(data)
    phases = document.get("durationMs") or {}
    is_idle = "triggerExecution" in phases and "addBatch" not in phases
    return str(document.get("timestamp")) if is_idle else None


def report_time(data: str, now: float) -> float:
    """When a late report was made: the trigger's start plus the batch's duration, but not in the future."""
    document = json.loads(data)
    started_at = _seconds(str(document.get("timestamp")))
    if started_at is None:
        return now
    duration = (
        document.get("batchDuration") or (document.get("durationMs") or {}).get("triggerExecution") or 0
    )
    return min(now, started_at + float(duration) / 1000.0)


def _seconds(timestamp: str) -> float | None:
    try:
        return datetime.strptime(timestamp, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=timezone.utc).timestamp()
    except ValueError:
        return None


def spark_timestamp(now: float) -> str:
    """Unix seconds in Spark's time format."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + ".%03dZ" % (now % 1 * 1000)


def _name(data: str) -> str | None:
    found = _NAME.search(data)
    return None if found is None else json.loads(found.group(1))


def _dump(**fields: Any) -> str:
    return json.dumps(fields, separators=(",", ":"))
