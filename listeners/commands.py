"""Carries out one command on one query of this driver, and says what became of it.

Codes of refusals and failures: `forbidden_by_driver`, `unknown_query`, `busy`, `not_running`,
`already_running`, `still_stopping`, `needs_factory`, `temporary_checkpoint`, `unsupported_override`,
`wrong_query`, `stop_timed_out`, `start_failed`, `stopped_by_program`. A refusal has changed nothing.
"""

from __future__ import annotations

import threading
import time
from typing import Any, Callable, Optional

from listeners import classic, restarting
from listeners.errors import CommandError
from listeners.registry import Entry, Registry, Start
from listeners.wire import Command, CommandResult

#: How often a drain looks whether the query stands between two batches.
DRAIN_POLL_SECONDS = 0.02

Redact = Callable[[str], str]
#: Told of a start that raised: (entry, method, exception).
StartFailed = Callable[[Optional[Entry], str, BaseException], None]


class Executor:
    """Runs commands against the registry. `mode` is what the driver allows: none, stop or all."""

    def __init__(
        self,
        registry: Registry,
        mode: str = "all",
        redact: Redact = str,
        start_failed: StartFailed = lambda entry, method, error: None,
    ):
        self._registry = registry
        self._mode = mode
        self._redact = redact
        self._start_failed = start_failed

    def execute(self, command: Command) -> CommandResult:
        """Never raises; what went wrong is in the result."""
        try:
            return self._guarded(command)
        except CommandError as error:
            state = "refused" if error.refused else "failed"
            return CommandResult(state, str(error), error.code, error.evidence)
        except Exception as error:
            text = self._redact(classic.text_of(error))
            reason = f"the agent met an error: {text.strip().splitlines()[0]}"
            return CommandResult("failed", reason, "agent_error", {"exception": text})

    def _guarded(self, command: Command) -> CommandResult:
        if self._mode == "none" or (self._mode == "stop" and command.action != "stop"):
            raise _refusal(
                "forbidden_by_driver", f"this driver allows CONTROLPLANE_ACTIONS={self._mode} only"
            )
        entry = self._registry.entry(command.query_id)
        if entry is None:
            raise _refusal("unknown_query", f"this driver has not started the query {command.query_id}")
        if not entry.busy.acquire(blocking=False):
            raise _refusal("busy", "another command is being carried out on this query")
        try:
            entry.stop_asked = False
            return _ACTIONS[command.action](self, entry, command)
        finally:
            entry.busy.release()

    # -- the three actions -----------------------------------------------------------------------

    def _do_stop(self, entry: Entry, command: Command) -> CommandResult:
        if not entry.is_active():
            raise _refusal("not_running", "the query does not run")
        evidence = self._end(entry, command)
        return CommandResult("succeeded", _stop_sentence(evidence), "stopped", evidence)

    def _do_start(self, entry: Entry, command: Command) -> CommandResult:
        if entry.is_active():
            raise _refusal("already_running", "the query runs already", run_id=entry.run_id)
        begin = self._way_to_start(entry, command)
        return self._begin(entry, begin, {})

    def _do_restart(self, entry: Entry, command: Command) -> CommandResult:
        begin = self._way_to_start(entry, command)  # refuse before anything is stopped
        evidence = self._end(entry, command) if entry.is_active() else {}
        return self._begin(entry, begin, evidence)

    # -- stopping --------------------------------------------------------------------------------

    def _end(self, entry: Entry, command: Command) -> dict[str, Any]:
        began = time.monotonic()
        deadline = began + command.timeout_seconds
        # Held only from just before the stop: until then its end would be its own.
        drained = _drain(entry.jsq, deadline - command.timeout_seconds / 2) if command.drain else None
        self._registry.hold(entry)
        failure = _stop_within(entry.jsq, max(1.0, deadline - time.monotonic()))
        if not classic.is_over(entry.jsq):
            if failure is not None and entry.is_active():
                self._registry.release(entry)
                raise failure  # the stop did not even begin
            raise CommandError(  # held on: whenever that stop takes effect, it is our doing
                "stop_timed_out",
                f"the query did not end within {command.timeout_seconds:.0f} s; its stop is under way",
                evidence={"previous_run_id": entry.run_id},
            )
        planned, committed = classic.batches_on_record(entry.jsq)
        evidence = {
            "previous_run_id": entry.run_id,
            "stopped_in_seconds": round(time.monotonic() - began, 3),
            "planned_batch": planned,
            "committed_batch": committed,
        }
        return evidence if drained is None else dict(evidence, drained=drained)

    # -- starting --------------------------------------------------------------------------------

    def _way_to_start(self, entry: Entry, command: Command) -> Callable[[], Any]:
        if not entry.is_active() and not classic.is_over(entry.jsq):
            raise _refusal(
                "still_stopping", "an earlier stop of it has not finished: its last batch still runs"
            )
        found = restarting.way(self._registry, entry, entry.name)
        if found.code:
            raise _refusal(found.code, found.reason)
        factory = self._registry.factory(entry.name)
        if factory is not None:
            return lambda: factory(**dict(command.overrides))
        if command.overrides:
            raise _refusal("unsupported_override", "overrides need a factory registered for this query")
        assert entry.start is not None  # else there would be no way
        return entry.start.repeat

    def _begin(self, entry: Entry, begin: Callable[[], Any], evidence: dict[str, Any]) -> CommandResult:
        start, previous = entry.start, entry.run_id
        neighbours = {other.query_id for other in self._registry.entries()}
        with self._registry.changed:
            if entry.is_stop_asked():
                raise CommandError(
                    "stopped_by_program", "the program stopped it meanwhile", evidence=evidence
                )
            entry.starting = True
        try:
            query = begin()
            query_id, run_id, _ = classic.ids(query._jsq)
            if query_id == entry.query_id:
                self._registry.started(query, entry.start, entry.session)
        except Exception as error:
            self._keep_generation(start)
            raise self._start_error(entry, error, evidence) from error
        finally:
            entry.starting = False
        if query_id != entry.query_id:
            raise self._wrong_query(query, query_id, query_id in neighbours, evidence)
        self._keep_generation(entry.start)
        if entry.is_stop_asked():  # it was asked of the old run, while the new one began
            query.stop()
        evidence = dict(evidence, previous_run_id=previous, run_id=run_id, query_id=query_id)
        return CommandResult("succeeded", f"run {run_id[:8]} has begun", "started", evidence)

    def _start_error(self, entry: Entry, error: Exception, evidence: dict[str, Any]) -> CommandError:
        self._start_failed(entry, entry.start.method if entry.start else "factory", error)
        detail = {
            "exception": self._redact(classic.text_of(error)),
            "errorClass": classic.error_class_of(error),
        }
        return CommandError(
            "start_failed", "Spark refused to start the query", evidence=dict(evidence, **detail)
        )

    def _wrong_query(self, query: Any, query_id: str, known: bool, evidence: dict[str, Any]) -> CommandError:
        """Only a factory can give it. What it made is stopped; a neighbour that it started runs on."""
        what = "a neighbour, which runs on"
        if not known:
            what = "it was stopped at once"
            made = self._registry.entry(query_id)
            if made is not None:
                self._registry.hold(made)
            _stop_within(query._jsq, 30.0)
            self._registry.drop(query_id)
        return CommandError(
            "wrong_query",
            f"the start gave the query {query_id} instead: {what}",
            evidence=dict(evidence, started_query_id=query_id),
        )

    def _keep_generation(self, start: Start | None) -> None:
        """A start configures its writer on the way; our own repetition changes nothing in it."""
        if start is not None:
            start.generation = self._registry.generation(start.writer)


