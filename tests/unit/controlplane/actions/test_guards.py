"""What may not be done, and why; one row a case."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from controlplane.actions.guards import check
from controlplane.driver_model import Outage
from controlplane.model import RunEnd
from controlplane.supervision_model import CheckpointWriter
from tests.unit.controlplane.actions.views import AGENT, NOW, requested, run, view

ENDED = {"run": run(ended_at=NOW - 60, end=RunEnd.STOPPED)}


@pytest.mark.parametrize(
    ("action", "changes", "code"),
    [
        ("stop", {}, None),
        ("restart", {}, None),
        ("start", {}, "already_running"),
        ("start", ENDED, None),
        ("restart", ENDED, None),
        ("stop", ENDED, "not_running"),
        ("stop", {"run": None}, "not_running"),
        ("start", {"run": None}, None),
        ("stop", {"retired_at": NOW}, "retired"),
        ("stop", {"agent": None}, "no_driver"),
        ("stop", {"agent": replace(AGENT, ended_at=NOW, end_reason="exit")}, "no_driver"),
        ("stop", {"agent": replace(AGENT, actions="none")}, "forbidden_by_driver"),
        ("stop", {"agent": replace(AGENT, actions="stop")}, None),
        ("restart", {"agent": replace(AGENT, actions="stop")}, "forbidden_by_driver"),
        ("stop", {"agent": replace(AGENT, actions="of a newer agent")}, "forbidden_by_driver"),
    ],
)
def test_a_guard_answers_with_one_code(action: str, changes: dict[str, Any], code: str | None) -> None:
    refusal = check(view(**changes), action, None)
    assert (refusal.code if refusal else None) == code
    assert refusal is None or refusal.reason


@pytest.mark.parametrize(
    ("cause", "advice"),
    [
        ("jvm_exited", "End that process and start the application"),
        ("server_away", "Start it again or restore the network"),
        ("no_answer", "Check the load and the memory of its host"),
    ],
)
@pytest.mark.parametrize("action", ["stop", "start", "restart"])
def test_no_action_reaches_a_spark_that_does_not_answer(action: str, cause: str, advice: str) -> None:
    refusal = check(view(), action, None, outage=Outage(cause, NOW - 30))
    assert refusal is not None
    assert refusal.code == "driver_unreachable"
    assert advice in refusal.reason


def test_a_query_that_vanished_from_a_living_driver_may_be_started_and_not_stopped() -> None:
    assert check(view(), "start", None, vanished=True) is None
    assert check(view(), "restart", None, vanished=True) is None
    refusal = check(view(), "stop", None, vanished=True)
    assert refusal is not None
    assert refusal.code == "not_running"


def test_a_query_id_of_two_live_drivers_is_refused_and_both_apps_are_named() -> None:
    other = CheckpointWriter("q", "r2", NOW, "s3a://b/ck", "b2", "staging", NOW)
    refusal = check(view(), "stop", None, [other])
    assert refusal is not None
    assert refusal.code == "two_drivers"
    assert "orders" in refusal.reason
    assert "staging" in refusal.reason


def test_a_query_whose_driver_has_another_app_is_refused() -> None:
    refusal = check(view(app="staging"), "stop", None)
    assert refusal is not None
    assert refusal.code == "two_drivers"
    assert "orders" in refusal.reason
    assert "staging" in refusal.reason


def test_one_action_at_a_time_and_the_refusal_names_the_other() -> None:
    refusal = check(view(), "stop", requested("restart"))
    assert refusal is not None
    assert refusal.code == "action_in_progress"
    assert "ada's restart" in refusal.reason


def test_no_start_claims_that_a_lost_query_runs() -> None:
    refusal = check(view(), "start", None, lost=True)
    assert refusal is not None and refusal.code == "driver_lost"
    assert "running" not in refusal.reason
    assert check(view(), "stop", None, lost=True) is None
