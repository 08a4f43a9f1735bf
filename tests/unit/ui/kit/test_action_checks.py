"""Actions of a query: refusals and consequences."""

import pytest

from tests.ui import factories
from ui.kit import action_checks
from ui.kit.action_checks import QueryActivity, consequences


@pytest.mark.parametrize(
    ("action", "overrides", "role", "part"),
    [
        ("restart", {}, "operator", None),
        ("stop", {}, "admin", None),
        ("stop", {}, None, None),
        ("restart", {}, "viewer", "viewer"),
        ("start", {}, "operator", "already running"),
        ("start", {"status": "failed"}, "operator", None),
        ("stop", {"status": "stopped"}, "operator", "is not running"),
        ("restart", {"status": "failed"}, "operator", None),
        ("restart", {"status": "lost"}, "operator", "no heartbeats"),
        ("start", {"status": "failed", "no_driver": "Start the application."}, "operator", "application"),
        ("stop", {"status": "unreachable", "no_driver": "Spark is away."}, "operator", "Spark is away"),
        ("start", {"status": "retired"}, "operator", "retired"),
        ("stop", {"actions_allowed": "none"}, "operator", "forbids all"),
        ("stop", {"actions_allowed": "stop"}, "operator", None),
        ("restart", {"actions_allowed": "stop"}, "operator", "stops only"),
        ("restart", {"restart": {"how": "needs_factory", "reason": "reused"}}, "operator", "reused"),
        ("stop", {"restart": {"how": "needs_factory", "reason": "writer reused"}}, "operator", None),
        ("stop", {"action": {"action": "restart", "actor": "ada"}}, "operator", "requested by ada"),
        ("restart", {"restart": None, "actions_allowed": None}, "operator", None),
    ],
)  # fmt: skip
def test_a_button_is_disabled_with_the_reason(
    action: str, overrides: dict[str, object], role: str | None, part: str | None
) -> None:
    refusal = action_checks.refusal(action, factories.detail(**overrides), role)
    assert (refusal is None) == (part is None)
    assert part is None or part in str(refusal)


def test_a_restart_names_the_driver_and_the_batch() -> None:
    rows = dict(consequences("restart", factories.detail(), drain=False))
    assert rows["Driver"] == "application orders, agent 5f0c8f6e, Spark 4.3.0"
    assert rows["Running batch"] == (
        "Batch 1234 is cancelled. Nothing of it is committed, so its rows are read and processed again."
    )
    assert rows["Resumes"] == "after batch 1233, from its checkpoint s3://lake/checkpoints/orders"
    assert "same writer" in rows["Started by"]


def test_a_drain_lets_the_batch_finish() -> None:
    rows = dict(consequences("stop", factories.detail(), drain=True))
    assert rows["Running batch"].startswith("Batch 1234 may finish first (the last batch took 620 ms)")
    assert rows["Checkpoint"] == "s3://lake/checkpoints/orders stays: a later start resumes from it."
    assert "stays stopped" in rows["Afterwards"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (
            {"restart": {"how": "needs_factory", "reason": "the writer was reused"}},
            "The writer was reused.",
        ),
        ({"actions_allowed": "stop"}, "CONTROLPLANE_ACTIONS=stop"),
    ],
)
def test_stop_without_a_way_back_is_announced(changes, reason):
    query = factories.detail(**changes)
    announced = action_checks.no_start_after_stop(query)
    assert announced.startswith("The query cannot be started again from here.") and reason in announced
    assert dict(consequences("stop", query, drain=False))["Afterwards"] == "The query stays stopped."
    assert action_checks.no_start_after_stop(factories.detail()) is None


def test_a_start_of_an_ended_query_cancels_no_batch() -> None:
    rows = dict(
        consequences("start", factories.detail(status="failed", batch_id=None, facts={}), drain=False)
    )
    assert "Running batch" not in rows
    assert rows["Resumes"] == "from its checkpoint"


def test_a_running_batch_is_named_with_its_age() -> None:
    activity = QueryActivity(batch_age=48.0)
    rows = dict(consequences("restart", factories.detail(), drain=False, activity=activity))
    assert "Batch 1234, which has run for 48 s, is cancelled" in rows["Running batch"]
    rows = dict(consequences("restart", factories.detail(), drain=False, activity=QueryActivity(batch_age=0)))
    assert rows["Running batch"].startswith("No batch runs now")


@pytest.mark.parametrize(
    ("action", "part"),
    [("stop", "The backlog grows while the query is stopped"), ("restart", "They are read after the start")],
)
def test_the_backlog_is_shown_with_its_future(action: str, part: str) -> None:
    rows = dict(consequences(action, factories.detail(lag_rows=84_300, lag_seconds=26.4), drain=False))
    assert rows["Backlog"].startswith("84.3k rows wait, the oldest for 26.4 s")
    assert part in rows["Backlog"]
    assert "Unknown" in dict(consequences(action, factories.detail(lag_rows=None), drain=False))["Backlog"]


@pytest.mark.parametrize("action", ["stop", "start", "restart"])
def test_firing_alerts_are_named_with_their_expected_resolution(action: str) -> None:
    names = ("LagGrowing", "BatchOverTrigger")
    rows = dict(consequences(action, factories.detail(), drain=False, activity=QueryActivity(names)))
    assert rows["Alerts"].startswith("2 firing (LagGrowing, BatchOverTrigger).")
    assert "expected to resolve" in rows["Alerts"]
    quiet = dict(consequences(action, factories.detail(), drain=False))
    assert quiet["Alerts"] == "No alert fires for this query."
