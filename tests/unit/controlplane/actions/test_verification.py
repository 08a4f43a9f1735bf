"""When a start is proven, when it is disproven, and when we go on waiting."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from controlplane.actions import transitions
from controlplane.actions.verification import FACTS_DELAY_SECONDS, RESULT_GRACE_SECONDS, verify
from controlplane.model import Action, ActionState, QueryView, RunEnd, RunFacts
from listeners.protocol.wire import CommandResult
from tests.unit.controlplane.actions.views import AGENT, NOW, requested, run, sample, status, view

BEFORE = (sample(6), sample(7))


def started() -> Action:
    result = CommandResult("succeeded", evidence={"run_id": "new", "previous_run_id": "old"})
    return transitions.apply_result(transitions.deliver(requested(), view(), NOW), result, view(), NOW)


def after(**changes: Any) -> QueryView:
    return view(**{"run": run("new", started_at=NOW), "progress": BEFORE, **changes})


def state_of(seen: QueryView, action: Action | None = None) -> tuple[ActionState, str] | None:
    outcome = verify(action or started(), seen, NOW + 5)
    return (outcome.state, outcome.reason) if outcome else None


def test_a_newer_batch_of_the_new_run_is_the_proof() -> None:
    seen = after(progress=(*BEFORE, sample(8, "new"), sample(9, "new")))
    assert state_of(seen) == (ActionState.SUCCEEDED, "resumed at batch 8")


def test_the_first_batch_ever_is_a_proof_too() -> None:
    action = replace(started(), previous_batch_id=None)
    assert state_of(after(progress=(sample(0, "new"),)), action) == (
        ActionState.SUCCEEDED,
        "resumed at batch 0",
    )


def test_a_continuous_query_is_proven_by_an_epoch_that_is_newer_than_the_last() -> None:
    action = replace(started(), evidence={**started().evidence, "committed_batch": 40})
    seen = after(status=status(message="Committing epoch 41"))
    assert state_of(seen, action) == (ActionState.SUCCEEDED, "resumed; epoch 41 is committed")
    assert state_of(after(status=status(message="Committing epoch 40")), action) is None
    assert state_of(after(status=status("old", message="Committing epoch 41")), action) is None


def test_without_a_sign_we_wait() -> None:
    assert state_of(after()) is None


def test_batches_that_the_old_run_committed_while_we_asked_count_as_earlier() -> None:
    seen = after(progress=(*BEFORE, sample(8), sample(9), sample(10, "new")))
    assert state_of(seen) == (ActionState.SUCCEEDED, "resumed at batch 10")


def test_a_repeat_of_the_last_batch_is_a_replay_and_a_success() -> None:
    seen = after(progress=(*BEFORE, sample(7, "new")))
    assert state_of(seen) == (ActionState.SUCCEEDED, "resumed (replayed batch 7)")


def test_what_a_third_run_reported_since_does_not_make_the_new_one_s_batch_old() -> None:
    seen = after(progress=(*BEFORE, sample(8, "new"), sample(9, "third")), run=run("third"))
    assert state_of(seen) == (ActionState.SUCCEEDED, "resumed at batch 8")


def test_the_batch_to_which_the_checkpoint_was_rewound_before_the_start_is_a_success() -> None:
    action = replace(started(), evidence={**started().evidence, "checkpoint": {"next_batch": 3}})
    outcome = verify(action, after(progress=(*BEFORE, sample(3, "new"))), NOW)
    assert outcome is not None
    assert outcome.state is ActionState.SUCCEEDED
    assert outcome.reason == "resumed at batch 3, to which its checkpoint was rewound from batch 7"


@pytest.mark.parametrize("batch", [0, 6])
def test_an_old_batch_id_is_a_rewind(batch: int) -> None:
    outcome = verify(started(), after(progress=(*BEFORE, sample(batch, "new"))), NOW)
    assert outcome is not None
    assert (outcome.state, outcome.evidence["code"]) == (ActionState.FAILED, "rewound")
    assert (outcome.evidence["batch_id"], outcome.evidence["previous_batch_id"]) == (batch, 7)


def test_an_idle_event_proves_a_quiet_night() -> None:
    outcome = verify(started(), after(idle_at=NOW + 1), NOW + 2)
    assert outcome is not None
    assert (outcome.state, outcome.evidence["verified_by"]) == (ActionState.SUCCEEDED, "resumed_idle")
    assert outcome.reason == "resumed after batch 7; its first trigger found no new data"


def test_waiting_for_data_proves_it_too() -> None:
    seen = state_of(after(status=status()))
    assert seen is not None
    assert seen[0] == ActionState.SUCCEEDED


@pytest.mark.parametrize(
    "poll",
    [
        status(message="Initializing sources"),
        status(trigger_active=True),
        status(run_id="old"),
        status(message="Processing new data", data_available=True),
    ],
)
def test_other_text_of_spark_prove_nothing(poll: Any) -> None:
    assert state_of(after(status=poll)) is None


def test_an_idle_event_of_the_old_run_proves_nothing() -> None:
    assert state_of(after(run=run("old"), idle_at=NOW)) is None


def test_progress_of_old_spark_that_repeats_the_batch_without_running_it_is_idleness() -> None:
    idle = sample(7, "new", phases_ms={"latestOffset": 3, "triggerExecution": 4}, input_rows=0)
    seen = state_of(after(progress=(*BEFORE, idle)))
    assert seen == (ActionState.SUCCEEDED, "resumed after batch 7; its first trigger found no new data")


def test_a_new_run_that_fails_is_a_failure_with_its_cause() -> None:
    failed = run("new", end=RunEnd.FAILED, ended_at=NOW, failure_text="java.io.IOException: disk on fire")
    outcome = verify(started(), after(run=failed), NOW)
    assert outcome is not None
    assert outcome.state == ActionState.FAILED
    assert "failed" in outcome.reason
    assert outcome.evidence["failure"]["text"] or outcome.evidence["failure"]["message"]


def test_available_now_that_finished_is_a_success() -> None:
    seen = state_of(after(run=run("new", end=RunEnd.FINISHED, ended_at=NOW)))
    assert seen is not None
    assert seen[0] == ActionState.SUCCEEDED


def test_a_stop_of_the_new_run_leaves_the_action_unverified() -> None:
    seen = state_of(after(run=run("new", end=RunEnd.STOPPED, ended_at=NOW)))
    assert seen is not None
    assert seen[0] == ActionState.UNVERIFIED


def test_a_short_run_that_ended_before_its_trigger_was_reported_is_waited_for() -> None:
    ended = after(run=run("new", end=RunEnd.STOPPED, ended_at=NOW), facts=RunFacts())
    assert verify(started(), ended, NOW + 5) is None
    outcome = verify(started(), ended, NOW + FACTS_DELAY_SECONDS)
    assert outcome is not None
    assert outcome.state == ActionState.UNVERIFIED


def test_a_stop_that_was_never_answered_is_proven_by_the_end_of_the_run() -> None:
    action = transitions.deliver(requested("stop"), view(), NOW)
    ended = view(run=run(ended_at=NOW, end=RunEnd.STOPPED))
    assert verify(action, ended, NOW + RESULT_GRACE_SECONDS / 2) is None
    outcome = verify(action, ended, NOW + RESULT_GRACE_SECONDS)
    assert outcome is not None
    assert (outcome.state, outcome.evidence["verified_by"]) == (ActionState.SUCCEEDED, "terminated")


@pytest.mark.parametrize("action", [requested(), transitions.deliver(requested(), view(), NOW), started()])
def test_a_driver_that_ends_in_between_ends_the_action(action: Action) -> None:
    seen = after(agent=replace(AGENT, ended_at=NOW + 1, end_reason="exit"))
    outcome = verify(action, seen, NOW + 2)
    assert outcome is not None
    assert (outcome.state, outcome.evidence["code"]) == (ActionState.FAILED, "driver_gone")


def test_a_final_action_does_not_change() -> None:
    done = replace(started(), state=ActionState.SUCCEEDED)
    assert verify(done, after(progress=(sample(0, "new"),)), NOW) is None
