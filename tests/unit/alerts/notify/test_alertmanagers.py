"""Prometheus' section `alerting`: what loads, what is refused, the alerts that are posted, the silences that are read."""

from __future__ import annotations

from typing import Any

import pytest

from alerts.notify import alertmanagers, catalogue
from alerts.notify.config import NOBODY, load
from tests.unit.alerts.examples import alert, resolved
from tests.unit.alerts.notify.receivers.fakes import PlainFiles

SECTION = """
global: {external_labels: {site: fra}}
alerting:
  alertmanagers:
    - static_configs: [{targets: ['am1:9093', 'am2:9093']}]
    - scheme: https
      path_prefix: /team/am/
      timeout: 3s
      basic_auth: {username: u, password: p}
      static_configs: [{targets: ['am3', 'am1:9093']}]
"""


def endpoints(text: str) -> tuple[alertmanagers.AlertmanagerEndpoint, ...]:
    config, mistakes = load(text)
    assert config is not None, mistakes
    settings = [catalogue.resolved(item, PlainFiles()) for item in config.alertmanagers]
    return alertmanagers.endpoints(settings, PlainFiles().read)


def test_each_target_is_an_endpoint_with_the_settings_of_its_element() -> None:
    first, second, third, fourth = endpoints(SECTION)
    assert (first.url, second.url) == ("http://am1:9093", "http://am2:9093")
    assert (third.url, third.name) == ("https://am3/team/am", "https://am3/team/am")
    assert fourth.url == "https://am1:9093/team/am"
    assert (first.client.timeout, third.client.timeout) == (10.0, 3.0)
    assert third.client.headers["Authorization"].startswith("Basic ")


def test_a_configuration_may_have_alertmanagers_and_no_routes() -> None:
    config, _ = load(SECTION)
    assert config is not None
    assert (config.route.receiver, list(config.receivers)) == (NOBODY, [NOBODY])
    assert config.external_labels == {"site": "fra"}


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        ("alertmanagers: [{scheme: ftp}]", "3:28: scheme: must be http or https"),
        ("alertmanagers: [{api_version: v1}]", "3:33: api_version: only v2 is supported"),
        ("alertmanagers: [{timeout: 1s}]", "3:19: alertmanagers: static_configs with targets is needed"),
        (
            "alertmanagers: [{static_configs: [{targets: ['a:x']}]}]",
            "alertmanagers: target 'a:x': invalid URL",
        ),
        ("alertmanagers: [{static_configs: [{targets: ['a/b']}]}]", "target 'a/b': must be HOST:PORT"),
        ("alertmanagers: [{kubernetes_sd_configs: []}]", "has no field 'kubernetes_sd_configs'"),
        ("alert_relabel_configs: []", "alerting has no field 'alert_relabel_configs'"),
        ("alertmanagers: [{bearer_token: a, basic_auth: {username: b}}]", "at most one of basic_auth"),
    ],
)
def test_what_is_wrong_or_not_supported_is_an_error_with_its_place(section: str, expected: str) -> None:
    config, mistakes = load(f"\nalerting:\n  {section}\n")
    assert config is None
    assert any(expected in f"{m.line}:{m.column}: {m.message}" for m in mistakes), mistakes


def test_an_alert_is_posted_as_prometheus_posts_it() -> None:
    item = alert("Lag", at=1000.0, app="shop")
    body = alertmanagers.postable(item, {"site": "fra", "app": "other"}, "http://page", 15.0, 1030.5)
    assert body == {
        "labels": {"alertname": "Lag", "app": "shop", "site": "fra"},
        "annotations": dict(item.annotations),
        "startsAt": "1970-01-01T00:16:40.000Z",
        "endsAt": "1970-01-01T00:21:10.500Z",  # four resend intervals ahead
        "generatorURL": "http://page",
    }
    assert alertmanagers.postable(item, {}, "", 300.0, 1000.0)["endsAt"] == "1970-01-01T00:36:40.000Z"
    assert (
        alertmanagers.postable(resolved(item, 1010.0), {}, "", 15.0, 1030.0)["endsAt"]
        == "1970-01-01T00:16:50.000Z"
    )


GETTABLE: dict[str, Any] = {
    "id": "6c1ac4a5-6f5a-4d8d-8ac7-0d7b3bdf0001",
    "status": {"state": "active"},
    "matchers": [{"name": "app", "value": "a|b", "isRegex": True, "isEqual": False}],
    "startsAt": "2026-11-22T10:00:00.000Z",
    "endsAt": "2026-11-22T12:00:00.123456789Z",
    "updatedAt": "2026-11-22T10:00:00.000Z",
    "createdBy": "ada",
    "comment": "planned",
}


def test_a_silence_is_read() -> None:
    found = alertmanagers.silence_of(GETTABLE)
    assert found is not None
    assert [(m.name, m.operator, m.value) for m in found.matchers] == [("app", "!~", "a|b")]
    assert found.ends_at - found.starts_at == pytest.approx(7200.123456)


@pytest.mark.parametrize(
    "changes",
    [{"status": {"state": "expired"}}, {"matchers": [{}]}, {"endsAt": "soon"}, {"id": None, "status": None}],
)
def test_a_silence_that_is_over_or_damaged_is_left_out(changes: dict[str, Any]) -> None:
    assert alertmanagers.silence_of({**GETTABLE, **changes}) is None
