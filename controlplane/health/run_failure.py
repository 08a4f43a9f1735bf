"""The failure of a run: its exception explained, or the change of the query that caused it. Pure.

A run that failed before its first commit, after a change with which Spark cannot start on its checkpoint, failed
because of the change: Spark's exception then names a symptom (a missing state directory, a number that cannot be parsed). Only a
failure that Spark can retry at once, such as a lost executor, has a cause of its own.
"""

from __future__ import annotations

from dataclasses import replace

from controlplane.driver_model import HostLoad
from controlplane.health.failures import explain
from controlplane.health.host import overload_near
from controlplane.model import Failure, Run, RunEnd, ShapeChange

MAX_CHANGE_CHARS = 300
REVERT = "Revert the change, or start on a new checkpoint."
#: The error condition of a query that failed because it was changed: what Spark raised names a symptom.
CHANGED_KIND = "query-changed"


def failure_of_run(run: Run, change: ShapeChange | None, overload: HostLoad | None = None) -> Failure:
    """Why the run failed. `change`: the disallowed change of the query's newest run, if there is one.

    `overload`: the last load of its host that was too high.
    """
    overloaded = overload_near(overload, run.ended_at) if run.ended_at is not None else None
    found = explain(run.failure_text or "", run.error_class, overloaded)
    if change is None or not change.fails or change.run_id != run.run_id:
        return found
    if run.last_batch_id is not None or found.retry == "now":
        return found
    return replace(
        found, change=change.change[:MAX_CHANGE_CHARS], retry="never", advice=change.remedy or REVERT
    )


def change_that_failed(run: Run | None, change: ShapeChange | None) -> ShapeChange | None:
    """The change, where the run failed because of it; None otherwise."""
    if run is None or run.end is not RunEnd.FAILED or failure_of_run(run, change).change is None:
        return None
    return change
