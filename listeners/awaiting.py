"""`awaitTermination` that survives our own stops and follows a restarted query.

Nearly every program ends in `query.awaitTermination()`: if it returned when a command stops that
query, `main` would end and take every neighbour in the driver with it. So a wait without a time-out
goes on while the query is held by a command, and follows the new run. The user's own `stop()`, a
time-out argument and a failure that no command caused behave as Spark does.
"""

from __future__ import annotations

from typing import Any, Callable

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
        if not follows(registry, entry, run_id, failure):
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


def follows(registry: Registry, entry: Entry, run_id: str, failure: Exception | None) -> bool:
    """After the end of a run: block while the query is held; True when a newer run is to be awaited."""
    with registry.changed:
        if failure is not None:
            registry.ended_on_probation(run_id)
        while entry.held and entry.run_id == run_id and not registry.closed:
            registry.changed.wait()
        return entry.run_id != run_id and not registry.closed


def stop(registry: Registry, original: Callable[..., Any], query: Any) -> Any:
    """Stands in for `StreamingQuery.stop`: the user's own stop ends the waits too."""
    entry = registry.entry_of(query)
    if entry is not None:
        with registry.changed:
            entry.probation = None
            registry.release(entry)
    return original(query)


def await_any(registry: Registry, original: Callable[..., Any], manager: Any, timeout: Any = None) -> Any:
    """Stands in for `StreamingQueryManager.awaitAnyTermination`.

    Spark's returns for any end since the last reset. Ends that a command caused are reset and the
    wait goes on; an end that nobody commanded is passed on as Spark reports it.
    """
    if timeout is not None:
        return original(manager, timeout)
    while True:
        strangers = _strangers(registry, manager)
        failure = _outcome(original, manager)
        if _passes_on(registry, strangers, failure):
            if failure is not None:
                raise failure
            return None
        manager._jsqm.resetTerminated()
        if _ended_alone(registry) or _ended(strangers):
            return None  # it ended between Spark's answer and our reset


def _passes_on(registry: Registry, strangers: dict[str, Any], failure: Exception | None) -> bool:
    """Whether an end that Spark reported is one that nobody commanded."""
    entries = registry.entries()
    if failure is not None:
        for entry in entries:
            if entry.probation is not None and not entry.is_active():
                registry.ended_on_probation(entry.run_id)
    commanded = any(entry.commanded for entry in entries)
    return registry.closed or not commanded or bool(_ended_alone(registry)) or _ended(strangers)


def _ended_alone(registry: Registry) -> list[Entry]:
    """Queries that do not run although no command ended them and nobody asked to forget it."""
    return [e for e in registry.entries() if not e.held and not e.forgotten and not e.is_active()]


def _strangers(registry: Registry, manager: Any) -> dict[str, Any]:
    """Active queries whose start we did not see (started before the agent came)."""
    found = {jsq.runId().toString(): jsq for jsq in manager._jsqm.active()}
    return {run_id: jsq for run_id, jsq in found.items() if registry.entry_of_run(run_id) is None}


def _ended(strangers: dict[str, Any]) -> bool:
    return any(not jsq.isActive() for jsq in strangers.values())


def reset_terminated(registry: Registry, original: Callable[..., Any], manager: Any) -> Any:
    """Stands in for `StreamingQueryManager.resetTerminated`."""
    registry.forget_ended()
    return original(manager)
