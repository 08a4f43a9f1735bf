"""`awaitTermination` that does not return when a command stops the query, and follows the restarted query.

Nearly every program ends in `query.awaitTermination()`. If that returned when a command stops the query,
`main` would end, and with it every other query in the driver. So a wait without a timeout continues while a
command holds the query, and follows the new run. The user's own `stop()`, a timeout argument and a failure
that no command caused behave as in Spark.
"""

from __future__ import annotations

import time
from typing import Any, Callable

from listeners.protocol.errors import AgentError
from listeners.queries.registry import RegisteredQuery, Registry
from listeners.spark.engine import Engine, SparkRun

#: Delay before a wait is repeated when Spark did not answer.
RETRY_SECONDS = 1.0
#: How often a wait that a command holds checks whether Spark can still start the query again.
POLL_SECONDS = 10.0


def await_termination(
    registry: Registry, engine: Engine, original: Callable[..., Any], query: Any, timeout: Any = None
) -> Any:
    """Replaces `StreamingQuery.awaitTermination`."""
    if timeout is not None:
        return original(query, timeout)
    entry = registry.entry_of(query, engine.run_id(query))
    while entry is not None:
        run_id = engine.run_id(query)
        failure = _outcome(original, query)
        if failure is not None and engine.is_outage(failure):
            raise failure
        if not follow_restart(registry, engine, entry, query, run_id, failure):
            if failure is not None:
                raise failure
            return None
    return original(query)


def _outcome(original: Callable[..., Any], waited_on: Any) -> Exception | None:
    try:
        original(waited_on)
    except Exception as failure:
        return failure
    return None


def follow_restart(
    registry: Registry,
    engine: Engine,
    entry: RegisteredQuery,
    query: Any,
    run_id: str,
    failure: Exception | None,
) -> bool:
    """After the end of a run, block while the query is held. True if a newer run must be awaited.

    Raises Spark's error if Spark is permanently unavailable: then the query cannot be started again.
    """
    with registry.changed:
        if failure is not None:
            registry.ended_on_probation(run_id)
    while True:
        with registry.changed:
            if registry.changed.wait_for(lambda: not _is_held(registry, entry, run_id), POLL_SECONDS):
                return entry.run_id != run_id and query in entry.handles and not registry.closed
            run = entry.run
        outage = engine.permanent_outage(run)  # outside the lock: it may take long
        if outage is not None:
            _release_waiters(registry, entry, run_id, outage)


def _is_held(registry: Registry, entry: RegisteredQuery, run_id: str) -> bool:
    return entry.held and entry.run_id == run_id and not registry.closed


def _release_waiters(registry: Registry, entry: RegisteredQuery, run_id: str, outage: Exception) -> None:
    with registry.changed:
        if not _is_held(registry, entry, run_id):
            return
        registry.release(entry)
    raise outage


def stop_query(registry: Registry, engine: Engine, original: Callable[..., Any], query: Any) -> Any:
    """Replaces `StreamingQuery.stop`: the user's own stop ends the waits and a command in progress."""
    entry = registry.entry_of(query, engine.run_id(query))
    if entry is not None:
        with registry.changed:
            entry.stop_requested, entry.probation = True, None
            registry.release(entry)
    return original(query)


def await_any_termination(
    registry: Registry, engine: Engine, original: Callable[..., Any], manager: Any, timeout: Any = None
) -> Any:
    """Replaces `StreamingQueryManager.awaitAnyTermination`.

    Spark's returns for any end since the last reset. If a command caused the end, reset and wait again. Any
    other end is returned as Spark reports it.
    """
    if timeout is not None:
        return original(manager, timeout)
    key = engine.key_of(manager)
    while True:
        unseen_runs = _unseen_runs(registry, engine, manager)
        failure = _outcome(original, manager)
        if failure is not None and engine.is_outage(failure):
            raise failure
        if failure is not None:
            _hold_failed_starts(registry, key)
        ended = _own_ends(registry, key)
        if not ended and _may_be_commanded(registry, key) and not _ended(unseen_runs):
            _reset(engine, manager)
            ended = _own_ends(registry, key)  # ended between Spark's answer and the reset
            if not ended and not _ended(unseen_runs):
                continue
        return _return_as_spark(ended, failure)


def _return_as_spark(ended: list[SparkRun], failure: Exception | None) -> None:
    """Return or raise as Spark does: raise the first failure among the runs that ended."""
    if ended:
        failure = next((found for run in ended if (found := _failure_of(run))), None)
    if failure is not None:
        raise failure


def _failure_of(run: SparkRun) -> Exception | None:
    """The run's failure; None also where Spark no longer remembers the run."""
    try:
        return run.failure()
    except Exception:
        return None


def _may_be_commanded(registry: Registry, key: int) -> bool:
    """Whether a command may have caused an end that Spark reports."""
    return not registry.closed and any(e.commanded for e in registry.entries() if e.session_key == key)


def _hold_failed_starts(registry: Registry, key: int) -> None:
    for entry in registry.entries():
        if entry.session_key == key and entry.probation is not None and not _is_active(entry.run):
            registry.ended_on_probation(entry.run_id)


def _own_ends(registry: Registry, key: int) -> list[SparkRun]:
    """Runs of a session that no command ended and that the user has not reset.

    Includes runs that the program has replaced by newer ones: Spark reports them until the next reset.
    """
    found = [e for e in registry.entries() if e.session_key == key and not e.held and not e.forgotten]
    ended = [entry.run for entry in found if not _is_active(entry.run) and not entry.held]
    return ended + registry.replaced(key)


def _is_active(run: SparkRun) -> bool:
    """Whether the run is active.

    True where Spark does not answer: PySpark's own wait will raise that error.
    """
    try:
        return run.is_active()
    except AgentError:
        return True


def _reset(engine: Engine, manager: Any) -> None:
    try:
        engine.reset_terminated(manager)
    except AgentError:  # the next wait returns at once
        time.sleep(RETRY_SECONDS)


def _unseen_runs(registry: Registry, engine: Engine, manager: Any) -> list[SparkRun]:
    """Active queries started before the agent was attached."""
    try:
        active = engine.active_of(manager)
    except AgentError:
        return []
    return [run for run in active if registry.entry_of_run(run.run_id) is None]


def _ended(unseen_runs: list[SparkRun]) -> bool:
    return any(not _is_active(run) for run in unseen_runs)


def reset_terminated(registry: Registry, engine: Engine, original: Callable[..., Any], manager: Any) -> Any:
    """Replaces `StreamingQueryManager.resetTerminated`."""
    try:
        registry.forget_ended(engine.key_of(manager))
    except AgentError:  # Spark does not answer: PySpark's own call raises the error
        pass
    return original(manager)
