"""Runs, alerts and actions of a query as the lake tells them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from controlplane.history import happened
from controlplane.history.archive import Archive
from controlplane.history.model import Happened, PastRun
from controlplane.lake.lake import Lake
from controlplane.lake.rows import Rows, Who
from controlplane.pipeline.told import table

DAY = 86400.0
QUERY, OTHER = "11111111-2222-3333-4444-555555555555", "22222222-2222-3333-4444-555555555555"
BEGIN = datetime(2026, 3, 1, tzinfo=UTC).timestamp()
WHO = Who("shop", "4.3.0", "agent")


class Story:
    """What a lake is told, a commit each."""

    def __init__(self, folder: Path):
        self.lake = Lake.open(str(folder / "lake"), create=True)
        self.commits = 0

    def life(self, event: str, at: float, run: str, query: str = QUERY, exception: str | None = None) -> None:
        rows = Rows()
        rows.lifecycle(WHO, event, at, query, run, "orders", exception, agent="a")
        self._put(rows.take())

    def report(self, at: float, run: str, batch: int = 0, query: str = QUERY) -> None:
        stamp = datetime.fromtimestamp(at, UTC).isoformat()
        rows = Rows()
        told = {
            "id": query,
            "runId": run,
            "batchId": batch,
            "timestamp": stamp,
            "durationMs": {"addBatch": 5},
        }
        rows.progress(WHO, told, at)
        self._put(rows.take())

    def alert(self, fired_at: float, resolved_at: float | None, key: int, query: str = QUERY) -> None:
        self._told("alerts", {
            "store": "s", "key": key, "name": "LagGrowing", "severity": "critical", "app": "shop", "query": "orders",
            "query_id": query, "fingerprint": f"f{key}", "labels": {}, "summary": "it grows", "value": 1.0,
            "active_at": fired_at, "fired_at": fired_at, "resolved_at": resolved_at, "notified": 1, "reason": None,
        })  # fmt: skip

    def action(self, at: float, id: str, evidence: str | None = None) -> None:
        self._told("actions", {
            "id": id, "app": "shop", "query": "orders", "query_id": QUERY, "action": "restart", "actor": "ann",
            "state": "done", "request_reason": "deploy", "reason": "batch 7 was committed", "requested_at": at,
            "delivered_at": at, "finished_at": at + 9, "evidence": evidence,
        })  # fmt: skip

    def _told(self, name: str, row: dict[str, Any]) -> None:
        self._put({name: table(name, [row])})

    def _put(self, tables: dict[str, Any]) -> None:
        self.commits += 1
        staging = self.lake.stage("told", str(self.commits))
        parts = [part for name, rows in tables.items() for part in staging.write(name, rows, "0")]
        self.lake.commit(staging, parts)

    def read(self, start: float, end: float, query: str = QUERY) -> Happened:
        return happened.read(Archive(str(self.lake.folder)), query, start, end)


@pytest.fixture
def story(tmp_path: Path) -> Story:
    return Story(tmp_path)


def test_a_run_is_told_from_its_start_to_its_end_with_why_it_failed(story: Story) -> None:
    story.life("started", BEGIN + 10, "a")
    story.life("terminated", BEGIN + 3 * DAY, "a", exception="java.lang.IllegalStateException: no")
    story.life("started", BEGIN + 5 * DAY, "b", OTHER)
    (run,) = story.read(BEGIN, BEGIN + 10 * DAY).runs
    assert run == PastRun("a", BEGIN + 10, BEGIN + 3 * DAY, None, "java.lang.IllegalStateException: no")
    assert [one.run_id for one in story.read(BEGIN, BEGIN + 10 * DAY, OTHER).runs] == ["b"]


def test_a_run_that_began_before_is_known_by_its_end_or_by_its_reports(story: Story) -> None:
    story.life("started", BEGIN, "a")
    story.report(BEGIN + 9 * DAY, "a")
    assert story.read(BEGIN + 8 * DAY, BEGIN + 20 * DAY).runs == [PastRun("a", heard_at=BEGIN + 9 * DAY)]
    story.life("terminated", BEGIN + 12 * DAY, "a")
    assert story.read(BEGIN + 8 * DAY, BEGIN + 20 * DAY).runs == [PastRun("a", ended_at=BEGIN + 12 * DAY)]
    assert story.read(BEGIN + 13 * DAY, BEGIN + 20 * DAY).runs == []


def test_a_run_whose_driver_was_killed_lasts_until_its_last_report(story: Story) -> None:
    story.life("started", BEGIN, "a")
    story.report(BEGIN + 60, "a", 0)
    story.report(BEGIN + 2 * DAY, "a", 1)
    story.life("started", BEGIN + 4 * DAY, "b")
    story.report(BEGIN + 6 * DAY, "b", 2)
    first, second = story.read(BEGIN, BEGIN + 10 * DAY).runs
    assert first == PastRun("a", BEGIN, None, BEGIN + 2 * DAY)
    assert second == PastRun("b", BEGIN + 4 * DAY, None, BEGIN + 6 * DAY)


def test_alerts_that_fire_within_the_stretch_are_told_also_when_they_began_before(story: Story) -> None:
    story.alert(BEGIN, BEGIN + 2 * DAY, 1)
    story.alert(BEGIN + 3 * DAY, BEGIN + 3.5 * DAY, 2)
    story.alert(BEGIN + 3 * DAY, BEGIN + 4 * DAY, 3, OTHER)
    story.alert(BEGIN + 9 * DAY, BEGIN + 9.5 * DAY, 4)
    told = story.read(BEGIN + DAY, BEGIN + 5 * DAY).alerts
    assert [one["fingerprint"] for one in told] == ["f1", "f2"]
    assert (told[0]["fired_at"], told[0]["resolved_at"], told[0]["summary"]) == (
        BEGIN,
        BEGIN + 2 * DAY,
        "it grows",
    )


def test_actions_are_told_with_what_proved_them(story: Story) -> None:
    story.action(BEGIN + DAY, "b", '{"batch":7}')
    story.action(BEGIN, "a", "no json")
    told = story.read(BEGIN, BEGIN + DAY).actions
    assert [(one["id"], one["evidence"], one["finished_at"]) for one in told] == [
        ("a", {}, BEGIN + 9),
        ("b", {"batch": 7}, BEGIN + DAY + 9),
    ]
    assert story.read(BEGIN + 1, BEGIN + DAY - 1).actions == []


def test_of_more_than_can_be_shown_the_newest_are_told(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(happened, "MOST", 2)
    for number in range(3):
        story.life("started", BEGIN + number * DAY, f"r{number}")
        story.alert(BEGIN + number * DAY, BEGIN + number * DAY + 5, number)
        story.action(BEGIN + number * DAY, f"a{number}")
    told = story.read(BEGIN, BEGIN + 9 * DAY)
    assert [one.run_id for one in told.runs] == ["r1", "r2"]
    assert [one["id"] for one in told.actions] == ["a1", "a2"]
    assert [one["fingerprint"] for one in told.alerts] == ["f1", "f2"]


def test_a_lake_without_anything_tells_nothing(story: Story) -> None:
    assert story.read(BEGIN, BEGIN + DAY) == Happened([], [], [])
