"""What a line on an alert states of who keeps it quiet, and whom a silence means."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.cli.alerts import about_of, note_of
from controlplane.cli.silences import named

QUIET: dict[str, Any] = {"silenced_by": [], "inhibited_by": [], "acknowledged": None}


@pytest.mark.parametrize(
    ("muted", "note"),
    [
        ({}, ""),
        ({"silenced_by": ["a", "b"]}, "silenced"),
        ({"inhibited_by": [{"fingerprint": "f", "name": "AgentLost"}]}, "inhibited by AgentLost"),
        ({"silenced_by": ["a"], "acknowledged": {"by": "ada"}}, "silenced, acknowledged by ada"),
    ],
)
def test_all_that_keeps_an_alert_quiet_is_named(muted: dict[str, Any], note: str) -> None:
    assert note_of({**QUIET, **muted}) == note


@pytest.mark.parametrize(
    ("app", "query", "about"),
    [("shop", "orders", "shop/orders"), ("shop", None, "shop"), (None, None, None)],
)
def test_an_alert_is_about_a_query_an_application_or_neither(
    app: str | None, query: str | None, about: str | None
) -> None:
    assert about_of({"app": app, "query": query}) == about


@pytest.mark.parametrize(
    ("text", "matcher"),
    [
        ("LagGrowing", 'alertname="LagGrowing"'),
        ("app=orders", "app=orders"),
        ('{app="x"}', '{app="x"}'),
        ("team!~a|b", "team!~a|b"),
    ],
)
def test_a_word_alone_is_the_name_of_an_alert(text: str, matcher: str) -> None:
    assert named(text) == matcher
