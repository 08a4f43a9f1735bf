"""Whether Spark answers the agent: since when it does not, and why.

The prober records each of its polls; the heartbeat carries the result, so that a dead or hanging Spark
does not look healthy to the server. Thread-safe.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any, Callable

from listeners.protocol.wire import NO_ANSWER
from listeners.spark.engine import SparkOutage

#: A poll that has no answer for this long is reported; the server decides from when on it counts.
SLOW_POLL_SECONDS = 10.0
#: A broken connection may be a single event; the second poll in a row confirms it.
MIN_FAILED_POLLS = 2
MAX_DETAIL_CHARS = 300


class Reachability:
    """The outcome of the last polls. `outage_of(error)` returns None if the error is an answer of Spark."""

    def __init__(
        self,
        outage_of: Callable[[Exception], SparkOutage | None],
        clock: Callable[[], float] = time.monotonic,
    ):
        self._outage_of, self._clock = outage_of, clock
        self._lock = threading.Lock()
        self._polling_since: float | None = None
        self._failing_since: float | None = None
        self._failed_polls = 0
        self._outage: SparkOutage | None = None

    def poll_begins(self) -> None:
        """Spark is asked now."""
        with self._lock:
            self._polling_since = self._clock()

    def poll_answered(self) -> bool:
        """Spark has answered; True if it did not before."""
        with self._lock:
            was_away = self._outage is not None
            self._polling_since = self._failing_since = self._outage = None
            self._failed_polls = 0
            return was_away

    def poll_failed(self, error: Exception) -> bool:
        """The poll raised `error`; True if the heartbeat has news."""
        outage = self._outage_of(error)
        if outage is None:
            return self.poll_answered()
        with self._lock:
            before = self._reported()
            self._failed_polls += 1
            if self._failing_since is None:
                self._failing_since = self._polling_since
            # A request without an answer does not show that the server which was away is back.
            if self._outage is None or outage.cause != NO_ANSWER:
                self._outage = outage
            self._polling_since = None
            return self._reported() != before

    def is_doubtful(self) -> bool:
        """Whether a failed poll is not confirmed yet."""
        with self._lock:
            return self._outage is not None and self._reported() is None

    @property
    def outage(self) -> SparkOutage | None:
        """The confirmed outage, if there is one."""
        with self._lock:
            return self._reported()

    def facts(self) -> Mapping[str, Any]:
        """The heartbeat's field `unreachable`: `seconds`, `cause`, `detail`; empty while Spark answers."""
        with self._lock:
            outage, since = self._reported(), self._failing_since
            if outage is None:
                outage, since = self._slow_poll(), self._polling_since
            if outage is None or since is None:
                return {}
            seconds = round(self._clock() - since, 1)
        detail = outage.detail[:MAX_DETAIL_CHARS]
        return {"unreachable": {"seconds": seconds, "cause": outage.cause, "detail": detail}}

    def _reported(self) -> SparkOutage | None:
        outage = self._outage
        confirmed = outage is not None and (outage.certain or self._failed_polls >= MIN_FAILED_POLLS)
        return outage if confirmed else None

    def _slow_poll(self) -> SparkOutage | None:
        since = self._polling_since
        if since is None or self._clock() - since <= SLOW_POLL_SECONDS:
            return None
        return SparkOutage(NO_ANSWER, "Spark has not answered the agent's last request yet")
