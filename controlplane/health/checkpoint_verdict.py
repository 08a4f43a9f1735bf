"""The verdict on a query's checkpoint now: the doctor's report joined with what was reported since. Pure.

The report shows the checkpoint as of its inventory. Batches committed later make *ok* the verdict of the last check,
and after minutes outdated; a change that the checkpoint does not allow, or a run that failed before its first commit,
makes it worse. Called by the API and by `controlplane.actions`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from controlplane.health.failures import headline
from controlplane.health.run_failure import change_that_failed, failure_of_run
from controlplane.model import CheckpointLogs, CheckpointSummary, QueryView, Run, RunEnd, ShapeChange

#: No fault was found, but batches have been committed, or a run has started or ended, since the inventory.
OUTDATED = "outdated"
#: No fault was found, and the run that was read has gone on committing batches since, for minutes at most.
OK_AT_CHECK = "ok_at_check"
#: A report received so shortly before a reading may be of a batch that the reading does not show yet.
RACE_SECONDS = 2.0
#: An outdated verdict is stale after this time; a running query's logs are read about once a minute.
STALE_SECONDS = 300.0
NOT_ALLOWED = "run.not-allowed"
IN_FLIGHT = "log.inflight"
#: The beginning of the summary of a failure that is inferred (`CheckpointReport.condition`).
INFERRED = "A restart of the query fails if "
CHANGED = "The query was changed, and its checkpoint does not allow that"


def current(view: QueryView) -> CheckpointSummary | None:
    """The summary as of now: verdict, newest batches, and a next batch that is not before one that was reported."""
    seen = view.checkpoint
    if seen is None or seen.verdict == "unreadable":
        return seen
    return _with_failure(_with_batches(seen, view), view)


def is_stale(view: QueryView, now: float) -> bool:
    """Whether a run began or ended after the newest reading, or batches were committed and the reading is old."""
    seen = view.checkpoint
    if seen is None:
        return False
    reading = newest_reading(seen)
    old = now - reading.at > STALE_SECONDS and batch_committed_since(view, reading) is not None
    return old or _run_changed_since(view, seen, reading)


def is_outdated(view: QueryView) -> bool:
    """Whether batches were committed, or a run began or ended, after the newest reading of the checkpoint."""
    seen = view.checkpoint
    if seen is None:
        return False
    reading = newest_reading(seen)
    return batch_committed_since(view, reading) is not None or _run_changed_since(view, seen, reading)


def newest_reading(seen: CheckpointSummary) -> CheckpointLogs:
    """The newest batches on disk, by the last reading of the logs or by the inventory."""
    return seen.logs or CheckpointLogs(seen.taken_at, seen.last_planned_batch, seen.last_committed_batch)


def batch_committed_since(view: QueryView, reading: CheckpointLogs) -> int | None:
    """The newest reported batch, if it was committed after the reading; None otherwise."""
    batch, at = _newest_commit(view)
    if batch is None or batch <= _or_minus_1(reading.committed) or at <= reading.at - RACE_SECONDS:
        return None
    return batch


def contradicts(view: QueryView, reading: CheckpointLogs) -> bool:
    """Whether the logs lack a batch that was reported before the reading, or commits are ahead of offsets."""
    batch, at = _newest_commit(view)
    committed, planned = _or_minus_1(reading.committed), _or_minus_1(reading.planned)
    lost = batch is not None and batch > committed and at <= reading.at - RACE_SECONDS
    return lost or committed > planned


def _newest_commit(view: QueryView) -> tuple[int | None, float]:
    """The batch committed last, and when it was reported; Spark reports a batch after its commit."""
    if view.progress:
        return view.progress[-1].batch_id, view.progress[-1].at
    run = view.run
    return (None, 0.0) if run is None else (run.last_batch_id, run.ended_at or run.started_at)


def _or_minus_1(batch: int | None) -> int:
    return -1 if batch is None else batch


def _run_changed_since(view: QueryView, seen: CheckpointSummary, reading: CheckpointLogs) -> bool:
    run = view.run
    if run is None or reading.at < run.started_at:
        return run is not None
    return run.ended_at is not None and not shows_end(seen, run)


def shows_end(seen: CheckpointSummary, run: Run | None) -> bool:
    """Whether the inventory was taken after the run ended; the clocks of agent and end may differ a little."""
    if run is None or run.ended_at is None:
        return False
    return seen.taken_at >= run.ended_at or (seen.run_id == run.run_id and seen.why in ("failed", "stopped"))


# -- batches ---------------------------------------------------------------------------------------


def _with_batches(seen: CheckpointSummary, view: QueryView) -> CheckpointSummary:
    reading = newest_reading(seen)
    later = batch_committed_since(view, reading)
    if _in_flight_is_committed(seen, view):
        seen = _without_in_flight(seen)
    resumes = seen.next_batch if seen.logs is None else next_batch(reading)
    if later is not None:
        resumes = max(resumes or 0, later + 1)
    found = replace(
        seen,
        last_planned_batch=reading.planned,
        last_committed_batch=reading.committed,
        next_batch=resumes,
    )
    if later is None and not _run_changed_since(view, seen, reading):
        return replace(found, summary=_text_of_logs(seen, found)) if seen.logs is not None else found
    text = _outdated(found, seen, later, _is_disproved(seen, view.run))
    return replace(text, verdict=OK_AT_CHECK) if seen.verdict == "ok" and _goes_on(view, seen) else text


def _in_flight_is_committed(seen: CheckpointSummary, view: QueryView) -> bool:
    """Whether the batch that was planned but not committed at the inventory has been committed since."""
    reading = newest_reading(seen)
    later = batch_committed_since(view, reading)
    newest = max(_or_minus_1(reading.committed), _or_minus_1(later))
    return _or_minus_1(seen.last_committed_batch) < _or_minus_1(seen.last_planned_batch) <= newest


def _without_in_flight(seen: CheckpointSummary) -> CheckpointSummary:
    counts = {key: count for key, count in seen.counts.items() if key[0] != IN_FLIGHT}
    if (
        seen.verdict == "risky"
        and counts != seen.counts
        and all(severity == "info" for _, severity in counts)
    ):
        summary = f"The next start resumes at batch {seen.next_batch}."
        return replace(seen, verdict="ok", summary=summary, counts=counts)
    return replace(seen, counts=counts)


def _goes_on(view: QueryView, seen: CheckpointSummary) -> bool:
    """Whether the run that the newest reading is of still runs, and committed its last batch soon after it."""
    reading = newest_reading(seen)
    return (
        not _run_changed_since(view, seen, reading) and _newest_commit(view)[1] - reading.at <= STALE_SECONDS
    )


def next_batch(reading: CheckpointLogs) -> int:
    """The batch that a start runs first: the newest planned one if it was not committed, else the one after it."""
    planned, committed = _or_minus_1(reading.planned), _or_minus_1(reading.committed)
    return planned if planned > committed else planned + 1


def _text_of_logs(seen: CheckpointSummary, found: CheckpointSummary) -> str:
    """The summary after a later reading of the logs, which covers neither state nor sources."""
    if seen.next_batch == found.next_batch:
        return seen.summary
    fault = "" if seen.verdict == "ok" else _fault(seen)
    return f"The next start resumes at batch {found.next_batch}. {_checked(seen, found)}{fault}".rstrip()


def _checked(seen: CheckpointSummary, found: CheckpointSummary) -> str:
    """As of which batch the rest was checked, where that is not the batch of the newest reading."""
    if seen.last_committed_batch == found.last_committed_batch:
        return ""
    return f"State and source files were checked {_as_of(seen.last_committed_batch)}. "


def _outdated(
    found: CheckpointSummary, seen: CheckpointSummary, later: int | None, disproved: bool
) -> CheckpointSummary:
    as_of = _as_of(found.last_committed_batch)
    since = (
        "A run has started or ended since." if later is None else f"Batch {later} has been committed since."
    )
    resumes = f"{since} The next start resumes at batch {found.next_batch} or later."
    head = f"{as_of[:1].upper()}{as_of[1:]}"
    if seen.verdict == "ok":
        text = f"{head}, no fault was found. {_checked(seen, found)}{resumes}"
        return replace(found, verdict=OUTDATED, summary=text)
    if disproved:
        text = f"{head}, a restart would have failed: {_fault(seen)} {resumes}"
        return replace(found, verdict=OUTDATED, summary=text, predicted_failure=None)
    if seen.verdict == "broken":
        return replace(found, summary=f"{head}, a restart fails: {_fault(seen)} {since}")
    return replace(found, summary=f"{head}: {_fault(seen)} {resumes}")


def _as_of(batch: int | None) -> str:
    return "as of the first start" if batch is None else f"as of batch {batch}"


def _fault(seen: CheckpointSummary) -> str:
    """The worst finding in the report's summary, without the sentence before it, which names a batch."""
    for head in (", but: ", "A restart fails: "):
        if head in seen.summary:
            return seen.summary.partition(head)[2]
    return seen.summary.partition(": ")[2] if seen.summary.startswith(INFERRED) else seen.summary


