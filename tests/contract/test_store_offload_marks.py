"""What may leave the store for the lake, and what is taken there, on both databases."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from controlplane.history import offload_commits
from controlplane.history.archive import Archive
from controlplane.history.service import HistoryService
from controlplane.lake.lake import Lake
from controlplane.lake.verification import verify_commit
from controlplane.pipeline.offload import alert_export
from controlplane.pipeline.offload.event_export import open_read_only
from controlplane.settings import Settings
from controlplane.store import offload_marks, retention
from controlplane.store.tables import alerts, events
from tests.drivers import BEGIN, Driver
from tests.stores import StoreHarness
from tests.unit.controlplane.history.lakes import forget, moved_to

DAY = 86400.0


def tell(harness: StoreHarness, batches: int, at: float = BEGIN, every: float = 10.0) -> Driver:
    driver = Driver()
    harness.accept(driver.started("q", "r", at=at))
    for number in range(batches):
        harness.accept(driver.progress("q", "r", number, at=at + number * every))
    return driver


def test_events_up_to_the_first_that_is_young_may_move(harness: StoreHarness) -> None:
    tell(harness, 10)
    assert harness.read(offload_marks.last_id_before, 0, BEGIN + 45.0) == 6
    assert harness.read(offload_marks.last_id_before, 6, BEGIN + 45.0) == 6
    assert harness.read(offload_marks.last_id_before, 0, BEGIN + 500.0) == 11


def test_an_event_from_the_future_does_not_delay_its_neighbours(
    harness: StoreHarness,
) -> None:
    driver = tell(harness, 3)
    harness.accept(driver.line("idle", {"id": "q", "runId": "r"}, at=BEGIN + 40 * DAY))
    assert harness.read(offload_marks.last_id_before, 0, harness.now + 1.0) == 5


def test_stretches_are_cut_by_the_number_of_their_events(harness: StoreHarness) -> None:
    tell(harness, 9)
    assert harness.read(offload_marks.split_range, 0, 10, 4) == [4, 8, 10]
    assert harness.read(offload_marks.split_range, 10, 10, 4) == []
    assert harness.read(offload_marks.count, 0, 10) == 10


def test_what_leaves_the_store_is_in_the_lake_as_it_was(harness: StoreHarness, tmp_path: Path) -> None:
    driver = tell(harness, 40)
    harness.accept(driver.line("heartbeat", {}, at=BEGIN + 1))
    harness.accept(driver.terminated("q", "r", exception="boom", at=BEGIN + 500))
    before = harness.progress("q", BEGIN - 1, BEGIN + 1000)
    commit = moved_to(harness, tmp_path / "lake", BEGIN + 1000)
    assert offload_commits.counts_of(commit) == offload_commits.OffloadCounts(
        42, 42, 0, 0, checksum=sum(range(1, 42)) + 43
    )
    assert (
        offload_commits.find_mismatch(commit, harness.read(offload_marks.count, 0, commit.facts["until"]))
        is None
    )
    lake = Lake.open(str(tmp_path / "lake"))
    assert verify_commit(lake, commit, lake.manifest()) == commit.rows == 40 * 3 + 2
    assert forget(harness, BEGIN + 1000, commit.facts["until"]) == 42 + 1
    assert harness.progress("q", BEGIN - 1, BEGIN + 1000) == []
    assert Archive(str(tmp_path / "lake")).reports("q", BEGIN - 1, BEGIN + 1000) == before


def test_without_a_mark_age_alone_deletes_nothing_where_there_is_a_lake(harness: StoreHarness) -> None:
    tell(harness, 5)
    harness.now = BEGIN + 30 * DAY
    gone = retention.prune(harness.writer, harness.now, 14 * DAY, 2**40, hot_seconds=3 * DAY)
    assert gone.events == 0
    harness.write(offload_marks.raise_to, offload_marks.OFFLOADED_UNTIL, 3)
    gone = retention.prune(harness.writer, harness.now, 14 * DAY, 2**40, hot_seconds=3 * DAY)
    assert (gone.events, gone.lost) == (3, 0)
    assert harness.read(offload_marks.value, offload_marks.DELETED_UNTIL) == round((BEGIN + 10) * 1000)
    assert harness.read(offload_marks.complete_since, "q") == BEGIN + 20
    assert harness.read(offload_marks.complete_since, "another") is None
    gone = retention.prune(harness.writer, harness.now, 14 * DAY, 2**40)
    assert gone.events == 3, "without a lake all that is too old goes"


def test_the_byte_limit_counts_what_the_lake_has_not_got(harness: StoreHarness) -> None:
    tell(harness, 60)
    harness.write(offload_marks.raise_to, offload_marks.OFFLOADED_UNTIL, 10)
    limit = retention.used_store_bytes(harness.engine) // 2
    gone = retention.prune(harness.writer, BEGIN + 700, 14 * DAY, limit, hot_seconds=3 * DAY)
    assert gone.events > 10
    assert gone.lost == gone.events - 10 == harness.read(offload_marks.value, offload_marks.LOST_EVENTS)


def test_a_mark_never_falls(harness: StoreHarness) -> None:
    harness.write(offload_marks.raise_to, offload_marks.OFFLOADED_UNTIL, 7)
    harness.write(offload_marks.raise_to, offload_marks.OFFLOADED_UNTIL, 3)
    assert harness.read(offload_marks.value, offload_marks.OFFLOADED_UNTIL) == 7
    assert harness.write(offload_marks.store_id) == harness.write(offload_marks.store_id)


def test_a_job_cannot_change_the_store(harness: StoreHarness) -> None:
    tell(harness, 1)
    engine = open_read_only(harness.url)
    with pytest.raises(DBAPIError), engine.connect() as connection:
        connection.execute(sa.delete(events))
    engine.dispose()
    assert harness.read(offload_marks.count, 0, 100) == 2


def test_what_is_over_is_written_once_a_day_and_again_only_when_it_changed(
    harness: StoreHarness, tmp_path: Path
) -> None:
    from controlplane.model import Action, ActionState
    from controlplane.store import actions

    def act(id: str, at: float, state: ActionState) -> None:
        action = Action(
            id=id, query_id="q", app="shop", name="orders", action="restart", actor="ann", state=state,
            requested_at=at, deadline_at=at + 60, finished_at=at + 5, evidence={"batch": 7},
        )  # fmt: skip
        harness.write(actions.insert, action)

    lake = Lake.open(str(tmp_path / "lake"), create=True)
    act("a1", BEGIN, ActionState.SUCCEEDED)
    act("a2", BEGIN + 1, ActionState.REQUESTED)
    assert harness.read(alert_export.export_days, lake, "store") == 1
    assert harness.read(alert_export.export_days, lake, "store") == 0
    act("a3", BEGIN + 2, ActionState.FAILED)
    act("a4", BEGIN + 2 * DAY, ActionState.FAILED)
    assert harness.read(alert_export.export_days, lake, "store") == 2
    rows = lake.read("actions").to_pylist()
    assert [(row["id"], row["state"], row["evidence"]) for row in rows] == [
        ("a1", "succeeded", '{"batch": 7}'),
        ("a3", "failed", '{"batch": 7}'),
        ("a4", "failed", '{"batch": 7}'),
    ]


def test_a_store_that_was_set_back_moves_its_events_anew(harness: StoreHarness, tmp_path: Path) -> None:
    """As after a restored backup: the ids that were moved belong to other events now."""
    settings = replace(Settings(data_dir=tmp_path), lake=str(tmp_path / "lake"))
    service = HistoryService(settings, harness.writer, harness.engine.connect, lambda: harness.now)
    tell(harness, 20)
    moved_to(harness, tmp_path / "lake", harness.now)
    harness.write(lambda connection: connection.execute(sa.delete(events).where(events.c.id > 5)))
    harness.write(offload_marks.set_value, "events", 5)
    driver = Driver()
    harness.accept(*[driver.progress("q2", "r2", number, at=BEGIN + number) for number in range(15)])
    assert service.advance() == 0
    assert forget(harness, harness.now, service.advance()) == 0, "nothing leaves the store"
    second = moved_to(harness, tmp_path / "lake", harness.now)
    assert offload_commits.counts_of(second).duplicates == 5
    assert service.advance() == 20
    lake = Lake.open(str(tmp_path / "lake")).read("progress")
    assert sorted(zip(lake["query_id"].to_pylist(), lake["batch_id"].to_pylist(), strict=True)) == sorted(
        [("q", number) for number in range(20)] + [("q2", number) for number in range(15)]
    )


def test_episodes_of_two_stores_are_reported_apart_in_one_lake(harness: StoreHarness, tmp_path: Path) -> None:
    episode = {
        "group": "g", "rule": "g/1/Slow", "name": "Slow", "fingerprint": "f", "labels": {}, "annotations": {},
        "value": 1.0, "state": "resolved", "active_at": BEGIN, "fired_at": BEGIN, "resolved_at": BEGIN + 9,
        "reason": "",
    }  # fmt: skip
    harness.write(lambda connection: connection.execute(sa.insert(alerts).values(**episode)))
    lake = Lake.open(str(tmp_path / "lake"), create=True)
    assert [harness.read(alert_export.export_days, lake, store) for store in ("a", "b", "a")] == [1, 1, 0]
    rows = lake.read("alerts").select(["store", "key"]).to_pylist()
    assert rows == [{"store": "a", "key": 1}, {"store": "b", "key": 1}]
