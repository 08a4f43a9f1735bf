"""Alertmanager's configuration file: what it means, and every mistake with its line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from alerts.matching.labels import Matcher
from alerts.notify import config
from alerts.rules.pack import render_routing
from tests.paths import DATA

DATA = DATA / "routing"

GOOD = """
global: {resolve_timeout: 5m}
route:
  receiver: hook
  group_by: [app, alertname]
  group_wait: 0s
  routes:
    - match: {team: data}
      match_re: {env: prod|stage}
    - matchers: '{severity="critical"}'
    - matchers: [ severity =~ "warning|info", team!=ops ]
receivers:
  - name: hook
    webhook_configs:
      - url: http://127.0.0.1:9/hook
        send_resolved: false
        max_alerts: 5
        timeout: 3s
        http_config: {authorization: {type: Bearer, credentials_file: /etc/token}}
      - url_file: /etc/url
  - name: nobody
inhibit_rules:
  - source_match: {severity: critical}
    target_matchers: [severity="warning"]
    equal: [app]
"""


def test_a_good_configuration_is_taken_whole() -> None:
    loaded, mistakes = config.load(GOOD)
    assert mistakes == ()
    assert loaded is not None
    assert loaded.original == GOOD
    assert loaded.route.timing.group_wait == 0.0
    assert loaded.route.routes[0].matchers == (
        Matcher("team", "=", "data"),
        Matcher("env", "=~", "prod|stage"),
    )
    assert loaded.route.routes[1].matchers == (Matcher("severity", "=", "critical"),)
    assert loaded.route.routes[2].matchers == (
        Matcher("severity", "=~", "warning|info"),
        Matcher("team", "!=", "ops"),
    )
    first, second = (integration.settings for integration in loaded.receivers["hook"].integrations)
    assert (first["url"].text, first["send_resolved"], first["max_alerts"], first["timeout"]) == (
        "http://127.0.0.1:9/hook",
        False,
        5,
        3.0,
    )
    assert first["http_config"]["authorization"]["credentials"].file == "/etc/token"
    assert (second["url"].file, second["send_resolved"]) == ("/etc/url", True)
    assert sorted(loaded.files()) == ["/etc/token", "/etc/url"]
    assert loaded.inhibit_rules[0].equal == ("app",)
    assert config.unused_receivers(loaded) == ("nobody",)


def test_what_may_be_secret_is_not_shown() -> None:
    loaded, _ = config.load(GOOD)
    assert loaded is not None
    assert "127.0.0.1" not in repr(loaded.receivers)


@pytest.mark.parametrize("path", sorted(DATA.glob("*.bad.yaml")), ids=lambda path: path.name)
def test_every_mistake_of_a_bad_configuration_is_reported_with_its_line_and_column(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    loaded, mistakes = config.load(text)
    wanted = [
        (int(a), int(b), expected) for a, b, expected in re.findall(r"^#! (\d+):(\d+) (.*)$", text, re.M)
    ]
    reported = "\n".join(map(str, mistakes))
    assert loaded is None
    assert sorted((m.line, m.column) for m in mistakes) == sorted((a, b) for a, b, _ in wanted), reported
    for line, column, expected in wanted:
        assert any((m.line, m.column) == (line, column) and expected in m.message for m in mistakes), reported


def test_an_empty_configuration_is_an_error_that_names_what_it_needs() -> None:
    loaded, mistakes = config.load("# nothing\n")
    assert loaded is None
    assert "route" in mistakes[0].message


@pytest.mark.parametrize("webhook", [None, 'http://127.0.0.1:9/hook?x="y"'])
def test_the_shipped_configuration_is_sound(webhook: str | None) -> None:
    loaded, mistakes = config.load(render_routing(0.1, webhook))
    assert mistakes == ()
    assert loaded is not None
    urls = [integration.settings["url"].text for integration in loaded.receivers["default"].integrations]
    assert urls == ([webhook] if webhook else [])
    assert loaded.route.timing.group_wait == 3.0


def test_a_first_route_without_anything_in_it_has_no_receiver_either() -> None:
    found, mistakes = config.load("route: {}\nreceivers: [{name: hook}]\n")
    assert found is None
    assert [mistake.message for mistake in mistakes] == ["the root route needs a receiver"]
