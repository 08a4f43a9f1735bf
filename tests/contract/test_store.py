"""What every store must do, whichever database it is in: the seam between the server and its memory."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy.engine import Connection
from sqlalchemy.exc import IntegrityError

from controlplane import model
from controlplane.errors import StoreUnavailable
from controlplane.ingest import write_batcher
from controlplane.model import Action, ActionState
from controlplane.store import actions, audit, dictionary, events, queries, retention, tokens
from controlplane.store.engine import upgrade
from controlplane.store.tables import metadata
from tests.drivers import BEGIN, Driver, real_reports
from tests.stores import StoreHarness

DAY = 86400.0


def action(id: str = "a1", **more: object) -> Action:
    fields: dict[str, object] = {
        "id": id,
        "query_id": "q1",
        "app": "shop",
        "name": "orders",
        "action": "restart",
        "actor": "ada",
        "state": ActionState.REQUESTED,
        "requested_at": BEGIN,
        "deadline_at": BEGIN + 120,
    }
    return Action(**fields | more)  # type: ignore[arg-type]


def test_the_migrations_make_exactly_the_tables_of_the_code(harness: StoreHarness) -> None:
    with harness.engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []


def test_upgrading_again_changes_nothing(harness: StoreHarness) -> None:
    harness.accept(Driver().started("q1", "r1"))
    upgrade(harness.engine)
    assert len(harness.read(queries.list_runs, "q1")) == 1


# -- events ----------------------------------------------------------------------------------------


def test_an_event_is_read_as_it_was_sent(harness: StoreHarness) -> None:
    driver = Driver()
    sent = real_reports()
    harness.accept(*(driver.line("progress", data) for data in sent))
    found = [event for data in sent for event in harness.read(events.read_events, data["id"])[0]]
    assert [event["data"] for event in found] == sent
    assert [event["seq"] for event in found] == list(range(1, len(sent) + 1))
    assert {event["agent"] for event in found} == {driver.agent}
    assert found[0]["at"] == BEGIN + 1


def test_events_are_read_page_by_page_and_by_type(harness: StoreHarness) -> None:
    driver = Driver()
    harness.accept(driver.started("q1", "r1"), *(driver.progress("q1", "r1", n) for n in range(5)))
    first, after = harness.read(events.read_events, "q1", 0, 4)
    rest, end = harness.read(events.read_events, "q1", after, 4)
    assert [event["seq"] for event in first + rest] == [1, 2, 3, 4, 5, 6]
    assert end is None
    assert len(harness.read(events.read_events, "q1", 0, 10, "started")[0]) == 1


def test_what_was_stored_before_is_a_duplicate(harness: StoreHarness) -> None:
    driver = Driver()
    lines = [driver.started("q1", "r1"), driver.progress("q1", "r1", 0)]
    assert harness.accept(*lines).stored == 2
    again = harness.accept(*lines, *lines)
    assert (again.acknowledged, again.stored, again.duplicates) == (2, 0, 4)


def test_two_agents_that_report_of_the_same_batch_report_it_once(harness: StoreHarness) -> None:
    item, two = Driver(), Driver()
    harness.accept(item.progress("q1", "r1", 7, at=BEGIN))
    assert harness.accept(two.progress("q1", "r1", 7, at=BEGIN)).duplicates == 1
    assert harness.window.totals("q1")["batches"] == 1


def test_a_batch_that_ran_again_after_a_failure_is_reported_twice(harness: StoreHarness) -> None:
    driver = Driver()
    harness.accept(
        driver.progress("q1", "r1", 7), driver.progress("q1", "r2", 7), driver.progress("q1", "r2", 7)
    )
    assert harness.window.totals("q1")["batches"] == 3


def test_text_that_a_database_cannot_hold_is_made_good(harness: StoreHarness) -> None:
    driver = Driver(labels={"team": "nul \x00"})
    name = "half \ud800 and nul \x00"
    answer = harness.accept(
        driver.line("started", {"id": "q1", "runId": "r1", "name": "X"}).replace(
            b'"X"', b'"half \\ud800 and nul \\u0000"'
        ),
        driver.terminated("q1", "r1", exception="at \x00"),
    )
    assert answer.rejected == []
    view = harness.window.view("q1")
    assert view is not None
    assert view.name == name.replace("\ud800", "\ufffd").replace("\x00", "\ufffd")
    assert harness.reloaded().view("q1") == view


# -- queries and runs ------------------------------------------------------------------------------


def test_runs_are_listed_newest_first_with_their_ends(harness: StoreHarness) -> None:
    driver = Driver()
    harness.accept(driver.started("q1", "r1"), driver.progress("q1", "r1", 0), driver.progress("q1", "r1", 1))
    harness.accept(driver.terminated("q1", "r1", exception="boom"), driver.started("q1", "r2"))
    newest, first = harness.read(queries.list_runs, "q1")
    assert (newest.run_id, newest.end) == ("r2", None)
    assert (first.run_id, first.end, first.failure_text) == ("r1", model.RunEnd.FAILED, "boom")
    assert (first.first_batch_id, first.last_batch_id, first.batches) == (0, 1, 2)
    assert harness.read(queries.list_runs, "q1", 1) == [newest]


def test_progress_is_read_by_time_and_thinned_evenly(harness: StoreHarness) -> None:
    driver = Driver()
    harness.accept(*(driver.progress("q1", "r1", n) for n in range(100)))
    found = harness.progress("q1", BEGIN + 11, BEGIN + 20)
    assert [sample.batch_id for sample in found] == list(range(10, 20))
    thinned = harness.progress("q1", 0.0, BEGIN + 1000, 10)
    assert [sample.batch_id for sample in thinned] == list(range(9, 100, 10))
    stepped = harness.progress("q1", 0.0, BEGIN + 1000, 2000, 25.0)
    assert len(stepped) in (4, 5) and stepped[-1].batch_id == 99


def test_the_latest_progress_is_spark_s_own_json(harness: StoreHarness) -> None:
    driver = Driver()
    harness.accept(driver.progress("q1", "r1", 0), driver.progress("q1", "r1", 1))
    assert harness.read(queries.latest_progress, "q1")["batchId"] == 1
    assert harness.read(queries.latest_progress, "nobody") is None
    assert harness.read(queries.report_of, "q1", "r1", 0)["batchId"] == 0
    for other in (("q1", "r1", 2), ("q1", "r2", 0), ("q2", "r1", 0)):
        assert harness.read(queries.report_of, *other) is None


def test_verdicts_are_recorded_newest_first(harness: StoreHarness) -> None:
    harness.accept(Driver().started("q1", "r1"))
    changes = [("q1", 1.0, "starting"), ("q1", 2.0, "running"), ("nobody", 3.0, "running")]
    rows = [
        {"query_id": id, "at": at, "status": status, "reason": f"it is {status}"}
        for id, at, status in changes
    ]
    harness.write(queries.record_statuses, rows)
    assert harness.read(queries.status_changes, "q1", 10) == [
        {"at": 2.0, "status": "running", "reason": "it is running"},
        {"at": 1.0, "status": "starting", "reason": "it is starting"},
    ]
    assert harness.read(queries.latest_statuses)["q1"]["status"] == "running"


def test_a_query_can_be_put_away(harness: StoreHarness) -> None:
    harness.accept(Driver().started("q1", "r1"))
    assert harness.write(queries.retire, "q1", BEGIN + 5)
    assert not harness.write(queries.retire, "nobody", BEGIN + 5)
    view = harness.reloaded().view("q1")
    assert view is not None
    assert view.retired_at == BEGIN + 5


def test_agents_are_listed_with_what_they_reported(harness: StoreHarness) -> None:
    driver = Driver()
    harness.accept(driver.line("app_started", {"pid": 7, "actions": "stop"}))
    harness.accept(driver.line("heartbeat", {"actions": "stop", "dropped": {"spool_full": 3}}))
    (row,) = harness.read(queries.agent_rows)
    agent = row.agent
    assert (agent.agent, agent.actions, agent.dropped) == (driver.agent, "stop", {"spool_full": 3})
    assert row.info["app_started"]["pid"] == 7


def test_an_agent_keeps_its_labels_whatever_their_names(harness: StoreHarness) -> None:
    """They are kept beside what it states of itself, and must not be mixed up with that."""
    labels = {"team": "data", "actions": "none", "heartbeat": "x", "at": "y"}
    driver = Driver(labels=labels)
    harness.accept(driver.line("heartbeat", {"actions": "stop"}))
    harness.accept(driver.line("heartbeat", {"actions": "stop", "executors": 2}))
    (row,) = harness.read(queries.agent_rows)
    assert (row.agent.labels, row.agent.actions, set(row.info)) == (labels, "stop", {"heartbeat"})
    assert harness.window.agents() == [row.agent]


# -- actions, tokens, audit ------------------------------------------------------------------------


def test_an_action_comes_back_as_it_was_stored(harness: StoreHarness) -> None:
    asked = action(overrides={"trigger": "1s"}, drain=True, idempotency_key="k", previous_batch_id=4)
    harness.write(actions.insert, asked)
    assert harness.read(actions.get, "a1") == asked
    assert harness.read(actions.by_idempotency_key, "k", "q1") == asked
    assert harness.read(actions.get, "other") is None


def test_an_action_moves_on_only_from_the_state_it_is_expected_in(harness: StoreHarness) -> None:
    harness.write(actions.insert, action())
    delivered = dataclasses.replace(action(), state=ActionState.DELIVERED, agent="x", evidence={"n": 1})
    assert harness.write(actions.update, delivered, ActionState.REQUESTED)
    assert not harness.write(actions.update, delivered, ActionState.REQUESTED)
    assert harness.read(actions.get, "a1") == delivered


def test_open_actions_are_those_that_are_not_final(harness: StoreHarness) -> None:
    harness.write(actions.insert, action("a1", state=ActionState.SUCCEEDED))
    harness.write(actions.insert, action("a2", state=ActionState.RUNNING))
    harness.write(actions.insert, action("a3", query_id="q2"))
    assert harness.read(actions.open_for_query, "q1").id == "a2"
    assert [open_action.id for open_action in harness.read(actions.open_actions)] == ["a2", "a3"]
    assert [list_action.id for list_action in harness.read(actions.list_actions, "q1")] == ["a2", "a1"]
    assert [list_action.id for list_action in harness.read(actions.list_actions, None, 1)] == ["a3"]


def test_an_idempotency_key_is_taken_once_per_query(harness: StoreHarness) -> None:
    harness.write(actions.insert, action("a1", idempotency_key="k"))
    harness.write(actions.insert, action("a2", idempotency_key="k", query_id="q2"))
    harness.write(actions.insert, action("a3"))
    harness.write(actions.insert, action("a4"))
    with pytest.raises(IntegrityError):
        harness.write(actions.insert, action("a5", idempotency_key="k"))


def test_tokens_are_kept_by_digest_and_revoked_once(harness: StoreHarness) -> None:
    harness.write(tokens.insert, "t1", "ci", "operator", "d" * 64, "cp_op", "shop", BEGIN, None)
    (row,) = harness.read(tokens.all)
    assert (row["name"], row["role"], row["app"], row["revoked_at"]) == ("ci", "operator", "shop", None)
    assert harness.write(tokens.revoke, "t1", BEGIN + 1)
    assert not harness.write(tokens.revoke, "t1", BEGIN + 2)
    assert harness.read(tokens.all)[0]["revoked_at"] == BEGIN + 1
    with pytest.raises(IntegrityError):
        harness.write(tokens.insert, "t2", "ci", "viewer", "d" * 64, "cp_vi", None, BEGIN, None)


def test_the_audit_is_read_newest_first(harness: StoreHarness) -> None:
    harness.write(audit.record, 1.0, "ada", "page", "query.stop", "q1", {"why": "test"})
    harness.write(audit.record, 2.0, "bob", "cli", "query.start", "q1")
    newest, first = harness.read(audit.read, 10)
    assert (newest["actor"], newest["detail"]) == ("bob", {})
    assert (first["via"], first["action"], first["target"], first["detail"]) == (
        "page",
        "query.stop",
        "q1",
        {"why": "test"},
    )


# -- retention and compression ---------------------------------------------------------------------


def test_what_is_too_old_goes_and_the_rest_stays(harness: StoreHarness) -> None:
    driver, harness.now = Driver(), BEGIN + 2 * DAY
    harness.accept(*(driver.progress("q1", "r1", n, at=BEGIN + n * 3600) for n in range(48)))
    gone = retention.prune(harness.writer, harness.now, DAY, 10**10)
    assert gone.events == 24
    left = harness.progress("q1", 0.0, harness.now)
    assert [sample.batch_id for sample in left] == list(range(24, 48))
    assert harness.read(queries.list_runs, "q1")[0].batches == 48  # what the run did is still known


def test_what_was_deleted_does_not_come_back_when_it_is_sent_again(harness: StoreHarness) -> None:
    driver = Driver()
    lines = [driver.progress("q1", "r1", n, at=BEGIN + n) for n in range(10)]
    harness.accept(*lines)
    retention.prune(harness.writer, BEGIN + 2 * DAY, DAY, 10**10)
    assert harness.accept(*lines).duplicates == 10
    assert harness.progress("q1", 0.0, BEGIN + DAY) == []


def test_too_much_goes_oldest_first(harness: StoreHarness) -> None:
    driver = Driver()
    harness.accept(*(driver.progress("q1", "r1", n, pad=str(n) * 300) for n in range(3000)))
    limit = retention.used_store_bytes(harness.engine) // 2
    gone = retention.prune(harness.writer, BEGIN, 10 * DAY, limit)
    assert gone.events > 1000
    assert retention.used_store_bytes(harness.engine) <= limit
    left = harness.progress("q1", 0.0, BEGIN + DAY, 10_000)
    assert [sample.batch_id for sample in left] == list(range(gone.events, 3000))


def test_polls_and_heartbeats_go_after_a_day(harness: StoreHarness) -> None:
    driver, harness.now = Driver(), BEGIN + 30 * 3600
    for hour in range(30):
        at = BEGIN + hour * 3600
        harness.accept(driver.line("heartbeat", {}, at=at), driver.progress("q1", "r1", hour, at=at))
    assert retention.prune(harness.writer, harness.now, 14 * DAY, 10**10).events == 6
    assert retention.prune(harness.writer, harness.now, 14 * DAY, 10**10).events == 0


def test_old_runs_and_agents_go_but_the_newest_run_of_a_query_stays(harness: StoreHarness) -> None:
    first, second = Driver(), Driver()
    harness.accept(first.started("q1", "r1"), first.terminated("q1", "r1"), first.line("app_ended", {}))
    harness.accept(second.started("q1", "r2", at=BEGIN + 100), second.terminated("q1", "r2", at=BEGIN + 101))
    forget = harness.window.forget, harness.window.forget_agents
    gone = retention.prune(harness.writer, BEGIN + 30 * DAY, DAY, 10**10, *forget)
    assert (gone.runs, gone.agents) == (1, 1)
    assert [agent.agent for agent in harness.window.agents()] == [second.agent]
    assert [run.run_id for run in harness.read(queries.list_runs, "q1")] == ["r2"]


def test_a_query_that_lost_its_name_to_another_goes_with_its_last_event(harness: StoreHarness) -> None:
    driver = Driver()
    harness.accept(driver.started("old", "r1"), driver.terminated("old", "r1"))
    harness.accept(driver.started("new", "r2"), driver.terminated("new", "r2"))
    gone = retention.prune(harness.writer, BEGIN + 30 * DAY, DAY, 10**10, harness.window.forget)
    assert gone.queries == 1
    assert harness.window.view("old") is None
    assert harness.window.view("new") is not None


def test_a_database_that_turns_read_only_refuses_no_line_and_acknowledges_none(
    harness: StoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch = "PRAGMA query_only=1" if harness.engine.name == "sqlite" else "SET TRANSACTION READ ONLY"
    real = write_batcher.store

    def turned(connection: Connection, *arguments: Any) -> Any:
        connection.exec_driver_sql(switch)
        return real(connection, *arguments)

    driver = Driver()
    lines = [driver.started("q1", "r1"), driver.progress("q1", "r1", 0)]
    with monkeypatch.context() as broken:
        broken.setattr(write_batcher, "store", turned)
        with pytest.raises(StoreUnavailable) as refused:
            harness.accept(*lines)
    assert "INSERT" not in str(refused.value).replace("execute INSERT", "")
    assert harness.ingest.rejected == 0
    harness.engine.dispose()  # SQLite's pragma stays with its connection
    assert harness.accept(*lines).stored == 2


def test_the_store_trains_a_dictionary_on_the_events_of_its_fleet(harness: StoreHarness) -> None:
    driver = Driver()
    assert dictionary.train_dictionary(harness.writer, BEGIN) is None  # nothing to learn from
    before = harness.accept(
        *(
            driver.progress("q1", "r1", n, hint="somewhere over the rainbow " * 3, n=n * 7919)
            for n in range(700)
        )
    )
    assert before.stored == 700
    assert dictionary.train_dictionary(harness.writer, BEGIN) == 2
    harness.ingest.refresh_dictionary()
    harness.accept(driver.progress("q1", "r1", 700, hint="over the rainbow"))
    found, _ = harness.read(events.read_events, "q1", 0, 1000)
    assert len(found) == 701
    assert found[-1]["data"]["hint"] == "over the rainbow"
