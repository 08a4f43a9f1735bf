"""Schedule and take checkpoint inventories: one at a time per driver, each within ten seconds.

`started` and `on_event` run on the user's and Spark's threads and only record.
`listeners.checkpoints.timetable` decides when an inventory is due, `listeners.checkpoints.collection` takes
it. `on_command` takes one immediately.
"""

from __future__ import annotations

import collections
import logging
import math
import re
import threading
import time
from typing import Any, Callable

from listeners.checkpoints.collection import InventoryCollection, inventory_event, logs_event, refusal
from listeners.checkpoints.hadoop import DirectoryReader, HadoopFileSystem
from listeners.checkpoints.inventory_reader import Bounds
from listeners.checkpoints.timetable import RUNNING, Due, Timetable
from listeners.protocol import wire
from listeners.protocol.errors import AgentError, CommandError
from listeners.queries.registry import RegisteredQuery, Registry

log = logging.getLogger("controlplane.agent")

#: `CONTROLPLANE_INVENTORY`: with file contents, without files that hold state rows, or no inventory.
MODES = ("full", "logs", "off")
BOUNDS = Bounds()
#: Share of a command's time to wait for another inventory, and share of the rest for collecting.
QUEUE_SHARE, COLLECT_SHARE = 0.7, 0.9
#: Matches a failure in the JSON of a terminated event. Without one the field is absent or null.
_FAILED = re.compile(r'"exception"\s*:\s*"')
#: Limit of remembered runs whose end came before their start was recorded.
MAX_EARLY_ENDS = 100


