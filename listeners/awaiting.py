"""`awaitTermination` that survives our own stops and follows a restarted query.

Nearly every program ends in `query.awaitTermination()`: if it returned when a command stops that
query, `main` would end and take every neighbour in the driver with it. So a wait without a time-out
goes on while the query is held by a command, and follows the new run. The user's own `stop()`, a
time-out argument and a failure that no command caused behave as Spark does.
"""

from __future__ import annotations

from typing import Any, Callable

from listeners import classic
from listeners.registry import Entry, Registry


def await_termination(
    registry: Registry, original: Callable[..., Any], query: Any, timeout: Any = None
) -> Any:
    """Stands in for `StreamingQuery.awaitTermination`."""
    if timeout is not None:
        return original(query, timeout)
    entry = registry.entry_of(query)
    while entry is not None:
        run_id = query._jsq.runId().toString()
        failure = _outcome(original, query)
        if not follows(registry, entry, query, run_id, failure):
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


def follows(registry: Registry, entry: Entry, query: Any, run_id: str, failure: Exception | None) -> bool:
    """After the end of a run: block while the query is held; True when a newer run is to be awaited."""
    with registry.changed:
        if failure is not None:
            registry.ended_on_probation(run_id)
        while entry.held and entry.run_id == run_id and not registry.closed:
            registry.changed.wait()
        return entry.run_id != run_id and query in entry.handles and not registry.closed


def stop(registry: Registry, original: Callable[..., Any], query: Any) -> Any:
    """Stands in for `StreamingQuery.stop`: the user's own stop ends the waits, and a command under way."""
    entry = registry.entry_of(query)
    if entry is not None:
        with registry.changed:
            entry.stop_asked, entry.probation = True, None
            registry.release(entry)
    return original(query)


def await_any(registry: Registry, original: Callable[..., Any], manager: Any, timeout: Any = None) -> Any:
    """Stands in for `StreamingQueryManager.awaitAnyTermination`.

    Spark's returns for any end since the last reset. Ends that a command caused are reset and the
    wait goes on; an end that nobody commanded is passed on as Spark reports it.
    """
    if timeout is not None:
        return original(manager, timeout)
    key = classic.manager_key(manager._jsqm)
    while True:
        strangers = _strangers(registry, manager)
        failure = _outcome(original, manager)
        if failure is not None:
            _hold_failed_starts(registry, key)
        ended = _ended_alone(registry, key)
        if not ended and _is_commanded(registry, key) and not _ended(strangers):
            manager._jsqm.resetTerminated()
            ended = _ended_alone(registry, key)  # between Spark's answer and our reset
            if not ended and not _ended(strangers):
                continue
        return _pass_on(ended, failure)


def _pass_on(ended: list[Entry], failure: Exception | None) -> None:
    """As Spark does: the failure of what ended is raised; of several, one."""
    if ended:
        failure = next((found for entry in ended if (found := classic.failure(entry.jsq))), None)
    if failure is not None:
        raise failure


def _is_commanded(registry: Registry, key: int) -> bool:
    """Whether an end that Spark reports may be a command's doing."""
    return not registry.closed and any(e.commanded for e in registry.entries() if e.session_key == key)


def _hold_failed_starts(registry: Registry, key: int) -> None:
    for entry in registry.entries():
        if entry.session_key == key and entry.probation is not None and not entry.is_active():
            registry.ended_on_probation(entry.run_id)


def _ended_alone(registry: Registry, key: int) -> list[Entry]:
    """Queries of a session that do not run, although no command ended them and nobody asked to forget it."""
    found = [e for e in registry.entries() if e.session_key == key and not e.held and not e.forgotten]
    return [entry for entry in found if not entry.is_active() and not entry.held]


def _strangers(registry: Registry, manager: Any) -> dict[str, Any]:
    """Active queries whose start we did not see (started before the agent came)."""
    found = {jsq.runId().toString(): jsq for jsq in manager._jsqm.active()}
    return {run_id: jsq for run_id, jsq in found.items() if registry.entry_of_run(run_id) is None}


def _ended(strangers: dict[str, Any]) -> bool:
    return any(not jsq.isActive() for jsq in strangers.values())


def reset_terminated(registry: Registry, original: Callable[..., Any], manager: Any) -> Any:
    """Stands in for `StreamingQueryManager.resetTerminated`."""
    registry.forget_ended(classic.manager_key(manager._jsqm))
    return original(manager)
