"""Checkpoint gate: starts are refused, released or held, and forced ones are recorded."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from controlplane.actions import checkpoint_gate, guards, transitions
from controlplane.checkpoints.inventory_requests import CLOCK_SLACK_SECONDS
from controlplane.model import ActionState, CheckpointSummary, QueryView, Run
from tests.unit.controlplane.actions.views import NOW, ask, requested, run, view

JUDGEMENT = {
    "findings": [
        {"check": "log.commit-ahead", "severity": "error", "message": "the commit log is ahead"},
        {"check": "log.tmp-leftover", "severity": "info", "message": "a file"},
    ]
}


def seen(taken_at: float = NOW - 5, verdict: str = "ok", **more: Any) -> CheckpointSummary:
    predicted = "the commit log is ahead (log.commit-ahead)" if verdict == "broken" else None
    reported = {
        "summary": "it will resume at batch 8",
        "checkpoint": "/c",
        "predicted_failure": predicted,
        "run_id": "old",
    }
    return CheckpointSummary(taken_at, verdict, **{**reported, **more})


RUNS = view()
STOPPED = view(run=run(started_at=NOW - 7200, ended_at=NOW - 3600))
JUST_STOPPED = view(run=run(started_at=NOW - 7200, ended_at=NOW - 10))
FRESH: list[tuple[str, QueryView, CheckpointSummary | None, bool]] = [
    ("nothing was seen", RUNS, None, False),
    ("just now, while it runs", RUNS, seen(NOW - 59), True),
    ("long ago, while it runs", RUNS, seen(NOW - 61), False),
    ("before this run began", RUNS, seen(NOW - 601), False),
    ("after its end, and long ago: it may be cut since", STOPPED, seen(NOW - 3000), False),
    ("after its end, just now", STOPPED, seen(NOW - 19), True),
    ("after its end, and a moment ago: somebody may work on it", STOPPED, seen(NOW - 21), False),
    ("before its end", STOPPED, seen(NOW - 3700), False),
    ("at its end, by a clock a little off", JUST_STOPPED, seen(NOW - 10.5, why="failed"), True),
    ("at the end of another run", JUST_STOPPED, seen(NOW - 10.5, why="failed", run_id="other"), False),
    ("broken after its end, and long ago: it may be mended", STOPPED, seen(NOW - 3000, "broken"), False),
    ("broken just now", STOPPED, seen(NOW - 10, "broken"), True),
]


@pytest.mark.parametrize(
    ("at", "checkpoint", "fresh"), [case[1:] for case in FRESH], ids=[c[0] for c in FRESH]
)
def test_an_inventory_counts_while_it_is_current(
    at: QueryView, checkpoint: CheckpointSummary | None, fresh: bool
) -> None:
    assert guards.is_fresh(checkpoint, at, NOW) is fresh
    looked = replace(at, checkpoint=checkpoint)
    at_rest = at.run is not None and at.run.ended_at is not None
    assert checkpoint_gate.needs_inventory(looked, ask("restart"), NOW) is (at_rest or not fresh)
    assert not checkpoint_gate.needs_inventory(looked, ask("stop"), NOW)
    assert not checkpoint_gate.needs_inventory(looked, ask("restart", force=True), NOW)


def test_of_a_query_at_rest_only_a_look_of_this_moment_counts_and_no_broken_one() -> None:
    at_once, since, broken = (
        replace(STOPPED, checkpoint=seen(NOW - age, verdict))
        for age, verdict in ((2, "ok"), (4, "ok"), (1, "broken"))
    )
    assert not checkpoint_gate.needs_inventory(at_once, ask("start"), NOW)
    assert checkpoint_gate.needs_inventory(since, ask("start"), NOW)
    assert checkpoint_gate.needs_inventory(broken, ask("start"), NOW), "it may have been mended"


def test_a_start_from_a_broken_checkpoint_is_refused_with_the_finding() -> None:
    refused = checkpoint_gate.decide(
        transitions.hold(requested(), NOW), seen(verdict="broken"), JUDGEMENT, NOW
    )
    assert (refused.state, refused.evidence["code"]) == (ActionState.REFUSED, "checkpoint_broken")
    assert "the commit log is ahead" in refused.reason
    assert [f["check"] for f in refused.evidence["findings"]] == ["log.commit-ahead"]
    assert transitions.WAITING_UNTIL not in refused.evidence


@pytest.mark.parametrize("verdict", ["ok", "risky", "unreadable"])
def test_any_other_verdict_lets_it_go_and_stays_in_the_evidence(verdict: str) -> None:
    action = checkpoint_gate.decide(transitions.hold(requested(), NOW), seen(verdict=verdict), None, NOW + 3)
    assert (action.state, action.reason) == (ActionState.REQUESTED, "")
    assert not transitions.is_held(action)
    assert action.evidence["checkpoint"]["verdict"] == verdict
    assert action.deadline_at == requested().deadline_at + 3, (
        "the wait does not come off the way to the agent"
    )


def test_without_an_inspector_a_start_proceeds_unless_it_was_broken_before() -> None:
    held = transitions.hold(requested(), NOW)
    free = checkpoint_gate.decide_without_inventory(
        held, view(checkpoint=seen()), None, "its agent is mute", NOW
    )
    assert (free.state, free.evidence["checkpoint"]) == (
        ActionState.REQUESTED,
        "not checked: its agent is mute",
    )
    broken = view(checkpoint=seen(verdict="broken"))
    still = checkpoint_gate.decide_without_inventory(held, broken, JUDGEMENT, "its agent is mute", NOW)
    assert still.state == ActionState.REFUSED


@pytest.mark.parametrize(
    ("later", "state"),
    [
        (run("new", started_at=NOW - 60, last_batch_id=8), ActionState.REQUESTED),
        (run("new", started_at=NOW - 60, last_batch_id=8, ended_at=NOW - 9), ActionState.REQUESTED),
        (run("new", started_at=NOW - 60), ActionState.REFUSED),
        (run(started_at=NOW - 300, last_batch_id=8), ActionState.REFUSED),
    ],
    ids=[
        "a later run works",
        "a later run has worked",
        "a later run has shown nothing",
        "an earlier run worked",
    ],
)
def test_what_was_found_broken_is_outrun_by_a_later_run_that_committed_a_batch(
    later: Run, state: ActionState
) -> None:
    outrun = view(run=later, checkpoint=seen(NOW - 200, "broken"))
    action = checkpoint_gate.decide_without_inventory(
        transitions.hold(requested(), NOW), outrun, JUDGEMENT, "its agent is mute", NOW
    )
    assert action.state == state


def test_force_goes_on_and_names_who() -> None:
    forced = checkpoint_gate.force(requested(), seen(verdict="broken"), JUDGEMENT, NOW)
    assert (forced.state, forced.evidence["forced_by"]) == (ActionState.REQUESTED, "ada")
    assert forced.evidence["checkpoint"]["verdict"] == "broken"
    unknown = checkpoint_gate.force(requested(), None, None, NOW)
    assert "not checked" in unknown.evidence["checkpoint"]


def test_a_held_start_waits_for_a_while_only() -> None:
    held = transitions.hold(requested(), NOW)
    assert transitions.is_held(held)
    assert not checkpoint_gate.is_wait_over(held, NOW + transitions.INVENTORY_WAIT_SECONDS - 0.1)
    assert checkpoint_gate.is_wait_over(held, NOW + transitions.INVENTORY_WAIT_SECONDS)
    assert transitions.INVENTORY_WAIT_SECONDS + CLOCK_SLACK_SECONDS < guards.FRESH_AFTER_END_SECONDS, (
        "what came in time counts"
    )
    assert not transitions.is_held(
        transitions.deliver(checkpoint_gate.decide_without_inventory(held, view(), None, "x", NOW), None, NOW)
    )