class Inventories:
    """Takes inventories, reads logs, and emits both as events. `close()` stops it even while a file system hangs.

    `put(type, json)` receives an event. `open_files(session, location)` opens a location for reading.
    """

    def __init__(
        self,
        registry: Registry,
        put: Callable[[str, str], None],
        mode: str = "full",
        bounds: Bounds = BOUNDS,
        open_files: Callable[[Any, str], DirectoryReader] = HadoopFileSystem,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._registry, self._put, self._mode, self._bounds = registry, put, mode, bounds
        self._open, self._clock = open_files, clock
        #: Inventories not taken, by reason.
        self.refused: dict[str, int] = collections.Counter()
        self._timetable = Timetable()
        #: Ends of runs not registered yet, and whether they failed: a query may fail before `start()`
        #: returns.
        self._early_ends: collections.OrderedDict[str, bool] = collections.OrderedDict()
        self._changed = threading.Condition(threading.Lock())
        self._collecting = threading.Lock()
        self._stuck_thread: threading.Thread | None = None
        self._worker: threading.Thread | None = None
        self._closed = False

    # -- recording query events ------------------------------------------------------------------

    def started(self, entry: RegisteredQuery) -> None:
        """Schedule an inventory for a run that has started."""
        self._update(lambda timetable, now: timetable.started(entry.query_id, entry.run_id, now))
        self._apply_early_end(entry.query_id, entry.run_id)

    def start_failed(self, entry: RegisteredQuery) -> None:
        """Schedule an inventory after Spark refused to start a known query; Spark sends no event for that."""
        self._update(lambda timetable, now: timetable.ended(entry.query_id, entry.run_id, True, now))

    def on_event(self, type: str, run_id: str, data: str) -> None:
        """Handle a progress, idle or terminated event; `data` is its JSON text."""
        if type == "terminated":
            self._early_ends[run_id] = _FAILED.search(data) is not None
            while len(self._early_ends) > MAX_EARLY_ENDS:
                self._early_ends.popitem(last=False)
        entry = self._registry.entry_of_run(run_id)
        if entry is None:
            return
        query_id = entry.query_id
        if type == "terminated":
            self._apply_early_end(query_id, run_id)
        elif self._timetable.waits_for(query_id, type == "progress", self._clock()):
            self._update(lambda timetable, now: timetable.progressed(query_id, run_id, now))

    def _apply_early_end(self, query_id: str, run_id: str) -> None:
        """Apply the end of a run once both its start and its end are known, in either order."""
        failed = self._early_ends.pop(run_id, None)
        if failed is not None:
            self._update(lambda timetable, now: timetable.ended(query_id, run_id, failed, now))

    def _update(self, change: Callable[[Timetable, float], None]) -> None:
        if self._mode == "off" or self._closed:
            return
        with self._changed:
            before = self._timetable.next_at()
            change(self._timetable, self._clock())
            if self._timetable.next_at() != before:
                self._wake()

    def _wake(self) -> None:
        if self._worker is None:
            self._worker = threading.Thread(target=self._work, name="controlplane-inventory", daemon=True)
            self._worker.start()
        self._changed.notify_all()

    def close(self) -> None:
        """Take no more inventories."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    # -- the worker ------------------------------------------------------------------------------

    def _work(self) -> None:
        while (due := self._next()) is not None:
            began = self._clock()
            if self._took(due) or due.reason == RUNNING:
                with self._changed:
                    self._timetable.taken(due, self._clock() - began, self._clock())

    def _took(self, due: Due) -> bool:
        """Take the inventory, or read the logs; whether that succeeded."""
        try:
            entry = self._registry.entry(due.query_id)
            if entry is not None:
                self._take(entry, due.run_id, due.reason, self._bounds.seconds * 2, math.inf)
            return entry is not None
        except CommandError as error:
            self.refused[error.code] += 1
        except Exception as error:
            self.refused["error"] += 1
            log.debug("inventory not taken: %r", error)
        return False

    def _next(self) -> Due | None:
        """Wait for the next inventory that is due; None after `close()`."""
        with self._changed:
            while not self._closed:
                now = self._clock()
                due = self._timetable.take(now)
                if due is not None:
                    return due
                at = self._timetable.next_at()
                self._changed.wait(None if at is None else at - now)
        return None

    def skipped(self) -> dict[str, int]:
        """The number of inventories not taken since the agent started, by reason."""
        with self._changed:
            lost = {"crash_loop": self._timetable.skipped, **self.refused}
        return {reason: count for reason, count in lost.items() if count}

    # -- commands --------------------------------------------------------------------------------

    def on_command(self, command: wire.Command) -> wire.CommandResult:
        """Take an inventory now, within the command's timeout; evidence {"files", "seconds"}. Never raises.

        Codes: `inventory_off`, `unknown_query`, `unknown_checkpoint`, `temporary_checkpoint`,
        `unsupported_session`, `busy`; `agent_error` if it failed.
        """
        until = self._clock() + command.timeout_seconds
        try:
            if self._mode == "off":
                raise refusal("inventory_off", "this driver sets CONTROLPLANE_INVENTORY=off")
            entry = self._registry.entry(command.query_id)
            if entry is None:
                raise refusal("unknown_query", f"this driver has not started the query {command.query_id}")
            queue_seconds = command.timeout_seconds * QUEUE_SHARE
            evidence = self._take(entry, entry.run_id, "asked", queue_seconds, until)
        except CommandError as error:
            self.refused[error.code] += 1
            return wire.CommandResult("refused", str(error), error.code, error.evidence)
        except Exception as error:
            self.refused["error"] += 1
            return wire.CommandResult("failed", f"the inventory failed: {error}"[:500], "agent_error")
        reason = f"{evidence['files']} files in {evidence['seconds']:.1f} s"
        return wire.CommandResult("succeeded", reason, "taken", evidence)

    # -- taking an inventory ---------------------------------------------------------------------

    def _take(
        self, entry: RegisteredQuery, run_id: str, reason: str, queue_seconds: float, until: float
    ) -> dict[str, Any]:
        """Collect and emit an inventory. CommandError if it cannot be taken, AgentError if it failed.

        `queue_seconds` limits the wait for another inventory; `until` is the deadline by `clock`.
        """
        if not self._collecting.acquire(timeout=queue_seconds):
            raise refusal("busy", "another inventory is in progress in this driver")
        try:
            if self._closed:
                raise refusal("closed", "the agent is detaching")
            if self._stuck_thread is not None and self._stuck_thread.is_alive():
                raise refusal("busy", "the file system has not answered an earlier inventory yet")
            return self._collect(entry, run_id, reason, until - self._clock())
        finally:
            self._collecting.release()

    def _collect(self, entry: RegisteredQuery, run_id: str, reason: str, left: float) -> dict[str, Any]:
        began = self._clock()
        bounds = self._bounds._replace(seconds=min(self._bounds.seconds, left * COLLECT_SHARE))
        answer_seconds = min(bounds.seconds + 1.0, left)
        rows, logs_only = self._mode == "full", reason == RUNNING
        found = InventoryCollection(entry, bounds, self._open, self._clock, rows, logs_only)
        thread = threading.Thread(target=found.run, name="controlplane-collecting", daemon=True)
        thread.start()
        thread.join(answer_seconds)
        self._stuck_thread = thread if thread.is_alive() else None
        if found.error is not None:
            raise found.error
        if found.logs is not None:
            self._put("checkpoint_logs", logs_event(entry, run_id, self._clock() - began, found.logs))
            return {}
        if found.checkpoint is None:
            raise AgentError(f"the file system did not answer within {answer_seconds:.3g} s")
        seconds = round(self._clock() - began, 3)
        self._put("inventory", inventory_event(entry, run_id, reason, seconds, found))
        return {"files": found.checkpoint.count, "bytes": found.checkpoint.bytes, "seconds": seconds}


def checked_mode(text: str | None) -> str:
    """`CONTROLPLANE_INVENTORY`; an unknown value means `off`."""
    mode = (text or "full").strip().lower()
    if mode in MODES:
        return mode
    log.warning("CONTROLPLANE_INVENTORY=%r is not one of %s; inventories are off", text, ", ".join(MODES))
    return "off"
