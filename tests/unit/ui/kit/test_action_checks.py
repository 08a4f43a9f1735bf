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
        ("suspend", {"status": "lost", "actions_allowed": "none"}, "operator", None),
        ("suspend", {}, "viewer", "viewer"),
        ("resume", {"status": "failed", "no_driver": "Start the application."}, "operator", None),
        ("resume", {"action": {"action": "restart", "actor": "ada"}}, "operator", "requested by ada"),
        ("resume", {"status": "retired"}, "operator", "retired"),
    ],
)  # fmt: skip
def test_a_button_is_disabled_with_the_reason(
    action: str, overrides: dict[str, object], role: str | None, part: str | None
) -> None:
    refusal = action_checks.refusal(action, factories.detail(**overrides), role)
    assert (refusal is None) == (part is None)
    assert part is None or part in str(refusal)


def test_a_suspended_query_can_be_resumed_and_others_suspended() -> None:
    running, suspended = factories.detail(), factories.detail(desired="suspended", status="stopped")
    assert list(action_checks.refusals(running, "operator"))[-1] == "suspend"
    assert list(action_checks.refusals(suspended, "operator"))[-1] == "resume"


def test_a_suspension_does_what_a_stop_does_where_the_query_runs() -> None:
    rows, stop = dict(consequences("suspend", factories.detail(), drain=False)), factories.detail()
    assert rows.pop("Desired state").startswith("suspended.")
    assert rows == dict(consequences("stop", stop, drain=False))
    stopped = dict(consequences("suspend", factories.detail(status="stopped"), drain=False))
    assert stopped["Now"] == "Nothing else is done. The query is not running."


def test_resuming_without_a_driver_sets_the_desired_state_alone() -> None:
    gone = factories.detail(status="failed", no_driver="Start the application.")
    rows = dict(consequences("resume", gone, drain=False))
    assert rows == {
        "Desired state": "running. Policies supervise the query again.",
        "Now": "Nothing else is done. Start the application.",
    }


def test_a_restart_names_the_driver_and_the_batch() -> None:
    rows = dict(consequences("restart", factories.detail(), drain=False))
    assert rows["Driver"] == "application orders, agent 5f0c8f6e, Spark 4.3.0"
    assert rows["Running batch"] == (
        "Batch 1234 is cancelled. Nothing of it is committed, so its rows are read and processed again."
    )
    location = "from its checkpoint s3://lake/checkpoints/orders"
    assert rows["Resumes"] == f"after its last committed batch, 1233 so far, {location}"
    ended = dict(consequences("start", factories.detail(status="failed"), drain=False))
    assert ended["Resumes"] == f"after batch 1233, {location}"
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
    rows = dict(consequences("stop", query, drain=False))
    assert rows["Afterwards"] == "The query stays stopped."
    assert rows["Checkpoint"] == "s3://lake/checkpoints/orders stays."
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


def past(action: str, state: str, seconds: int) -> dict[str, str]:
    ended = f"2026-11-22T10:00:{seconds:02d}Z"
    return {"action": action, "state": state, "requested_at": "2026-11-22T10:00:00Z", "finished_at": ended}


RATES = {"lag_rows": 100, "arrival_rows_per_second": 20.0, "processed_rows_per_second": 70.0}


@pytest.mark.parametrize(
    ("changes", "cost"),
    [
        ({"actions": []}, "Unknown: no restart of this query is on record."),
        ({"actions": [past("start", "succeeded", 9), past("restart", "failed", 9)]}, "Unknown: no restart"),
        (
            {"actions": [past("restart", "succeeded", each) for each in (20, 4, 10)], **RATES},
            "About 10 s without output (the median of 3 restarts). About 300 rows wait by then, "
            "read in about 6 s at its present rate.",
        ),
        (
            {"actions": [past("restart", "succeeded", 10)], **RATES, "processed_rows_per_second": 20.0},
            "About 10 s without output (as the last restart took). About 300 rows wait by then; "
            "at its present rate the query does not catch up.",
        ),
        ({"actions": [past("restart", "succeeded", 10)], **RATES, "lag_rows": None}, "last restart took)."),
    ],
)
def test_the_cost_of_a_restart_comes_from_its_past_ones(changes: dict[str, object], cost: str) -> None:
    shown = dict(consequences("restart", factories.detail(**changes), drain=False))["Expected cost"]
    assert shown == cost or (cost in shown and len(cost) < 40)