def _is_disproved(seen: CheckpointSummary, run: Run | None) -> bool:
    """Whether a run started from this checkpoint after the inventory and committed a batch."""
    broken = seen.verdict == "broken" and run is not None
    return broken and run is not None and run.started_at > seen.taken_at and run.last_batch_id is not None


# -- changes and failures --------------------------------------------------------------------------


def _with_failure(seen: CheckpointSummary, view: QueryView) -> CheckpointSummary:
    """The summary, made worse by what preflight found and by how the newest run failed."""
    if seen.verdict == "broken":
        return seen
    change = change_that_failed(view.run, view.change)
    if change is not None:
        return replace(
            seen,
            verdict="broken",
            summary=f"A restart of the changed query fails: {change.change}. {change.remedy}",
            predicted_failure=f"{CHANGED}: {change.change}",
            counts={**seen.counts, (NOT_ALLOWED, "error"): 1},
        )
    doubt = _doubt(view)
    if doubt is None or seen.verdict == "risky":
        return seen
    return replace(seen, verdict="risky", summary=f"{seen.summary} {doubt}")


def _doubt(view: QueryView) -> str | None:
    """Why the next start may not work although the checkpoint has no fault; None if nothing speaks against it."""
    run, change = view.run, view.change
    if run is None:
        return None
    if change is not None and (run.last_batch_id is None or not change.fails):
        return f"The newest run has a change that this checkpoint does not allow: {change.change}."
    if run.end is RunEnd.FAILED and run.last_batch_id is None:
        failure = failure_of_run(run, None)
        name = headline(failure).rstrip(".")
        return None if failure.retry == "now" else f"The newest run failed before its first commit: {name}."
    return None


