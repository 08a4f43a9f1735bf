"""Verification of actions: the outcome of an open action by what its query's view shows. Pure.

A start is verified by a batch that is not older than the last one of earlier runs, or by a first trigger of the new
run that found no data (`resumed_idle`: without new data no commit ever comes). A stop is verified by the agent's
result; if that never comes, by the end of the run.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import asdict

from controlplane.actions.transitions import ActionOutcome, failure_sentence, is_started
from controlplane.health.run_failure import failure_of_run
from controlplane.model import Action, ActionState, ProgressSample, QueryView, Run, RunEnd
from listeners.protocol.wire import rfc3339

WAITING_FOR_DATA = "Waiting for data to arrive"
Check = Callable[[Action, QueryView, float], ActionOutcome | None]
FACTS_DELAY_SECONDS = 20.0  # by then the agent's next poll has reported the run's trigger
RESULT_GRACE_SECONDS = 10.0  # how long after the run's end the agent's own, richer result may arrive


def verify(action: Action, view: QueryView, now: float) -> ActionOutcome | None:
    """The outcome as soon as the events show it, else None."""
    if action.state.final:
        return None
    return next((outcome for check in _checks(action) if (outcome := check(action, view, now))), None)


def _checks(action: Action) -> tuple[Check, ...]:
    if action.state == ActionState.REQUESTED:
        return (_driver_gone,)
    if action.action == "stop":
        return (_stopped, _driver_gone)
    return (_by_batch, _by_epoch, _by_end, _by_idle, _driver_gone) if is_started(action) else (_driver_gone,)


def last_earlier_batch(action: Action, view: QueryView) -> int | None:
    """The last known batch of the runs before the new one; later runs do not count."""
    new = action.evidence.get("run_id")
    before = itertools.takewhile(lambda sample: sample.run_id != new, view.progress)
    earlier = [sample.batch_id for sample in before]
    if not earlier:
        return action.previous_batch_id
    return max(earlier[-1], action.previous_batch_id if action.previous_batch_id is not None else -1)


def _by_batch(action: Action, view: QueryView, now: float) -> ActionOutcome | None:
    samples = [s for s in view.progress if s.run_id == action.evidence.get("run_id") and _committed(s)]
    if not samples:
        return None
    first, before = samples[0].batch_id, last_earlier_batch(action, view)
    if before is None or first > before:
        evidence = {"verified_by": "batch", "batch_id": first, "previous_batch_id": before}
        return ActionOutcome(ActionState.SUCCEEDED, f"resumed at batch {first}", evidence)
    if first == before:
        # After a stop between commit and report, and with asynchronous progress tracking, Spark replays the last batch.
        evidence = {"verified_by": "batch", "batch_id": first, "previous_batch_id": before}
        return ActionOutcome(ActionState.SUCCEEDED, f"resumed (replayed batch {first})", evidence)
    if first == _next_of_checkpoint(action):
        evidence = {"verified_by": "batch", "batch_id": first, "previous_batch_id": before}
        reason = f"resumed at batch {first}, to which its checkpoint was rewound from batch {before}"
        return ActionOutcome(ActionState.SUCCEEDED, reason, evidence)
    reason = (
        f"rewound: the new run began at batch {first} although batch {before} was already committed; "
        "the checkpoint was replaced or truncated"
    )
    evidence = {"code": "rewound", "batch_id": first, "previous_batch_id": before}
    return ActionOutcome(ActionState.FAILED, reason, evidence)


def _next_of_checkpoint(action: Action) -> int | None:
    """The batch that was to run next by the inventory before the start."""
    checked = action.evidence.get("checkpoint")
    return checked.get("next_batch") if isinstance(checked, dict) else None


def _by_epoch(action: Action, view: QueryView, now: float) -> ActionOutcome | None:
    """Verify a continuous query, for which Spark reports epochs instead of batches."""
    status, before = view.status, action.evidence.get("committed_batch")
    if status is None or status.epoch is None or status.run_id != action.evidence.get("run_id"):
        return None
    if isinstance(before, int) and status.epoch <= before:
        return None
    evidence = {"verified_by": "epoch", "epoch": status.epoch}
    return ActionOutcome(ActionState.SUCCEEDED, f"resumed; epoch {status.epoch} is committed", evidence)


def _committed(sample: ProgressSample) -> bool:
    """Whether the report is of a batch: Spark before 3.5 reports idle triggers as progress of the last batch."""
    return "addBatch" in sample.phases_ms or sample.input_rows > 0


def _by_idle(action: Action, view: QueryView, now: float) -> ActionOutcome | None:
    if _new_run(action, view) is None or not _found_no_data(action, view):
        return None
    before = last_earlier_batch(action, view)
    where = f" after batch {before}" if before is not None else ""
    evidence = {"verified_by": "resumed_idle", "batch_id": before, "previous_batch_id": before}
    return ActionOutcome(
        ActionState.SUCCEEDED, f"resumed{where}; its first trigger found no new data", evidence
    )


def _found_no_data(action: Action, view: QueryView) -> bool:
    run_id = action.evidence.get("run_id")
    if view.idle_at is not None or any(s.run_id == run_id for s in view.progress):
        return True  # an idle report, or progress without a batch
    status = view.status
    return (
        status is not None
        and status.run_id == run_id
        and not status.trigger_active
        and WAITING_FOR_DATA.lower() in status.message.lower()
    )


def _by_end(action: Action, view: QueryView, now: float) -> ActionOutcome | None:
    run = _new_run(action, view)
    if run is None or run.end is None:
        return None
    if run.end == RunEnd.FAILED:
        failure = failure_of_run(run, view.change, view.overload)
        evidence = {"failure": asdict(failure)}
        reason = f"the new run failed: {failure_sentence(failure)}{_checkpoint_finding(action)}"
        return ActionOutcome(ActionState.FAILED, reason, evidence)
    if run.end == RunEnd.FINISHED:
        reason = "the new run processed all available data and finished"
        return ActionOutcome(ActionState.SUCCEEDED, reason, {"verified_by": "finished"})
    if run.end == RunEnd.STOPPED and _is_trigger_known(view, run, now):
        return ActionOutcome(ActionState.UNVERIFIED, "the new run was stopped before it committed a batch")
    return None


def _checkpoint_finding(action: Action) -> str:
    """The doctor's finding before the start, as a further sentence; empty if there was none."""
    findings = action.evidence.get("findings")
    first = findings[0] if isinstance(findings, list) and findings else None
    return (
        f" Finding of the checkpoint check before: {first['message'].rstrip('.')} ({first['check']})"
        if first
        else ""
    )


