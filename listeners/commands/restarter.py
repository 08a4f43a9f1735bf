"""Thread that restarts failed queries of this driver under the server's leases, one at a time.

Each decision is reported as a `restart_decision` event before it is carried out, and its result as
`restart_result`. A restart is the `start` command that the server would send, executed by the same executor.
"""

from __future__ import annotations

import json
import threading
import time
from typing import Any, Callable

from listeners.commands.command_poller import Execute
from listeners.commands.restart_leases import DriverDecision, FailedRun, RestartLeases
from listeners.protocol import wire
from listeners.queries.registry import Registry

Report = Callable[[str, str], None]
MAX_WAIT_SECONDS = 60.0
#: Spark reports the end of a run before the run is over, and before the program has the handle of a run that fails at once.
END_SECONDS, POLL_SECONDS = 30.0, 0.1


class Restarter:
    """`execute` carries a command out, `report(type, data)` puts an event into the inbox."""

    def __init__(
        self, registry: Registry, execute: Execute, report: Report, clock: Callable[[], float] = time.time
    ):
        self._registry, self._execute, self._report, self._clock = registry, execute, report, clock
        self._leases = RestartLeases()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    def on_command(self, command: wire.Command) -> wire.CommandResult:
        """Take the leases of a `lease` command; its result acknowledges them."""
        with self._changed:
            if self._closed:
                return wire.CommandResult("refused", "the agent is detaching", "closed")
            for decision in self._leases.take(command.overrides, self._clock()):
                self._send(self._leases.declined(decision, self._clock()))
            if self._thread is None and command.overrides.get("queries"):
                self._thread = threading.Thread(target=self._run, name="controlplane-restarter", daemon=True)
                self._thread.start()
            self._changed.notify_all()
        return wire.CommandResult("succeeded", "leases taken")

    def on_terminated(self, data: str) -> None:
        """Note the failure that a `terminated` event reports; called on Spark's listener thread."""
        event = json.loads(data)
        text = event.get("exception")
        if not text:
            return
        failed = FailedRun(
            str(event["id"]),
            str(event["runId"]),
            self._clock(),
            str(text),
            event.get("errorClassOnException"),
        )
        with self._changed:
            self._leases.failed(failed)
            self._changed.notify_all()

    def close(self) -> None:
        """Restart nothing any more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                if self._closed:
                    return
                decision, due_at = self._next()
                if decision is None:
                    self._changed.wait(min(MAX_WAIT_SECONDS, max(0.0, due_at - self._clock())))
                    continue
                report = self._leases.begin(decision, self._clock())
                if report is not None:
                    self._send(report)
            if report is not None and report["acted"]:
                self._restart(decision, report)

    def _next(self) -> tuple[DriverDecision | None, float]:
        """The restart that is due, else None and when to look again."""
        now = self._clock()
        until = now + MAX_WAIT_SECONDS
        for run in self._leases.failures:
            entry = self._registry.entry(run.query_id)
            if entry is None or entry.run_id != run.run_id:
                if now - run.at > END_SECONDS or (entry is not None and run.run_id in entry.runs):
                    self._leases.forget(run.query_id)  # another run has replaced it
                until = min(until, now + POLL_SECONDS)
                continue
            if entry.held and entry.failed_on_probation != run.run_id:
                self._leases.forget(run.query_id)  # a command stopped it
                continue
            decision = self._leases.decide(run.query_id, now)
            if decision is None:
                continue
            if decision.kind == "restart":
                return decision, now
            if decision.kind == "decline":
                self._send(self._leases.declined(decision, now))
            else:
                until = min(until, decision.due_at)
        return None, until

    def _restart(self, decision: DriverDecision, report: dict[str, Any]) -> None:
        query_id = decision.run.query_id
        result = wire.CommandResult("refused", "the server has withdrawn the lease", "lease_ended")
        if self._is_over(query_id):
            with self._changed:
                holds = self._leases.holds(query_id, self._clock()) and not self._closed
            if holds:
                result = self._execute(wire.Command(report["decisionId"], "start", query_id))
        self._report(
            "restart_result",
            wire.dumps(
                {
                    "id": query_id,
                    "decisionId": report["decisionId"],
                    "state": result.state,
                    "code": result.code,
                    "reason": result.reason,
                    "startedRun": result.evidence.get("run_id"),
                }
            ),
        )

    def _is_over(self, query_id: str) -> bool:
        """Wait until Spark has released the failed run; the start command reports one that it never releases."""
        entry, until = self._registry.entry(query_id), time.monotonic() + END_SECONDS
        while entry is not None and (entry.is_active() or not entry.run.is_over()):
            if time.monotonic() >= until:
                break
            time.sleep(POLL_SECONDS)
        return entry is not None

    def _send(self, report: dict[str, Any]) -> None:
        self._report("restart_decision", wire.dumps(report))
