"""`awaitTermination` that survives our own stops and follows a restarted query.

Nearly every program ends in `query.awaitTermination()`: if it returned when a command stops that
query, `main` would end and take every neighbour in the driver with it. So a wait without a time-out
goes on while the query is held by a command, and follows the new run. The user's own `stop()`, a
time-out argument and a failure that no command caused behave as Spark does.
"""

from __future__ import annotations

import time
from typing import Any, Callable

from listeners.protocol.errors import AgentError
from listeners.queries.registry import RegisteredQuery, Registry
from listeners.spark.engine import Engine, SparkRun

#: Before a wait is repeated where Spark did not answer.
RETRY_SECONDS = 1.0
#: How often a wait that a command holds looks whether there is a Spark that could start the query again.
POLL_SECONDS = 10.0


def await_termination(
    registry: Registry, engine: Engine, original: Callable[..., Any], query: Any, timeout: Any = None
) -> Any:
    """Stands in for `StreamingQuery.awaitTermination`."""
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
    """After the end of a run: block while the query is held; True when a newer run is to be awaited.

    Raises what Spark answers where it is gone for good: then nobody can start the query again.
    """
    with registry.changed:
        if failure is not None:
            registry.ended_on_probation(run_id)
    while True:
        with registry.changed:
            if registry.changed.wait_for(lambda: not _is_held(registry, entry, run_id), POLL_SECONDS):
                return entry.run_id != run_id and query in entry.handles and not registry.closed
            run = entry.run
        gone = engine.permanent_outage(run)  # outside the lock: it may take as long as it likes
        if gone is not None:
            _release_waiters(registry, entry, run_id, gone)


def _is_held(registry: Registry, entry: RegisteredQuery, run_id: str) -> bool:
    return entry.held and entry.run_id == run_id and not registry.closed


def _release_waiters(registry: Registry, entry: RegisteredQuery, run_id: str, gone: Exception) -> None:
    with registry.changed:
        if not _is_held(registry, entry, run_id):
            return
        registry.release(entry)
    raise gone


def stop(registry: Registry, engine: Engine, original: Callable[..., Any], query: Any) -> Any:
    """Stands in for `StreamingQuery.stop`: the user's own stop ends the waits, and a command under way."""
    entry = registry.entry_of(query, engine.run_id(query))
    if entry is not None:
        with registry.changed:
            entry.stop_asked, entry.probation = True, None
            registry.release(entry)
    return original(query)


def await_any(
    registry: Registry, engine: Engine, original: Callable[..., Any], manager: Any, timeout: Any = None
) -> Any:
    """Stands in for `StreamingQueryManager.awaitAnyTermination`.

    Spark's returns for any end since the last reset. Ends that a command caused are reset and the
    wait goes on; an end that nobody commanded is passed on as Spark reports it.
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
            ended = _own_ends(registry, key)  # between Spark's answer and our reset
            if not ended and not _ended(unseen_runs):
                continue
        return _return_as_spark(ended, failure)


def _return_as_spark(ended: list[SparkRun], failure: Exception | None) -> None:
    """As Spark does: the failure of what ended is raised; of several, one."""
    if ended:
        failure = next((found for run in ended if (found := _failure_of(run))), None)
    if failure is not None:
        raise failure


def _failure_of(run: SparkRun) -> Exception | None:
    """None also where Spark remembers that run no more."""
    try:
        return run.failure()
    except Exception:
        return None


def _may_be_commanded(registry: Registry, key: int) -> bool:
    """Whether an end that Spark reports may be a command's doing."""
    return not registry.closed and any(e.commanded for e in registry.entries() if e.session_key == key)


def _hold_failed_starts(registry: Registry, key: int) -> None:
    for entry in registry.entries():
        if entry.session_key == key and entry.probation is not None and not _is_active(entry.run):
            registry.ended_on_probation(entry.run_id)


def _own_ends(registry: Registry, key: int) -> list[SparkRun]:
    """Runs of a session that ended, although no command ended them and nobody asked to forget it.

    Also those that the program has followed by newer ones: Spark tells of them until it is reset.
    """
    found = [e for e in registry.entries() if e.session_key == key and not e.held and not e.forgotten]
    ended = [entry.run for entry in found if not _is_active(entry.run) and not entry.held]
    return ended + registry.replaced(key)


def _is_active(run: SparkRun) -> bool:
    """Where Spark cannot be asked, nothing is known to have ended: PySpark's own wait will tell."""
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
    """Active queries whose start we did not see (started before the agent came)."""
    try:
        active = engine.active_of(manager)
    except AgentError:
        return []
    return [run for run in active if registry.entry_of_run(run.run_id) is None]


def _ended(unseen_runs: list[SparkRun]) -> bool:
    return any(not _is_active(run) for run in unseen_runs)


def reset_terminated(registry: Registry, engine: Engine, original: Callable[..., Any], manager: Any) -> Any:
    """Stands in for `StreamingQueryManager.resetTerminated`."""
    try:
        registry.forget_ended(engine.key_of(manager))
    except AgentError:  # Spark cannot be asked: PySpark's own call will say so
        pass
    return original(manager)
