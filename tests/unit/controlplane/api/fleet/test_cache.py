"""The rows of the fleet: the sentence names the alerts that fire."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from controlplane.alerting.views import FiringAlert
from controlplane.api.bodies import QueryBody
from controlplane.api.fleet.cache import FleetCache, firing_sentence
from controlplane.health.verdicts import VerdictLog
from controlplane.model import RunEnd
from tests.unit.controlplane.situations import NOW, agent, ended, view

OVERRUN, LOST = FiringAlert("Overrun", "warning"), FiringAlert("AgentLost", "critical")


def row(firing: dict[str, tuple[FiringAlert, ...]], **more: Any) -> QueryBody:
    plane: Any = SimpleNamespace(
        verdicts=VerdictLog(),
        alerts=SimpleNamespace(firing=lambda now: firing),
        starts_of=lambda query_id: 1,
    )
    return FleetCache(plane).row(view(**more), NOW)


def test_alert_on_a_driver_is_shown_by_the_queries_that_are_down() -> None:
    driver = FiringAlert("DriverFailed", "critical", of_driver=True)
    healthy = row({"shop": (driver, OVERRUN)})
    assert healthy.firing == ["Overrun"] and healthy.alert_severity == "warning"
    down = row({"shop": (driver,)}, agent=agent(ended_at=NOW - 20, end_reason="exception"))
    assert down.firing == ["DriverFailed"]


def test_alert_on_an_app_is_not_shown_by_a_query_that_has_stopped() -> None:
    stopped = row({"shop": (OVERRUN,)}, run=ended(RunEnd.STOPPED))
    assert (stopped.status, stopped.firing) == ("stopped", [])


def test_a_firing_alert_is_part_of_the_sentence_and_not_of_the_status() -> None:
    quiet, fires = row({}), row({"q1": (OVERRUN,), "shop": (LOST,), "other": (OVERRUN,)})
    assert (quiet.firing, quiet.alerts) == ([], 0)
    assert fires.reason == f"{quiet.reason} Alerts AgentLost and Overrun are firing."
    assert fires.reason.startswith("Keeping up")
    assert (fires.status, fires.alerts, fires.alert_severity) == ("running", 2, "critical")
    assert fires.firing == ["AgentLost", "Overrun"]


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (["A"], "Alert A is firing."),
        (["A", "B"], "Alerts A and B are firing."),
        (["A", "B", "C"], "Alerts A, B and C are firing."),
        (["A", "B", "C", "D", "E"], "Alerts A, B, C and 2 more are firing."),
    ],
)
def test_alerts_of_a_sentence(names: list[str], sentence: str) -> None:
    assert firing_sentence(names) == sentence
