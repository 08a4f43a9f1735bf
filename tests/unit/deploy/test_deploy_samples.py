"""The samples in deploy/ and compose.yaml are what the guide states of them."""

from __future__ import annotations

import json
import re
from importlib.util import find_spec
from typing import Any

import pytest
import yaml

from alerts.notify.config import load
from alerts.routing import matching_routes
from alerts.rules.loader import load as load_rules
from alerts.rules.pack import render_routing
from tests.paths import ROOT

DEPLOY = ROOT / "deploy"
SERVICES: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]


def test_the_sample_of_who_is_reported_is_right_and_keeps_the_inhibitions_that_ship() -> None:
    sample, mistakes = load((DEPLOY / "notify.yaml").read_text())
    shipped, _ = load(render_routing())
    assert mistakes == ()
    assert sample is not None and shipped is not None
    assert sample.inhibit_rules == shipped.inhibit_rules


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_of_compose_is_locked_down(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "/tmp" in [*service.get("tmpfs", ()), *service["volumes"]]
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))


def test_the_dashboard_of_compose_changes_nothing_by_default() -> None:
    assert SERVICES["ui"]["environment"] == {"CONTROLPLANE_TOKEN_FILE": "/data/viewer.token"}
    assert "--role viewer" in SERVICES["viewer-token"]["command"][0]


def test_the_image_checks_its_health_with_a_module_that_the_wheel_installs() -> None:
    found = re.search(r"HEALTHCHECK .*\n\s+CMD (\[.*\])", (ROOT / "Dockerfile").read_text())
    assert found is not None
    python, option, module = json.loads(found[1])
    assert (python, option) == ("python", "-m")
    assert module.startswith("spark_controlplane_server.")  # the wheel's name of `controlplane`
    assert find_spec(module.replace("spark_controlplane_server", "controlplane")) is not None


def test_the_dead_mans_switch_is_an_alert_that_always_fires_and_reaches_its_receiver_only() -> None:
    groups, mistakes = load_rules((DEPLOY / "watchdog" / "rules.yaml").read_text())
    config, errors = load((DEPLOY / "watchdog" / "notify.yaml").read_text())
    assert (mistakes, errors) == ((), ())
    (rule,) = groups[0].rules
    assert (rule.expr, rule.for_) == ("vector(1)", 0.0)
    assert config is not None
    labels = {"alertname": rule.name, **rule.labels}
    (route,) = matching_routes(config.route, labels)
    assert route.receiver == "dead-mans-switch"
    # Equal times would notify in every second interval only.
    assert route.timing.repeat_interval < route.timing.group_interval
