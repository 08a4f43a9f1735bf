"""Put Spark's callbacks into the inbox with one py4j call for each event.

PySpark's `StreamingQueryListener` copies each event field by field over py4j, which takes tens of
milliseconds with the interpreter lock held. This listener implements the same Java interface directly
(`PythonStreamingQueryListener`, Spark 3.4 and later) and reads Spark's own JSON once.
"""

from __future__ import annotations

import json
import time
from typing import Any, Callable

from listeners.delivery.inbox import Inbox

JAVA_INTERFACE = "org.apache.spark.sql.streaming.PythonStreamingQueryListener"


class CallbackFigures:
    """Time that Spark's listener thread spent in callbacks; `seconds_max` is since the last `read()`."""

    def __init__(self) -> None:
        self.count, self.seconds_total, self.seconds_max = 0, 0.0, 0.0

    def add(self, seconds: float) -> None:
        """Add one callback."""
        self.count += 1
        self.seconds_total += seconds
        if seconds > self.seconds_max:
            self.seconds_max = seconds

    def read(self) -> dict[str, float]:
        """The figures for a heartbeat; resets the maximum."""
        figures = {
            "count": self.count,
            "seconds_total": round(self.seconds_total, 6),
            "seconds_max": round(self.seconds_max, 6),
        }
        self.seconds_max = 0.0
        return figures


class RawListener:
    """The Python side of the Java interface. A callback never raises.

    `on_event(type, json_text)` is called after each event has been put into the inbox. It must be quick.
    """

    def __init__(self, inbox: Inbox, on_event: Callable[[str, str], None] | None = None):
        self._inbox = inbox
        self._on_event = on_event or (lambda type, data: None)
        self.figures = CallbackFigures()

    def onQueryStarted(self, event: Any) -> None:
        """Spark's callback: a run has started."""
        self._take("started", event, _json_of_started)

    def onQueryProgress(self, event: Any) -> None:
        """Spark's callback: a batch has been committed."""
        self._take("progress", event, _json_of_progress)

    def onQueryIdle(self, event: Any) -> None:
        """Spark's callback: a trigger found no data."""
        self._take("idle", event, _json_of_idle)

    def onQueryTerminated(self, event: Any) -> None:
        """Spark's callback: a run has ended."""
        self._take("terminated", event, _json_of_terminated)

    def take(self, type: str, data: str, at: float | None = None) -> None:
        """Accept an event that is already JSON text (Spark Connect); `at` in Unix seconds, None for now."""
        self._take(type, None, lambda event: data, at)

    def _take(self, type: str, event: Any, read: Callable[[Any], str], at: float | None = None) -> None:
        began = time.perf_counter()
        try:
            data = read(event)
            self._inbox.put(type, data, at)
            self._on_event(type, data)
        except BaseException:  # also SystemExit: this is Spark's thread
            self._inbox.count_lost("callback_error")
        self.figures.add(time.perf_counter() - began)

    class Java:
        """The Java interface that py4j implements with this class."""

        implements = [JAVA_INTERFACE]


def _json_of_progress(event: Any) -> str:
    return event.progress().json()


def _json_of_started(event: Any) -> str:
    name = None
    try:
        return event.json()
    except Exception:  # Spark 3.4 has no json() on this event
        name = event.name()
    return _dump(id=event.id(), runId=event.runId(), name=name, timestamp=event.timestamp())


def _json_of_idle(event: Any) -> str:
    try:
        return event.json()
    except Exception:
        return _dump(id=event.id(), runId=event.runId(), timestamp=event.timestamp())


def _json_of_terminated(event: Any) -> str:
    try:
        return event.json()
    except Exception:
        text = event.exception()
        return _dump(
            id=event.id(),
            runId=event.runId(),
            exception=text.get() if text.isDefined() else None,
            errorClassOnException=None,
        )


def _dump(**fields: Any) -> str:
    texts = {k: v if v is None else str(v) for k, v in fields.items()}
    return json.dumps(texts, separators=(",", ":"))
