"""Steps of a bulk action: how many at once, when it halts, whom it leaves out, and that it always ends."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.bulk_model import BulkAction, BulkState
from controlplane.model import Action, ActionState, Agent, QueryStatus, QueryView, RunFacts
from controlplane.supervision import bulk_steps
from controlplane.supervision_model import Desired, DesiredState, Supervised
from tests.unit.controlplane.actions.views import NOW, requested, run, view

IDS = tuple(f"q{number}" for number in range(6))
ENDS = [state for state in ActionState if state.final]
BULK = BulkAction("b1", "restart", IDS, "ada", "ui", "deploy", NOW, max_parallel=2)


def action(query_id: str, state: ActionState) -> Action:
    return replace(
        requested(), id=f"a-{query_id}", query_id=query_id, name=query_id, state=state, reason="why"
    )


@given(st.data(), st.integers(1, 4), st.booleans(), st.sets(st.sampled_from(IDS)))
def test_no_more_run_at_once_than_wanted_and_none_begins_after_a_failure(
    data: st.DataObject, parallel: int, halts: bool, skipped: set[str]
) -> None:
    bulk = replace(BULK, max_parallel=parallel, halt_on_failure=halts)
    actions: dict[str, Action] = {}
    for _ in range(100):
        failed = any(a.state.final and a.state is not ActionState.SUCCEEDED for a in actions.values())
        found = bulk_steps.step(bulk, actions, dict.fromkeys(skipped, "gone"), NOW)
        assert not (found.requested and failed and halts) and not skipped & {*found.requested}
        if found.bulk.state is not BulkState.RUNNING:
            break
        actions |= {id: action(id, ActionState.REQUESTED) for id in found.requested}
        running = [id for id, a in actions.items() if not a.state.final]
        assert len(running) <= parallel and running
        ended = data.draw(st.sampled_from(running))
        actions[ended] = action(ended, data.draw(st.sampled_from(ENDS)))
    else:
        raise AssertionError("it does not end")
    asked_all = {*actions} | skipped == {*IDS}
    expected = {
        BulkState.SUCCEEDED: asked_all and not failed,
        BulkState.FAILED: asked_all and failed,
        BulkState.HALTED: failed and halts and not asked_all,
    }
    assert expected[found.bulk.state], found.bulk


def test_the_end_names_the_first_failure_and_how_many_are_left() -> None:
    halted = bulk_steps.step(BULK, {"q0": action("q0", ActionState.FAILED)}, {"q5": "gone"}, NOW + 5).bulk
    assert (halted.state, halted.ended_at) == (BulkState.HALTED, NOW + 5)
    assert halted.why == "restart of orders/q0 failed: why; 4 queries were not acted on"


def test_what_a_person_wants_since_is_left_alone() -> None:
    def seen(state: DesiredState, at: float) -> str | None:
        desired = Supervised(Desired("q1", state, "bob", at))
        return bulk_steps.skip_reason(BULK, view(supervised=desired))

    assert seen(DesiredState.STOPPED, NOW + 1) == "bob set the desired state to stopped since"
    assert seen(DesiredState.SUSPENDED, NOW + 1) and not seen(DesiredState.RUNNING, NOW + 1)
    assert not seen(DesiredState.STOPPED, NOW - 1)
    assert bulk_steps.skip_reason(BULK, None) == "the query is no longer known"
    stop, desired = (
        replace(BULK, action="stop"),
        Supervised(Desired("q1", DesiredState.RUNNING, "bob", NOW + 1)),
    )
    assert bulk_steps.skip_reason(stop, view(supervised=desired))


STOPS_ONLY = Agent(key=1, agent="a1", app="orders", actions="stop", last_seen_at=NOW)


@pytest.mark.parametrize(
    ("wanted", "seen", "code"),
    [
        ("restart", view(), None),
        ("start", view(), "already_running"),
        ("stop", view(run=run(ended_at=NOW - 5)), "not_running"),
        ("restart", view(facts=RunFacts(restart="needs_factory")), "needs_factory"),
        ("stop", view(facts=RunFacts(restart="needs_factory")), None),
        ("restart", view(agent=STOPS_ONLY), "forbidden_by_driver"),
    ],
)
def test_a_plan_names_what_the_server_knows_against_the_action(
    wanted: str, seen: QueryView, code: str | None
) -> None:
    found = bulk_steps.refusal(seen, wanted, NOW)
    assert (found.code if found else None) == code


def test_a_driver_that_is_silent_cannot_act() -> None:
    found = bulk_steps.refusal(view(), "restart", NOW, QueryStatus.LOST)
    assert found is not None and found.code == "driver_silent"
