"""What became of a query after a decision, and whether the decision was right. Pure.

A query has recovered when a run that began after the decision has committed a batch, or found no data, and its status
is healthy. A run counts as the policy's own if its action started it.
"""

from __future__ import annotations

from dataclasses import replace

from controlplane.model import Action, ActionState, QueryStatus, QueryView, Run, RunEnd
from controlplane.supervision_model import (
    Assessment,
    DecisionKind,
    DecisionOutcome,
    DesiredState,
    LedgerEntry,
)

HEALTHY = frozenset({QueryStatus.RUNNING, QueryStatus.IDLE, QueryStatus.FINISHED, QueryStatus.BUSY})
#: States of an action that started no run, or one that failed before its first commit.
_NO_RUN = (ActionState.REFUSED, ActionState.FAILED, ActionState.EXPIRED)


#: How long the result of a driver's own restart may take to arrive after its decision.
RESULT_SECONDS = 120.0


def started_run(entry: LedgerEntry, action: Action | None) -> str | None:
    """The run that a decision started: by its action, or in the driver."""
    found = action.evidence.get("run_id") if action is not None else entry.inputs.get("started_run")
    return str(found) if found else None


def settle(
    entry: LedgerEntry, view: QueryView, status: QueryStatus, action: Action | None, now: float
) -> LedgerEntry:
    """The entry with its outcome, or unchanged while that is open. `action`: the entry's own."""
    if not entry.is_open:
        return entry
    if action is not None and not action.state.final:
        return entry
    by_driver = entry.acted and action is None and "by" in entry.inputs
    if by_driver and started_run(entry, None) is None and now - entry.at < RESULT_SECONDS:
        return entry
    return _settled(entry, view, status, action, now) or _overruled(entry, view, now) or entry


def _settled(
    entry: LedgerEntry, view: QueryView, status: QueryStatus, action: Action | None, now: float
) -> LedgerEntry | None:
    run = view.run
    begun = run is not None and run.run_id != entry.run_id and run.started_at >= entry.trouble_since
    ours = run is not None and started_run(entry, action) == run.run_id
    if action is not None and action.state in _NO_RUN and not (begun and not ours):
        return _overruled(entry, view, now) or _not_started(entry, action, now)
    if run is None or not begun:
        return _recovered(entry, view, ours, begun, now) if _resolved(entry, status) else None
    if run.end is RunEnd.FAILED and not run.batches:
        assessment = Assessment.USELESS if entry.decision is DecisionKind.RESTART else Assessment.HELPED
        return _ended(entry, DecisionOutcome.FAILED_AGAIN, assessment, "The next run failed as well.", now)
    if not _works(view, run, status, action if ours else None):
        return None
    return _recovered(entry, view, ours, begun, now)


def _not_started(entry: LedgerEntry, action: Action, now: float) -> LedgerEntry:
    """The action started no run that works; the code of a refusal is kept for the next decision."""
    refused = action.state is ActionState.REFUSED
    code = {"refused": str(action.evidence.get("code") or "refused")} if refused else {}
    ended = _ended(entry, DecisionOutcome.FAILED_AGAIN, Assessment.USELESS, action.reason, now)
    return replace(ended, inputs={**entry.inputs, **code})


def _works(view: QueryView, run: Run, status: QueryStatus, action: Action | None) -> bool:
    if run.end is RunEnd.FINISHED or (action is not None and action.state is ActionState.SUCCEEDED):
        return True
    committed = bool(run.batches) or view.idle_at is not None
    return committed and (run.end is RunEnd.FAILED or status in HEALTHY or status is QueryStatus.LAGGING)


def _resolved(entry: LedgerEntry, status: QueryStatus) -> bool:
    """Whether a query that was stuck, lagging or lost is healthy again with the same run."""
    return entry.trigger != QueryStatus.FAILED.value and status in HEALTHY and not entry.acted


def _recovered(entry: LedgerEntry, view: QueryView, ours: bool, begun: bool, now: float) -> LedgerEntry:
    if ours and entry.acted:
        why = "The restarted run works."
        return _ended(entry, DecisionOutcome.RECOVERED, Assessment.HELPED, why, now)
    outcome = DecisionOutcome.RECOVERED_WITHOUT_US
    if not begun:
        return _ended(entry, outcome, Assessment.WRONG, "It recovered by itself.", now)
    if entry.decision is DecisionKind.RESTART:
        assessment = Assessment.USELESS if entry.acted else Assessment.HELPED
        return _ended(entry, outcome, assessment, "A start by somebody else brought it back.", now)
    same_driver = view.run is not None and view.run.agent == entry.inputs.get("agent")
    if same_driver:
        why = "A start in the same driver brought it back, so a restart would have helped."
        return _ended(entry, outcome, Assessment.WRONG, why, now)
    return _ended(entry, outcome, Assessment.HELPED, "A new driver brought it back.", now)


def _overruled(entry: LedgerEntry, view: QueryView, now: float) -> LedgerEntry | None:
    """A person stopped, suspended or retired the query after the decision."""
    desired = view.supervised.desired
    stopped = desired is not None and desired.state is not DesiredState.RUNNING and desired.at >= entry.at
    if not stopped and view.retired_at is None:
        return None
    why = (
        f"{desired.actor} set its desired state to {desired.state}."
        if desired and stopped
        else "It was retired."
    )
    assessment = Assessment.WRONG if entry.decision is DecisionKind.RESTART else Assessment.HELPED
    return _ended(entry, DecisionOutcome.OVERRULED, assessment, why, now)


def _ended(
    entry: LedgerEntry, outcome: DecisionOutcome, assessment: Assessment, why: str, now: float
) -> LedgerEntry:
    return replace(entry, outcome=outcome, outcome_at=now, outcome_why=why, assessment=assessment)
