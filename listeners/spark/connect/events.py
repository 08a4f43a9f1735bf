"""Receive the events of one Spark Connect session, across broken connections.

Two daemon threads. *events* reads Spark's event stream. *watch* opens the stream, opens it again after it
broke, and every few seconds asks which runs are active and which reports Spark remembers. So no event is lost
that Spark still knows, and the end of a run that disappeared is reported. Without a stream (Spark 3.5, or
another client of the session has it), polling does all of this. A session has only one stream:
`listeners.spark.connect.bus` shares it with the program's own listeners.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Iterable, Mapping
from typing import Any

from listeners.protocol.errors import ConnectError, RunUnknown, SessionGone
from listeners.spark import guard
from listeners.spark.connect import calls
from listeners.spark.connect.bus import BusListener
from listeners.spark.connect.event_dedup import ConnectEvent, EventDeduplicator, RunEvents, report_key

log = logging.getLogger("controlplane.agent")

#: Seconds between two rounds, with and without a stream.
ROUND_SECONDS, POLL_ROUND_SECONDS = 5.0, 2.0
#: Seconds between two attempts to reach a server that does not answer.
RECONNECT_SECONDS = 1.0
#: Wait for the stream's first event in the round that requests it.
STREAM_START_SECONDS = 3.0
#: A request without a first event is kept for this long. A request that is given up too early leaves a listener
#: that the server adds later: it blocks the stream, and nobody reads it.
MAX_PENDING_SECONDS = 60.0
#: Timeouts at the program's end: for the final poll and for closing the stream.
FINAL_POLL_SECONDS, CLOSE_SECONDS = 0.7, 0.3
#: Seconds between two attempts to open the stream while another client has it.
RETRY_STREAM_SECONDS = 60.0


class EventStream:
    """The events of one session. `start()` once, `close()` once. `listener` is a RawListener."""

    def __init__(self, session: Any, listener: Any):
        self._session, self._listener = weakref.ref(session), listener
        self._dedup = EventDeduplicator()
        self._bus_listener = BusListener(self._on_event)
        self._wake, self._closed = threading.Event(), threading.Event()
        self._added, self._added_at = threading.Event(), 0.0
        #: Changes when the agent begins to listen: what Spark reported before is only in its memory.
        self._listening_number = 0
        self._lock = threading.RLock()
        self._call: Any = None
        self._reader: threading.Thread | None = None
        #: A stream of this client broke: the server may still hold its listener.
        self._orphaned = False
        #: PySpark holds the stream for the program's own listeners.
        self._program_has_stream = False
        self._not_before = self._requested_at = 0.0
        #: The server did not answer the last request.
        self._is_away = False

    # -- lifecycle -------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the watch thread."""
        threading.Thread(target=self._watch, name="controlplane-connect-watch", daemon=True).start()

    def close(self) -> None:
        """Poll a last time and remove the listener, within about a second."""
        self._closed.set()
        self._wake.set()
        session = self._session()
        if session is not None and not self._is_away:
            self._close_in(session)
        for run in self._dedup.open_runs():
            self._hand_on(self._dedup.release_end(run))

    def _close_in(self, session: Any) -> None:
        last = threading.Thread(target=self._final_poll, args=(session,), daemon=True)
        try:
            last.start()
            last.join(FINAL_POLL_SECONDS)
        except RuntimeError:  # an exiting interpreter starts no threads (3.12)
            pass
        self._bus_listener.leave(session)
        self._end_stream(session, CLOSE_SECONDS)

    def run_started(self, query_id: str, run_id: str, name: str | None) -> None:
        """Report a run that the program started. For a user's thread."""
        self._hand_on(self._dedup.run_started(query_id, run_id, name))

    def _on_event(self, type: str, data: str) -> None:
        """An end waits for the round that reads what Spark reported before the agent began to listen."""
        for event in self._dedup.admit(type, data):
            if event.type == "terminated" and self._dedup.hold_end(event, self._listening_number):
                self._wake.set()
            else:
                self._listener.take(*event)

    def _hand_on(self, events: Iterable[ConnectEvent]) -> None:
        for event in events:
            self._listener.take(*event)

    # -- the stream ------------------------------------------------------------------------------

    def is_streaming(self) -> bool:
        """Whether the event stream is open."""
        reader = self._reader
        return self._added.is_set() and reader is not None and reader.is_alive()

    def yield_stream(self, session: Any) -> None:
        """Free the stream for PySpark, which is about to open it. For a user's thread."""
        with self._lock:
            self._program_has_stream = True
            if self._orphaned or self._reader is not None:
                self._end_stream(session, 2.0)
            self._orphaned = False

    def reclaim_stream(self) -> None:
        """Use the stream again: the program no longer needs it."""
        with self._lock:
            self._program_has_stream, self._not_before = False, 0.0
        self._wake.set()

    def join(self, session: Any) -> bool:
        """Register among the program's own listeners; False if there are none."""
        return self._bus_listener.join(session)

    def leave(self, session: Any) -> None:
        """Unregister from the program's own listeners."""
        self._bus_listener.leave(session)

    def _listen(self, session: Any) -> bool:
        """Open the stream or register among the program's listeners; False if neither is possible now."""
        with self._lock:
            if self._bus_listener.is_in(session) or self.is_streaming():
                return True
            if self._bus_listener.was_dropped():  # PySpark's stream broke, and PySpark dropped all listeners
                self._orphaned, self._program_has_stream = True, False
            if self._bus_listener.join(session):
                self._listening_number += 1
                return True
            blocked = self._program_has_stream or self._closed.is_set() or not calls.can_listen()
            return not blocked and time.monotonic() >= self._not_before and self._open(session)

    def _open(self, session: Any) -> bool:
        """Open the stream; False until Spark confirms it, which a busy server does late."""
        if self._reader is None or not self._reader.is_alive():
            self._request(session)
            return self._added.wait(STREAM_START_SECONDS)
        now = time.monotonic()
        if now - self._requested_at > MAX_PENDING_SECONDS:  # another client has the stream
            if self._call is not None:
                self._call.cancel()
            self._reader = self._call = None
            self._not_before = now + RETRY_STREAM_SECONDS
        return False

    def _request(self, session: Any) -> None:
        if self._orphaned:
            calls.close_events(session, STREAM_START_SECONDS)
            self._orphaned = False
        self._added.clear()
        self._call = call = calls.open_events(session)
        self._requested_at = time.monotonic()
        self._reader = threading.Thread(
            target=self._read, args=(call,), name="controlplane-connect-events", daemon=True
        )
        self._reader.start()

    def _read(self, call: Any) -> None:
        """Read the stream until the listener is removed or the stream breaks."""
        confirmed = False
        try:
            for type, data in calls.events(call):
                if type == calls.ADDED:
                    confirmed, self._added_at = True, time.time()
                    self._listening_number += 1
                    self._added.set()
                else:
                    self._on_event(type, data)
        except ConnectError:
            self._orphaned = self._orphaned or confirmed
        finally:
            self._added.clear()
            self._wake.set()

    def _end_stream(self, session: Any, seconds: float) -> None:
        reader, call = self._reader, self._call
        if reader is None or call is None:
            return
        try:
            if self._added.is_set() or self._orphaned:
                calls.close_events(session, seconds)
                reader.join(seconds)
        except ConnectError:
            pass  # the server is unreachable, so the stream is closed too
        call.cancel()
        self._reader = self._call = None

    # -- rounds ----------------------------------------------------------------------------------

    def _watch(self) -> None:
        pause = 0.0
        while not self._closed.is_set():
            self._wake.wait(pause)
            self._wake.clear()
            session = self._session()
            if session is None or self._closed.is_set():
                return
            try:
                pause = self._round(session)
            except SessionGone as error:
                return self._on_session_gone(error)
            except ConnectError as error:
                pause = self._on_away(error)
            except Exception as error:
                guard.log_error(error)
                pause = ROUND_SECONDS
            del session

    def _round(self, session: Any) -> float:
        """Listen, then poll; returns the seconds until the next round."""
        active = self._active(session)
        listens = self._listen(session)
        if self._is_away:
            log.warning("controlplane agent: the Spark Connect server answers again")
            self._is_away = False
        self._poll(session, active, 1 if self.is_streaming() else 0)
        return ROUND_SECONDS if listens else POLL_ROUND_SECONDS

    def _final_poll(self, session: Any) -> None:
        try:
            self._poll(session, self._active(session), 0)
        except ConnectError:
            pass  # the session ends with the program

    def _active(self, session: Any) -> dict[str, Any]:
        """The session's active runs by run id."""
        active_queries = calls.manager(
            session, wait_for_ready=self._is_away, active=True
        ).active.active_queries
        return {each.id.run_id: each for each in active_queries}

    def _poll(self, session: Any, active: Mapping[str, Any], max_missing_rounds: int) -> None:
        """Pass on new events of the active runs, and those in Spark's memory.

        `max_missing_rounds`: rounds that a run may be inactive before its end is reported.
        """
        for run_id, each in active.items():
            self._hand_on(self._dedup.run_started(each.id.id, run_id, each.name or None))
        missed = 0.0
        for run in self._dedup.open_runs():
            missed = max(missed, self._catch_up(session, run))
            if run.listening_number == self._listening_number:
                self._hand_on(self._dedup.release_end(run))
            run.missing = 0 if run.run_id in active else run.missing + 1
            if run.missing > max_missing_rounds:  # otherwise its end event may still arrive
                self._end(session, run)
        call = self._call
        if missed > ROUND_SECONDS and call is not None and self.is_streaming():
            self._orphaned = True
            call.cancel()  # it should have delivered that event; the next round opens it again

    def _catch_up(self, session: Any, run: RunEvents) -> float:
        """Pass on missed reports; returns the age in seconds of the oldest one missed by the stream."""
        newest = self._recent_progress(session, run, last_progress=True)
        number = self._listening_number
        missed: list[ConnectEvent] = []
        # The newest report alone may come from a stream that was opened after others were missed.
        if newest and (report_key(newest[-1]) not in run.reports or run.listening_number != number):
            for report in self._recent_progress(session, run, recent_progress=True):
                missed += self._dedup.admit("progress", report, late=True)
        self._hand_on(missed)
        run.listening_number = number  # after the reports: from here on, an end is not held for them
        delays = [
            time.time() - each.at
            for each in missed
            if each.type == "progress" and each.at is not None and each.at > self._added_at
        ]
        return max(delays, default=0.0)

    def _recent_progress(self, session: Any, run: RunEvents, **fields: Any) -> list[str]:
        """Progress reports as JSON, oldest first; empty if Spark no longer knows the run."""
        try:
            answer = calls.query(session, run.query_id, run.run_id, **fields)
        except RunUnknown:
            return []
        return list(answer.recent_progress.recent_progress_json)

    def _end(self, session: Any, run: RunEvents) -> None:
        text, error_class = failure_of(session, run.query_id, run.run_id)
        self._hand_on(self._dedup.ended(run.run_id, text, error_class))

    # -- errors ----------------------------------------------------------------------------------

    def _on_away(self, error: ConnectError) -> float:
        """Log the outage once, until the server answers again.

        The next round waits for a connection itself.
        """
        if not self._is_away and not self._closed.is_set():
            log.warning("controlplane agent: %s", error)
        self._is_away = True
        return RECONNECT_SECONDS

    def _on_session_gone(self, error: SessionGone) -> None:
        """Report the end of all runs: they ended with their session."""
        if self._closed.is_set():
            return
        log.warning(
            "controlplane agent: %s; a new session is attached when the program starts a query in it", error
        )
        for run in self._dedup.open_runs():
            self._hand_on(self._dedup.release_end(run) or self._dedup.ended(run.run_id, str(error), None))


def failure_of(session: Any, query_id: str, run_id: str) -> tuple[str | None, str | None]:
    """(text, error class) of a run's failure, as far as Spark knows it; (None, None) if it did not fail."""
    try:
        failure = calls.query(session, query_id, run_id, exception=True).exception
    except RunUnknown as error:
        return f"{error}; how it ended is not known", None
    if not failure.HasField("exception_message"):
        return None, None
    text = failure.exception_message
    if failure.HasField("stack_trace"):
        text += "\n\nJVM stacktrace:\n" + failure.stack_trace
    return text, failure.error_class if failure.HasField("error_class") else None
