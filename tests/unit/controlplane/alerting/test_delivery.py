"""When notifications reach nobody, and which receiver is the reason."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from alerts.notify.receivers.base import Receiver
from alerts.notify.receivers.recorder import Recorder
from controlplane.alerting import delivery
from controlplane.alerting.delivery import DeliveryFailure
from controlplane.alerting.rulebook import Rulebook
from tests.unit.controlplane.alerting.parts import book

BOTH_ROUTED = """
route: {receiver: team, routes: [{matchers: ['severity="critical"'], receiver: pager}]}
receivers: [{name: team}, {name: pager}, {name: spare}]
"""
HOOK = Recorder("pager/webhook[0]")


def routed(**receivers: tuple[Receiver, ...]) -> Rulebook:
    return book(routes=BOTH_ROUTED, receivers=receivers)


def test_without_any_webhook_nobody_is_notified_and_the_options_are_named() -> None:
    found = delivery.problem(routed(), {})
    assert found is not None
    assert found.summary == "Nobody is notified of alerts: the receivers pager, team have no integration"
    assert "--webhook URL" in found.remedy and "--notify FILE" in found.remedy


def test_a_webhook_that_no_route_leads_to_changes_nothing() -> None:
    assert delivery.problem(routed(spare=(HOOK,)), {}) is not None


def test_with_a_configuration_file_the_file_is_named() -> None:
    found = delivery.problem(replace(routed(), notify=Path("/etc/notify.yaml")), {})
    assert found is not None
    added = "Add an integration, for example webhook_configs or slack_configs, to a receiver"
    assert found.remedy.startswith(f"{added} in /etc/notify.yaml.")


def test_one_receiver_without_webhooks_discards_on_purpose() -> None:
    assert delivery.problem(routed(pager=(HOOK,)), {}) is None


@pytest.mark.parametrize(("failing", "ending"), [(1, "refused"), (2, "refused (1 more receivers fail)")])
def test_the_oldest_failure_is_the_problem(failing: int, ending: str) -> None:
    hooks = (HOOK, Recorder("pager/webhook[1]"))
    failures = {hook.name: DeliveryFailure(100.0 + n, "refused") for n, hook in enumerate(hooks[:failing])}
    found = delivery.problem(routed(pager=hooks), failures)
    assert found is not None
    assert found.summary == f"The last delivery to pager/webhook[0] failed: {ending}"


def test_receivers_are_listed_with_routes_webhooks_and_failures() -> None:
    failure = DeliveryFailure(100.0, "refused")
    team, pager, spare = delivery.receivers(routed(pager=(HOOK,), spare=(HOOK,)), {HOOK.name: failure})
    assert (team.routed, team.integrations) == (True, ())
    assert (pager.routed, pager.integrations[0].failure) == (True, failure)
    assert not spare.routed
