"""Statuses that repeat what is known of a run: neither stored nor news, so that a fleet's polls cost little. Pure.

An agent lists its queries every ten seconds, and a query that waits for its next trigger is listed with the status of the
time before. Only the times of the run's row change with it. They are kept in memory; the store may be `MAX_UNSTORED_SECONDS`
late with them, and so may the views of `controlplane.events.window`. Called by `controlplane.events.lifecycle`.
"""

from __future__ import annotations

from controlplane.events.parsing import StatusEntry
from controlplane.health.context import waiting_since
from controlplane.model import StatusSample
from controlplane.records import NO_FACTS, QueryNaming, RunRow, UnitOfWork, changed
from listeners.protocol import wire

#: Lists must lack a query for 75 s before it counts as lost, as its end may be reported a minute late. A server that
#: starts from the store misses at most this much of the time for which a query was listed.
MAX_UNSTORED_SECONDS = 15.0


def repeated(unit: UnitOfWork, event: wire.Event, entry: StatusEntry) -> RunRow | None:
    """The row of a run with the times of a status that repeats what is known of it; None if it does not.

    A running batch and the wait for data are no repetitions: of them the time of the status is evidence.
    """
    row = unit.runs.get(entry.status.run_id)
    if row is None or row.run.run_id in unit.changed or not _goes_on(row, event, entry):
        return None
    if not _is_known(row.status, entry.status) or not _is_named(row.naming, event, entry.name):
        return None
    last_event_at = max(row.last_event_at, entry.status.at)
    if last_event_at - row.stored_event_at >= MAX_UNSTORED_SECONDS:
        return None
    naming = changed(row.naming, at=event.at) if row.naming is not None else None
    return changed(row, last_event_at=last_event_at, status=entry.status, naming=naming)


def _goes_on(row: RunRow, event: wire.Event, entry: StatusEntry) -> bool:
    """Whether the run's own agent lists it as before, and nothing else is to be found out."""
    run = row.run
    same = run.query_id == entry.query_id and run.agent == event.agent and run.ended_at is None
    later = run.started_at <= entry.status.at and (row.first_seq or 0) <= event.seq
    new = entry.facts is not NO_FACTS and any(
        value not in (None, getattr(row.facts, name)) for name, value in vars(entry.facts).items()
    )
    return same and later and entry.active and entry.described and row.ended_by is None and not new


def _is_known(known: StatusSample | None, status: StatusSample) -> bool:
    if known is None or known.at > status.at or status.trigger_active or waiting_since(status) is not None:
        return False
    return changed(status, at=known.at) == known


def _is_named(known: QueryNaming | None, event: wire.Event, name: str | None) -> bool:
    if known is None or known.at > event.at:
        return False
    found = (event.agent, event.app.name, name, event.labels)
    return (known.agent, known.app, known.name, known.labels) == found