_ACTIONS: dict[str, Callable[[Executor, Entry, Command], CommandResult]] = {
    "stop": Executor._do_stop,
    "start": Executor._do_start,
    "restart": Executor._do_restart,
}


def _refusal(code: str, message: str, **evidence: Any) -> CommandError:
    return CommandError(code, message, refused=True, evidence=evidence)


def _drain(jsq: Any, deadline: float) -> bool:
    """Wait until the query stands between two batches; False when the deadline passed first."""
    while time.monotonic() < deadline:
        if not classic.listed(jsq).trigger_active:
            return True
        time.sleep(DRAIN_POLL_SECONDS)
    return False


def _stop_within(jsq: Any, seconds: float) -> BaseException | None:
    """`stop()` on a thread of its own: it may block for ever (SPARK-30143). Returns what it raised."""
    raised: list = []

    def stop() -> None:
        try:
            jsq.stop()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=stop, name="controlplane-stop", daemon=True)
    thread.start()
    thread.join(seconds)
    return raised[0] if raised else None


def _stop_sentence(evidence: dict[str, Any]) -> str:
    planned, committed = evidence["planned_batch"], evidence["committed_batch"]
    if planned is not None and planned != committed:
        return f"stopped in the middle of batch {planned}, which will run again"
    return "stopped between two batches" if committed is None else f"stopped after batch {committed}"
