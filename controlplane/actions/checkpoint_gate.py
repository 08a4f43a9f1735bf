"""What the doctor says of a checkpoint before a start, and what that makes of the action. Pure.

A start whose checkpoint is broken is refused unless somebody forces it; where nobody can look it goes on, and its
evidence says so. Called by `controlplane.actions.service`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controlplane.actions import guards, transitions
from controlplane.actions.transitions import NewAction
from controlplane.model import Action, CheckpointSummary, QueryView, Run
from listeners.protocol.wire import rfc3339

MAX_FINDINGS = 10
StoredReport = Mapping[str, Any]


def needs_inventory(view: QueryView, ask: NewAction, now: float) -> bool:
    """Whether the checkpoint is to be looked at before this is done."""
    if ask.action not in transitions.START_ACTIONS or ask.force:
        return False
    return not guards.is_fresh(view.checkpoint, view, now) or guards.may_have_changed(view, now)


def decide(
    action: Action, seen: CheckpointSummary | None, judgement: StoredReport | None, now: float
) -> Action:
    """The action with what the newest inventory foretells: refused, or on its way."""
    refusal = guards.predicted_failure(seen)
    if refusal is not None and not action.evidence.get("forced_by"):
        return transitions.refuse(action, refusal, now, checkpoint_evidence(seen, judgement))
    return transitions.release(action, checkpoint_evidence(seen, judgement), now)


def decide_without_inventory(
    action: Action, view: QueryView, judgement: StoredReport | None, why: str, now: float
) -> Action:
    """Nobody could look. What was found broken stays so until somebody looks again, or a run has proved it wrong."""
    seen = view.checkpoint
    if guards.predicted_failure(seen) is not None and not _is_outrun(seen, view.run):
        return decide(action, seen, judgement, now)
    return transitions.release(action, {"checkpoint": f"not seen: {why}"}, now)


def _is_outrun(seen: CheckpointSummary | None, run: Run | None) -> bool:
    """Whether a later run has started from this checkpoint all the same, and committed a batch."""
    if seen is None or run is None:
        return False
    return run.started_at > seen.taken_at and run.last_batch_id is not None


def force(
    action: Action, seen: CheckpointSummary | None, judgement: StoredReport | None, now: float
) -> Action:
    """Somebody wants it whatever the doctor says; that is on record, with what it says."""
    told = {**checkpoint_evidence(seen, judgement), "forced_by": action.actor}
    return transitions.release(action, told, now)


def is_wait_over(action: Action, now: float) -> bool:
    until = action.evidence.get(transitions.WAITING_UNTIL)
    return isinstance(until, int | float) and now >= until


def checkpoint_evidence(seen: CheckpointSummary | None, judgement: StoredReport | None) -> dict[str, Any]:
    """The verdict and its weightiest findings, as they stand in an action's evidence."""
    if seen is None:
        return {"checkpoint": "not seen: no inventory of it has come yet"}
    told = {
        "checkpoint": seen.checkpoint,
        "verdict": seen.verdict,
        "summary": seen.summary,
        "collected_at": rfc3339(seen.taken_at),
        "next_batch": seen.next_batch,
    }
    found = (judgement or {}).get("findings") or []
    grave = [finding for finding in found if finding.get("severity") != "info"]
    return {"checkpoint": told, "findings": grave[:MAX_FINDINGS]}
