"""Notes on a query: what its figures hide, and who or what keeps it down. Pure; called by the API."""

from __future__ import annotations

from controlplane.health.checkpoint_drivers import names_going_on, overlapping
from controlplane.health.context import QueryContext
from controlplane.health.formatting import clock
from controlplane.health.offset_units import reads_per_batch
from controlplane.supervision_model import DesiredState

FOREACH_BATCH = "ForeachBatchSink"


def notes(context: QueryContext) -> list[str]:
    """Sentences for the query's page; empty where there is nothing to note."""
    found = (_two_drivers(context), _desired(context), _given_up(context), _repeated_reads(context))
    return [note for note in found if note]


def _two_drivers(context: QueryContext) -> str | None:
    """Which other drivers write to the checkpoint."""
    others = overlapping(context.view)
    if names := names_going_on(context.view, context.now):
        return f"Another driver goes on with this query: {names}. Do not start it here."
    if not others:
        return None
    names = ", ".join(f"{agent.app}/{agent.agent[:8]}" for agent in others)
    lease = context.view.supervised.lease
    since = f" since {clock(lease.taken_at, context.now)} (lease {lease.number})" if lease else ""
    held = f" {lease.app}/{lease.agent[:8]} has held it{since}." if lease else ""
    return f"Another driver writes to its checkpoint: {names}. Stop one of them.{held}"


def _desired(context: QueryContext) -> str | None:
    """Who wants the query not to run."""
    desired = context.view.supervised.desired
    if desired is None or desired.state is DesiredState.RUNNING:
        return None
    why = f" ({desired.reason})" if desired.reason else ""
    when = clock(desired.at, context.now)
    return (
        f"Its desired state is {desired.state}, set by {desired.actor} at {when}{why}. No policy starts it."
    )


def _given_up(context: QueryContext) -> str | None:
    """Why a policy does not restart the query any more."""
    hold = context.view.supervised.hold
    return f"Policy {hold.policy} has given up: {hold.why}" if hold is not None else None


def _repeated_reads(context: QueryContext) -> str | None:
    """The batches count each row several times, because the query reads its source several times."""
    times = reads_per_batch(context.batches)
    if times is None or context.last is None:
        return None
    finding = (
        f"Every batch reads its source {times} times, so input rows and rates count each row {times} times"
    )
    if FOREACH_BATCH in context.last.sink:
        return (
            f"{finding}. The foreachBatch function uses its DataFrame {times} times: call persist() on it first and "
            "unpersist() at the end."
        )
    return (
        f"{finding}. The query uses the same DataFrame in several places, for example in a union or a join."
    )