def report_now(report: Mapping[str, Any] | None, view: QueryView) -> Mapping[str, Any]:
    """The stored report with findings as of now, as the verdict counts them.

    The newest run's change is added; a batch that has been committed since the inventory is in flight no more.
    """
    known, change = report or {}, view.change
    findings = list(known.get("findings") or ())
    if view.checkpoint is not None and _in_flight_is_committed(view.checkpoint, view):
        findings = [finding for finding in findings if finding["check"] != IN_FLIGHT]
    failed = change_that_failed(view.run, change) is not None
    if change is not None and (failed or not any(f["check"] == NOT_ALLOWED for f in findings)):
        findings = [_finding(change, failed), *(f for f in findings if f["check"] != NOT_ALLOWED)]
    return {**known, "findings": findings} if known or findings else known


def _finding(change: ShapeChange, failed: bool) -> dict[str, Any]:
    return {
        "check": NOT_ALLOWED,
        "severity": "error" if failed else "warning",
        "effect": "fails" if failed else "data",
        "message": f"{CHANGED}: {change.change}. {change.spark}".strip(),
        "evidence": {"run_id": change.run_id, "other_changes": change.others},
        "when": "in the first batch" if failed else "",
        "condition": "",
        "remedy": [change.remedy] if change.remedy else [],
    }
