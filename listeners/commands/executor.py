"""Execute a command on a query of this driver and return its result.

Codes of refusals and failures: `forbidden_by_driver`, `unknown_query`, `busy`, `not_running`,
`already_running`, `still_stopping`, `needs_factory`, `temporary_checkpoint`, `cannot_resume`, `pipeline_flow`,
`unsupported_override`, `unsupported_action`, `wrong_query`, `stop_timed_out`, `start_failed`,
`stopped_by_program`, `closed`. A refusal has changed nothing.
"""

from __future__ import annotations

from typing import Any, Callable, Optional

from listeners.protocol.errors import CommandError
from listeners.protocol.wire import Command, CommandResult
from listeners.queries import overrides, restarting, stopping
from listeners.queries.registry import RegisteredQuery, Registry
from listeners.spark import causes
from listeners.spark.connect.pipelines import runs_pipeline
from listeners.spark.engine import SparkRun, Start

Redact = Callable[[str], str]
#: Called when a start raised: (entry, method, exception).
StartFailed = Callable[[Optional[RegisteredQuery], str, BaseException], None]


class Executor:
    """Executes commands on registered queries. `mode` is what the driver allows: none, stop or all."""

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
        """Execute the command. Never raises; the result contains the error."""
        try:
            return self._guarded(command)
        except CommandError as error:
            state = "refused" if error.refused else "failed"
            return CommandResult(state, str(error), error.code, error.evidence)
        except Exception as error:
            text = self._redact(causes.text_of(error))
            reason = f"internal error of the agent: {text.strip().splitlines()[0]}"
            return CommandResult("failed", reason, "agent_error", {"exception": text})

    def _guarded(self, command: Command) -> CommandResult:
        act = _ACTIONS.get(command.action)
        if act is None:
            raise _refusal("unsupported_action", f"this agent does not know the action {command.action}")
        if self._mode == "none" or (self._mode == "stop" and command.action != "stop"):
            raise _refusal(
                "forbidden_by_driver", f"this driver allows CONTROLPLANE_ACTIONS={self._mode} only"
            )
        if self._registry.closed:
            raise _refusal("closed", "the agent is detaching")
        entry = self._registry.entry(command.query_id)
        if entry is None and runs_pipeline():
            raise _refusal(restarting.PIPELINE_FLOW.code, restarting.PIPELINE_FLOW.reason)
        if entry is None:
            raise _refusal("unknown_query", f"this driver has not started the query {command.query_id}")
        if not entry.busy.acquire(blocking=False):
            raise _refusal("busy", "another command is in progress for this query")
        try:
            entry.stop_requested = False
            return act(self, entry, command)
        finally:
            entry.busy.release()

    # -- stop, start, restart --------------------------------------------------------------------

    def _do_stop(self, entry: RegisteredQuery, command: Command) -> CommandResult:
        if command.overrides:
            raise overrides.refusal("a stop takes no overrides; pass them to start or restart")
        if not entry.is_active():
            self._check_ended(entry)
            raise _refusal("not_running", "the query is not running")
        stopped = stopping.stop_run(self._registry, entry, command.drain, command.timeout_seconds)
        evidence = stopping.stop_evidence(entry.run_id, stopped)
        return CommandResult("succeeded", stopping.describe_stop(stopped), "stopped", evidence)

    def _do_start(self, entry: RegisteredQuery, command: Command) -> CommandResult:
        if entry.is_active():
            raise _refusal("already_running", "the query is already running", run_id=entry.run_id)
        begin = self._start_call(entry, command)
        return self._begin(entry, begin, _overrides_evidence(command))

    def _do_restart(self, entry: RegisteredQuery, command: Command) -> CommandResult:
        begin = self._start_call(entry, command)  # refuse before anything has been stopped
        if not entry.is_active():
            return self._begin(entry, begin, _overrides_evidence(command))
        stopped = stopping.stop_run(self._registry, entry, command.drain, command.timeout_seconds)
        evidence = dict(_overrides_evidence(command), **stopping.stop_evidence(entry.run_id, stopped))
        return self._begin(entry, begin, evidence, stopping.describe_stop(stopped) + "; ")

    # -- starting --------------------------------------------------------------------------------

    def _check_ended(self, entry: RegisteredQuery) -> None:
        if not entry.is_active() and not entry.run.is_over():
            raise _refusal(
                "still_stopping",
                "an earlier stop has not finished: the query's last batch is still running",
                thread=entry.run.thread(),
            )

    def _start_call(self, entry: RegisteredQuery, command: Command) -> Callable[[], Any]:
        self._check_ended(entry)
        facts = entry.run.facts()
        method = restarting.restart_method(self._registry, entry, entry.name, facts)
        if method.code:
            raise _refusal(method.code, method.reason)
        factory = self._registry.factory(entry.name)
        if factory is not None:
            return self._factory_call(entry, factory, dict(command.overrides))
        start = entry.start
        assert start is not None  # otherwise the restart method has a code
        interval = overrides.interval_of(command.overrides, facts.get("trigger"))
        return lambda: start.repeat(interval, facts.get("triggerInterval"))

    def _factory_call(
        self, entry: RegisteredQuery, factory: Callable[..., Any], values: dict[str, Any]
    ) -> Callable[[], Any]:
        overrides.check_parameters(factory, entry.name or "", values)

        def build() -> Any:
            entry.engine.activate(entry.session, entry.start.pool if entry.start is not None else None)
            made = factory(**values)
            if not hasattr(made, "stop"):
                outcome = "nothing" if made is None else type(made).__name__
                raise CommandError(
                    "start_failed",
                    f"the factory of {entry.name} returned {outcome}; it must return the started query",
                )
            return made

        return build

    def _begin(
        self, entry: RegisteredQuery, begin: Callable[[], Any], evidence: dict[str, Any], before: str = ""
    ) -> CommandResult:
        start, previous = entry.start, entry.run_id
        other_queries = {other.query_id for other in self._registry.entries()}
        with self._registry.changed:
            if entry.is_stop_requested():
                raise CommandError(
                    "stopped_by_program", "the program stopped the query meanwhile", evidence=evidence
                )
            entry.starting = True
        try:
            query = begin()
            run = entry.engine.run(query, entry.start)
            query_id, run_id = run.query_id, run.run_id
            if query_id == entry.query_id:
                self._registry.started(query, entry.start, entry.session, entry.engine)
        except CommandError as error:
            error.evidence = {**evidence, **error.evidence}
            raise
        except Exception as error:
            self._refresh_generation(start)
            raise self._start_error(entry, error, evidence) from error
        finally:
            entry.starting = False
        if query_id != entry.query_id:
            raise self._wrong_query(run, query_id in other_queries, evidence)
        self._refresh_generation(entry.start)
        if entry.is_stop_requested():  # the program stopped the old run while the new run was starting
            query.stop()
        evidence = dict(evidence, previous_run_id=previous, run_id=run_id, query_id=query_id)
        return CommandResult("succeeded", f"{before}run {run_id[:8]} has started", "started", evidence)

    def _start_error(
        self, entry: RegisteredQuery, error: Exception, evidence: dict[str, Any]
    ) -> CommandError:
        self._start_failed(entry, entry.start.method if entry.start else "factory", error)
        detail = {
            "exception": self._redact(causes.text_of(error)),
            "errorClass": causes.error_class_of(error),
        }
        return CommandError(
            "start_failed", "Spark refused to start the query", evidence=dict(evidence, **detail)
        )

    def _wrong_query(self, run: SparkRun, known: bool, evidence: dict[str, Any]) -> CommandError:
        """A factory started another query. Stop it, unless the program already had it."""
        outcome = "it belongs to the program and keeps running"
        if not known:
            outcome = "it was stopped"
            made = self._registry.entry(run.query_id)
            if made is not None:
                self._registry.hold(made)
            stopping.stop_unwanted(run)
            self._registry.drop(run.query_id)
        return CommandError(
            "wrong_query",
            f"another query started instead ({run.query_id}); {outcome}",
            evidence=dict(evidence, started_query_id=run.query_id),
        )

    def _refresh_generation(self, start: Start | None) -> None:
        """Accept the writer's new generation: a start by command changes nothing that matters in it."""
        if start is not None:
            start.generation = self._registry.generation(start.writer)


_ACTIONS: dict[str, Callable[[Executor, RegisteredQuery, Command], CommandResult]] = {
    "stop": Executor._do_stop,
    "start": Executor._do_start,
    "restart": Executor._do_restart,
}


def _overrides_evidence(command: Command) -> dict[str, Any]:
    return {"overrides": dict(command.overrides)} if command.overrides else {}


def _refusal(code: str, message: str, **evidence: Any) -> CommandError:
    return CommandError(code, message, refused=True, evidence=evidence)