def _is_trigger_known(view: QueryView, run: Run, now: float) -> bool:
    """Whether the run's trigger is known, or would be by now: with availableNow or once, a stop is a finish."""
    return view.facts.trigger is not None or run.ended_at is None or now - run.ended_at >= FACTS_DELAY_SECONDS


def _new_run(action: Action, view: QueryView) -> Run | None:
    run = view.run
    return run if run is not None and run.run_id == action.evidence.get("run_id") else None


def _stopped(action: Action, view: QueryView, now: float) -> ActionOutcome | None:
    run = view.run
    if run is None or run.run_id != action.previous_run_id or run.ended_at is None:
        return None
    if now - run.ended_at < RESULT_GRACE_SECONDS:
        return None
    reason = f"the run ended at {rfc3339(run.ended_at)}; the agent sent no result of its own"
    return ActionOutcome(ActionState.SUCCEEDED, reason, {"verified_by": "terminated"})


def _driver_gone(action: Action, view: QueryView, now: float) -> ActionOutcome | None:
    agent = view.agent
    if agent is None or agent.agent != action.agent or agent.ended_at is None:
        return None
    if agent.ended_at < action.requested_at:
        return None
    reason = f"the driver ended ({agent.end_reason or 'exit'}) before the action was done"
    return ActionOutcome(ActionState.FAILED, reason, {"code": "driver_gone"})
