"""Facts that a notification states about an alert's query."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest

from alerts.state import Alert
from controlplane.alerting.alert_facts import AlertFacts, last_action, probable_cause
from controlplane.health.verdicts import VerdictLog
from controlplane.model import ActionState, QueryView, RunEnd
from controlplane.store import actions as rows
from tests.unit.alerts.examples import alert
from tests.unit.controlplane.alerting.conftest import AlertingServices
from tests.unit.controlplane.situations import NOW, action, ended, view

FAILED = view(run=ended(RunEnd.FAILED, failure_text="java.lang.OutOfMemoryError: Java heap space"))
ABOUT: Alert = alert("QueryFailed", query_id="q1", app="shop")


class Known:
    """The queries in memory."""

    def __init__(self, *views: QueryView):
        self._views = {item.query_id: item for item in views}

    def view(self, query_id: str) -> QueryView | None:
        return self._views.get(query_id)


def test_verdict_cause_and_last_action_are_stated(services: AlertingServices) -> None:
    done = action(state=ActionState.FAILED, reason="the driver did not answer")
    services.harness.writer.write(lambda conn: rows.insert(conn, done))
    found = AlertFacts(Known(FAILED), VerdictLog(), services._reading, lambda: NOW)(ABOUT)
    assert list(found) == ["Verdict", "Probable cause", "Last action"]
    assert found["Verdict"]
    assert "Java heap space" in found["Probable cause"]
    assert found["Last action"].startswith("restart by ada at ")
    assert found["Last action"].endswith("failed: the driver did not answer")


def test_an_alert_about_no_query_has_none() -> None:
    facts = AlertFacts(Known(FAILED), VerdictLog(), nullcontext, lambda: NOW)  # type: ignore[arg-type]
    assert facts(alert("AgentLost", app="shop")) == {}
    assert facts(alert("QueryFailed", query_id="other")) == {}


def test_facts_that_cannot_be_read_do_not_stop_the_notification(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> AbstractContextManager[Any]:
        raise OSError("the disk is away")

    assert AlertFacts(Known(FAILED), VerdictLog(), broken, lambda: NOW)(ABOUT) == {}
    assert "sent without them" in caplog.text


def test_a_query_that_did_not_fail_has_no_cause() -> None:
    assert probable_cause(view()) == ""


def test_an_old_action_explains_nothing() -> None:
    assert last_action(None, NOW) == ""
    assert last_action(action(requested_at=NOW - 90_000), NOW) == ""
