"""The bundle of an incident: what it has of each query, and that every text in it is text."""

from __future__ import annotations

from typing import Any

from controlplane.api.alerting_bodies import AcknowledgedBody
from controlplane.api.bodies import FailureBody, QueryDetailBody, RunBody
from controlplane.api.incidents.bodies import (
    IncidentBody,
    IncidentDetailBody,
    IncidentEventBody,
    IncidentMemberBody,
)
from controlplane.api.incidents.bundle import BundledQuery, headers, render, utc
from controlplane.api.routes.changes import QueryChangeBody, WhatChangedBody

AT = "2026-11-23T01:00:00.000Z"
HOSTILE = "</style><script>alert(1)</script>{{ 7*7 }}"


def failure(message: str) -> FailureBody:
    return FailureBody(
        condition=None,
        message=message,
        root_cause=None,
        retry="x",
        advice="Fix it.",
        text=message,
        change=None,
    )


def run(run_id: str, message: str) -> RunBody:
    return RunBody(
        run_id=run_id, started_at=AT, ended_at=AT, end="failed", first_batch_id=0, last_batch_id=1, batches=2,
        agent="a", failure=failure(message),
    )  # fmt: skip


def member(run_id: str = "r1", **changes: Any) -> IncidentMemberBody:
    given = {"query_id": "q1", "app": HOSTILE, "name": HOSTILE, "run_id": run_id, "status": "failed"}
    times = {"began_at": AT, "since": AT, "until": None, "driver": "d"}
    return IncidentMemberBody(**{**given, **times, **changes})


def query() -> QueryDetailBody:
    runs = [run("r2", "the newest run"), run("r1", "the run of the incident")]
    return QueryDetailBody.model_construct(
        reason=HOSTILE, status="failed", since=AT, spark_version=None, desired="running", runs=runs,
        failure=failure("the newest run"),
    )  # fmt: skip


def page(*queries: BundledQuery, **changes: Any) -> str:
    incident = IncidentBody(
        id="i1", kind="sink", cause=HOSTILE, sentence=HOSTILE, began_at=AT, ended_at=None, down=1,
        members=[member()], trial=None, receivers=["pager"],
        acknowledged=AcknowledgedBody(by="ada", at=AT, comment=HOSTILE),
    )  # fmt: skip
    event = IncidentEventBody(at=AT, kind="status", query_id="q1", text=HOSTILE)
    detail = IncidentDetailBody(
        incident=incident, alerts=[], notifications=[], actions=[], decisions=[], timeline=[event]
    )
    return render(detail, list(queries), AT)


def test_every_text_is_text_and_the_file_needs_no_network() -> None:
    changes = WhatChangedBody(
        before=AT, searched_seconds=60, changes=[QueryChangeBody(at=AT, kind="start", sentence=HOSTILE)]
    )
    found = page(BundledQuery(member(), query(), changes, None))
    assert "<script" not in found and found.count("{{ 7*7 }}") >= 8
    assert found.count("</style>") == 1 and "http" not in found.replace("http-equiv", "")
    assert "pager" in found and "by ada, 2026-11-23 01:00:00" in found


def test_the_failure_is_that_of_the_run_which_the_incident_ended() -> None:
    described = BundledQuery(member(), query(), None, None)
    assert described.failure and described.failure.message == "the run of the incident"
    restarted = BundledQuery(member(run_id="gone"), query(), None, None)
    assert restarted.failure and restarted.failure.message == "the newest run"


def test_a_query_that_the_server_no_longer_has_is_named() -> None:
    assert "The server no longer has this query." in page(BundledQuery(member(), None, None, None))
    assert BundledQuery(member(), None, None, None).failure is None


def test_a_browser_saves_the_file_and_would_run_nothing_in_it() -> None:
    sent = headers("0a1b2c3d-0000-4000-8000-000000000000")
    assert sent["Content-Disposition"] == 'attachment; filename="incident-0a1b2c3d.html"'
    assert sent["Content-Security-Policy"].startswith("default-src 'none'")
    assert (utc(AT), utc(None)) == ("2026-11-23 01:00:00", "–")
