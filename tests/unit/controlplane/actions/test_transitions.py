"""The life of an action, step by step; nothing here waits or writes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controlplane.actions import transitions
from controlplane.actions.guards import ActionRefusal
from controlplane.model import ActionState, Failure, RunFacts
from listeners.protocol.wire import CommandResult
from tests.unit.controlplane.actions.views import AGENT, NOW, requested, run, sample, view

STARTED = CommandResult("succeeded", "run 1234 has begun", "started", {"run_id": "new", "query_id": "q1"})


def test_an_action_remembers_the_last_batch_and_the_agent_that_ran_it() -> None:
    action = requested()
    assert (action.previous_run_id, action.previous_batch_id, action.agent) == ("old", 7, "a1")
    assert (action.state, action.deadline_at) == (ActionState.REQUESTED, NOW + 120)


def test_an_action_for_a_silent_agent_names_what_it_waits_for() -> None:
    action = requested(seen=view(agent=replace(AGENT, last_seen_at=NOW - 90)))
    assert action.reason == "waiting for the agent, last seen 90 s ago"
    assert transitions.deliver(action, view(), NOW).reason == ""


@pytest.mark.parametrize(
    ("interval", "duration", "expected"),
    [(10.0, 1.0, 120.0), (300.0, 1.0, 600.0), (10.0, 100.0, 300.0), (None, 5000.0, 3600.0)],
)
def test_a_stage_may_take_two_minutes_two_triggers_or_three_typical_batches(
    interval: float | None, duration: float, expected: float
) -> None:
    slow = view(
        facts=RunFacts(trigger_interval=interval),
        progress=tuple(sample(i, duration=duration) for i in range(5)),
    )
    assert transitions.stage_timeout(slow) == expected


def test_one_outlier_does_not_make_a_typical_batch() -> None:
    samples = [*(sample(i) for i in range(40)), sample(41, duration=3000.0)]
    assert transitions.stage_timeout(view(progress=tuple(samples))) == 120.0


@pytest.mark.parametrize(
    ("condition", "message", "root_cause", "sentence"),
    [
        ("A_B", "m.", None, "A_B: m. Do it."),
        ("A_B", "m", "org.x.Error: [A_B] bad row 7.", "A_B: bad row 7. Do it."),
        ("A_B", "A_B", None, "A_B. Do it."),
        ("A_B", "m", "[A_B]", "A_B. Do it."),
        (None, "m..", None, "m. Do it."),
        (None, "m", "java.net.ConnectException: refused", "java.net.ConnectException: refused. Do it."),
    ],
)
def test_a_one_line_failure_is_not_repeated(
    condition: str | None, message: str, root_cause: str | None, sentence: str
) -> None:
    assert (
        transitions.failure_sentence(Failure(condition, message, root_cause, "never", "Do it.")) == sentence
    )


def test_delivering_twice_keeps_the_first_deadline() -> None:
    once = transitions.deliver(requested(), view(), NOW + 1)
    assert (once.state, once.delivered_at, once.deadline_at) == (ActionState.DELIVERED, NOW + 1, NOW + 151)
    assert transitions.deliver(once, view(), NOW + 50) == once


def test_a_start_is_not_done_when_the_agent_reports_it() -> None:
    action = transitions.apply_result(transitions.deliver(requested(), view(), NOW), STARTED, view(), NOW + 5)
    assert action.state == ActionState.RUNNING
    assert transitions.is_started(action)
    assert (action.evidence["run_id"], action.deadline_at) == ("new", NOW + 125)


def test_a_stop_is_done_when_the_agent_reports_it() -> None:
    result = CommandResult("succeeded", "stopped between two batches", "stopped", {"batch_cut": False})
    action = transitions.apply_result(requested("stop"), result, view(), NOW + 5)
    assert (action.state, action.finished_at) == (ActionState.SUCCEEDED, NOW + 5)
    assert action.evidence["batch_cut"] is False


def test_the_same_answer_twice_changes_nothing() -> None:
    once = transitions.apply_result(requested(), STARTED, view(), NOW + 5)
    assert transitions.apply_result(once, STARTED, view(), NOW + 9) == once
    ended = transitions.apply_result(requested("stop"), CommandResult("succeeded"), view(), NOW)
    assert transitions.apply_result(ended, CommandResult("failed", "late"), view(), NOW + 9) == ended


def test_a_refusal_of_the_driver_keeps_its_code_and_sentence() -> None:
    result = CommandResult("refused", "register a factory for it", "needs_factory")
    action = transitions.apply_result(requested(), result, view(), NOW)
    assert (action.state, action.reason) == (ActionState.REFUSED, "register a factory for it")
    assert action.evidence["code"] == "needs_factory"


def test_an_exception_of_start_is_explained() -> None:
    text = "org.apache.spark.SparkException: [CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log."
    evidence = {"exception": text, "errorClass": "CONCURRENT_STREAM_LOG_UPDATE"}
    result = CommandResult("failed", "Spark refused to start the query", "start_failed", evidence)
    action = transitions.apply_result(requested(), result, view(), NOW)
    assert action.state == ActionState.FAILED
    assert action.reason.startswith("Spark refused to start the query")
    assert set(action.evidence["failure"]) >= {"condition", "root_cause", "advice", "retry"}


def test_a_failure_without_text_has_a_message() -> None:
    action = transitions.apply_result(requested(), CommandResult("failed"), view(), NOW)
    assert action.reason


@pytest.mark.parametrize("early", [0.0, 119.0])
def test_nothing_is_overdue_before_its_deadline(early: float) -> None:
    assert transitions.overdue_outcome(requested(), NOW + early) is None


def test_what_no_agent_fetched_expires() -> None:
    outcome = transitions.overdue_outcome(requested(), NOW + 120)
    assert outcome is not None
    assert outcome.state == ActionState.EXPIRED
    assert "120 s" in outcome.reason


def test_what_the_agent_took_and_never_answered_is_unverified() -> None:
    action = transitions.deliver(requested(), view(), NOW)
    outcome = transitions.overdue_outcome(action, action.deadline_at)
    assert outcome is not None
    assert outcome.state == ActionState.UNVERIFIED


def test_a_start_without_proof_is_unverified_not_failed() -> None:
    action = transitions.apply_result(requested(), STARTED, view(), NOW)
    outcome = transitions.overdue_outcome(action, action.deadline_at)
    assert outcome is not None
    assert outcome.state == ActionState.UNVERIFIED
    assert "neither committed a batch" in outcome.reason


def test_a_refused_action_ends_at_once() -> None:
    action = transitions.refuse(requested(), ActionRefusal("retired", "it was retired"), NOW)
    assert (action.state, action.evidence["code"], action.finished_at) == (
        ActionState.REFUSED,
        "retired",
        NOW,
    )


def test_the_command_carries_what_was_asked() -> None:
    command = transitions.command_of(requested("stop"), view())
    assert (command.id, command.action, command.query_id, command.timeout_seconds) == (
        "id-1",
        "stop",
        "q1",
        120.0,
    )


def test_an_unknown_last_batch_is_none_not_zero() -> None:
    action = requested(seen=view(progress=(), run=run()))
    assert action.previous_batch_id is None
