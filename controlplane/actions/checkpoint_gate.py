"""Gate that checks a query's checkpoint before a start. Pure.

A start from a broken checkpoint is refused unless the request forces it. When the checkpoint cannot be checked, the
start goes on and its evidence records that. Called by `controlplane.actions.service`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controlplane.actions import guards, transitions
from controlplane.actions.transitions import NewAction
from controlplane.health.checkpoint_verdict import current
from controlplane.model import Action, CheckpointSummary, QueryView
from listeners.protocol.wire import rfc3339

MAX_FINDINGS = 10
StoredReport = Mapping[str, Any]


def needs_inventory(view: QueryView, wanted: NewAction, now: float) -> bool:
    """Whether the action waits for a new inventory of the checkpoint."""
    if wanted.action not in transitions.START_ACTIONS or wanted.force:
        return False
    return not guards.is_fresh(view.checkpoint, view, now) or guards.may_have_changed(view, now)


def decide(action: Action, seen: CheckpointSummary | None, report: StoredReport | None, now: float) -> Action:
    """Refuse or release the action by the newest inventory."""
    refusal = guards.predicted_failure(seen)
    if refusal is not None and not action.evidence.get("forced_by"):
        return transitions.refuse(action, refusal, now, checkpoint_evidence(seen, report))
    return transitions.release(action, checkpoint_evidence(seen, report), now)


def decide_without_inventory(
    action: Action, view: QueryView, report: StoredReport | None, why: str, now: float
) -> Action:
    """Decide without a new inventory: a broken checkpoint stays broken until a newer inventory or run disproves it."""
    seen = current(view)
    if guards.predicted_failure(seen) is not None:
        return decide(action, seen, report, now)
    return transitions.release(action, {"checkpoint": f"not checked: {why}"}, now)


def force(action: Action, seen: CheckpointSummary | None, report: StoredReport | None, now: float) -> Action:
    """Release the action whatever the checkpoint's verdict; the evidence keeps the verdict and `forced_by`."""
    evidence = {**checkpoint_evidence(seen, report), "forced_by": action.actor}
    return transitions.release(action, evidence, now)


def is_wait_over(action: Action, now: float) -> bool:
    """Whether a held action has waited long enough for an inventory."""
    until = action.evidence.get(transitions.WAITING_UNTIL)
    return isinstance(until, int | float) and now >= until


def checkpoint_evidence(seen: CheckpointSummary | None, report: StoredReport | None) -> dict[str, Any]:
    """The verdict and the most severe findings (at most `MAX_FINDINGS`), as an action's evidence has them."""
    if seen is None:
        return {"checkpoint": "not checked: no inventory of it has arrived yet"}
    checked = {
        "checkpoint": seen.checkpoint,
        "verdict": seen.verdict,
        "summary": seen.summary,
        "collected_at": rfc3339(seen.taken_at),
        "next_batch": seen.next_batch,
    }
    found = (report or {}).get("findings") or []
    severe = [finding for finding in found if finding.get("severity") != "info"]
    return {"checkpoint": checked, "findings": severe[:MAX_FINDINGS]}
