"""Runs, alerts and actions of a query as the lake reports them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from controlplane.history import timeline
from controlplane.history.archive import Archive
from controlplane.history.model import PastRun, TimelineResult
from controlplane.lake.lake import Lake
from controlplane.lake.rows import LakeRowBuilder, Producer
from controlplane.pipeline.offload.alert_export import build_table

DAY = 86400.0
QUERY, OTHER = "11111111-2222-3333-4444-555555555555", "22222222-2222-3333-4444-555555555555"
BEGIN = datetime(2026, 3, 1, tzinfo=UTC).timestamp()
WHO = Producer("shop", "4.3.0", "agent")


class Story:
    """What a lake is reported, a commit each."""

    def __init__(self, folder: Path):
        self.lake = Lake.open(str(folder / "lake"), create=True)
        self.commits = 0

    def lifecycle(
        self, event: str, at: float, run: str, query: str = QUERY, exception: str | None = None
    ) -> None:
        rows = LakeRowBuilder()
        rows.lifecycle(WHO, event, at, query, run, "orders", exception, agent="a")
        self._put(rows.take())

    def report(self, at: float, run: str, batch: int = 0, query: str = QUERY) -> None:
        stamp = datetime.fromtimestamp(at, UTC).isoformat()
        rows = LakeRowBuilder()
        reported = {
            "id": query,
            "runId": run,
            "batchId": batch,
            "timestamp": stamp,
            "durationMs": {"addBatch": 5},
        }
        rows.progress(WHO, reported, at)
        self._put(rows.take())

    def alert(self, fired_at: float, resolved_at: float | None, key: int, query: str = QUERY) -> None:
        self._reported("alerts", {
            "store": "s", "key": key, "name": "LagGrowing", "severity": "critical", "app": "shop", "query": "orders",
            "query_id": query, "fingerprint": f"f{key}", "labels": {}, "summary": "it grows", "value": 1.0,
            "active_at": fired_at, "fired_at": fired_at, "resolved_at": resolved_at, "notified": 1, "reason": None,
        })  # fmt: skip

    def action(self, at: float, id: str, evidence: str | None = None) -> None:
        self._reported("actions", {
            "id": id, "app": "shop", "query": "orders", "query_id": QUERY, "action": "restart", "actor": "ann",
            "state": "done", "request_reason": "deploy", "reason": "batch 7 was committed", "requested_at": at,
            "delivered_at": at, "finished_at": at + 9, "evidence": evidence,
        })  # fmt: skip

    def _reported(self, name: str, row: dict[str, Any]) -> None:
        self._put({name: build_table(name, [row])})

    def _put(self, tables: dict[str, Any]) -> None:
        self.commits += 1
        staging = self.lake.stage("reported", str(self.commits))
        parts = [part for name, rows in tables.items() for part in staging.write(name, rows, "0")]
        self.lake.commit(staging, parts)

    def read(self, start: float, end: float, query: str = QUERY) -> TimelineResult:
        return timeline.read_timeline(Archive(str(self.lake.folder)), query, start, end)


@pytest.fixture
def story(tmp_path: Path) -> Story:
    return Story(tmp_path)


def times(run: PastRun) -> tuple[Any, ...]:
    """Began, ended, how, first and last sign; in days."""
    days = (None if at is None else (at - BEGIN) / DAY for at in (run.started_at, run.ended_at))
    signs = (None if at is None else (at - BEGIN) / DAY for at in (run.first_seen_at, run.last_seen_at))
    return (run.run_id, *days, run.end and run.end.value, *signs)


def test_a_run_is_reported_from_its_start_to_its_end_with_why_it_failed(story: Story) -> None:
    story.lifecycle("started", BEGIN, "a")
    story.lifecycle(
        "terminated", BEGIN + 3 * DAY, "a", exception="java.lang.IllegalStateException: " + "n" * 9999
    )
    story.lifecycle("terminated", BEGIN + 3 * DAY + 1, "a")  # reported again, by somebody who knows less
    story.lifecycle("started", BEGIN + 5 * DAY, "b", OTHER)
    story.lifecycle("terminated", BEGIN + 4 * DAY, "b", OTHER)  # by another clock
    (run,) = story.read(BEGIN, BEGIN + 10 * DAY).runs
    assert times(run) == ("a", 0, 3, "failed", None, None)
    assert run.failure and len(run.failure) == timeline.MAX_FAILURE_CHARS
    (other,) = story.read(BEGIN, BEGIN + 10 * DAY, OTHER).runs
    assert times(other) == ("b", 5, 5, "stopped", None, None)


def test_a_run_that_began_before_is_known_by_its_end_or_by_its_reports(story: Story) -> None:
    def reported(start: float, end: float) -> list[tuple[Any, ...]]:
        return [times(run) for run in story.read(BEGIN + start * DAY, BEGIN + end * DAY).runs]

    story.lifecycle("started", BEGIN, "a")
    story.report(BEGIN + 7 * DAY, "b", query=OTHER)
    story.report(BEGIN + 9 * DAY, "a")
    story.lifecycle("idle", BEGIN + 11 * DAY, "a")
    assert reported(8, 20) == [("a", None, None, None, 9, 11)]
    assert reported(6, 10) == [("a", None, None, None, 9, 9)]  # the first day with reports has none of it
    story.lifecycle("terminated", BEGIN + 12 * DAY, "a")
    assert reported(8, 20) == [("a", None, 12, "stopped", 9, 11)]
    assert reported(10, 20) == [("a", None, 12, "stopped", 11, 11)]
    assert reported(0, 10) == [("a", 0, None, None, 9, 9)]  # it goes on beyond
    assert reported(13, 20) == []


def test_a_run_whose_driver_was_killed_is_lost_at_its_last_sign(story: Story) -> None:
    story.lifecycle("started", BEGIN, "a")
    story.report(BEGIN + 60, "a", 0)
    story.report(BEGIN + 2 * DAY, "a", 1)
    story.lifecycle("started", BEGIN + 3 * DAY, "nothing")
    story.lifecycle("started", BEGIN + 4 * DAY, "b")
    story.report(BEGIN + 6 * DAY, "b", 2)
    runs = [times(run) for run in story.read(BEGIN, BEGIN + 10 * DAY).runs]
    assert [run[:4] for run in runs] == [
        ("a", 0, 2, "lost"),
        ("nothing", 3, 3, "lost"),
        ("b", 4, None, None),
    ]
    assert runs[2][5] == 6


def test_a_report_of_an_absurd_duration_is_no_sign_of_lifecycle_of_that_time(story: Story) -> None:
    story.lifecycle("started", BEGIN, "a")
    rows = LakeRowBuilder()
    absurd = {"addBatch": 5, "triggerExecution": 10**15}
    reported = {
        "id": QUERY,
        "runId": "a",
        "batchId": 1,
        "timestamp": "2026-03-02T00:00:00Z",
        "durationMs": absurd,
    }
    rows.progress(WHO, reported)
    story._put(rows.take())
    assert [times(run) for run in story.read(BEGIN, BEGIN + 10 * DAY).runs] == [
        ("a", 0, None, None, None, None)
    ]


def test_very_many_runs_cost_no_more_than_those_that_are_reported(story: Story) -> None:
    rows = LakeRowBuilder()
    for number in range(5000):
        rows.lifecycle(WHO, "started", BEGIN + number, QUERY, f"r{number}", "orders", agent="a")
    story._put(rows.take())
    story.report(BEGIN + 4999.5, "r4999")
    reported = story.read(BEGIN, BEGIN + DAY)
    assert len(reported.runs) == timeline.MAX_ENTRIES and reported.notes == [
        "only the newest 500 of 5000 runs are shown"
    ]
    assert times(reported.runs[-1])[3] is None and reported.runs[-1].last_seen_at == BEGIN + 4999.5


def test_what_cannot_be_read_is_stated_and_the_rest_is_reported(story: Story) -> None:
    story.lifecycle("started", BEGIN, "a")
    story.action(BEGIN + 5, "a")
    (file,) = Path(str(story.lake.folder)).glob("actions/*/*.parquet")
    file.write_bytes(b"no parquet")
    reported = story.read(BEGIN, BEGIN + DAY)
    assert [run.run_id for run in reported.runs] == ["a"]
    assert reported.actions == () and "actions are missing from the lake's history: " in reported.notes[0]


def test_alerts_that_fire_within_the_stretch_are_reported_also_when_they_began_before(story: Story) -> None:
    story.alert(BEGIN, BEGIN + 2 * DAY, 1)
    story.alert(BEGIN + 3 * DAY, BEGIN + 3.5 * DAY, 2)
    story.alert(BEGIN + 3 * DAY, BEGIN + 4 * DAY, 3, OTHER)
    story.alert(BEGIN + 9 * DAY, BEGIN + 9.5 * DAY, 4)
    story.alert(BEGIN - 30 * DAY, BEGIN + 2 * DAY, 5)
    reported = story.read(BEGIN + DAY, BEGIN + 5 * DAY).alerts
    assert [item["fingerprint"] for item in reported] == ["f5", "f1", "f2"]
    assert (reported[1]["fired_at"], reported[1]["resolved_at"], reported[1]["summary"]) == (
        BEGIN,
        BEGIN + 2 * DAY,
        "it grows",
    )


def test_actions_are_reported_with_what_proved_them(story: Story) -> None:
    story.action(BEGIN + DAY, "b", '{"batch":7,"nested":{"a":[1]}}')
    story.action(BEGIN + DAY / 2, "deep", "[" * 100_000)
    story.action(BEGIN, "a", "no json")
    reported = story.read(BEGIN, BEGIN + DAY).actions
    assert [(item["id"], item["evidence"], item["finished_at"]) for item in reported] == [
        ("a", {}, BEGIN + 9),
        ("deep", {}, BEGIN + DAY / 2 + 9),
        ("b", {"batch": 7}, BEGIN + DAY + 9),
    ]
    assert story.read(BEGIN + DAY + 1, BEGIN + 2 * DAY).actions == []


def test_of_more_than_can_be_shown_the_newest_are_reported(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeline, "MAX_ENTRIES", 2)
    for number in range(3):
        story.lifecycle("started", BEGIN + number * DAY, f"r{number}")
        story.alert(BEGIN + number * DAY, BEGIN + number * DAY + 5, number)
        story.action(BEGIN + number * DAY, f"a{number}")
    reported = story.read(BEGIN, BEGIN + 9 * DAY)
    assert [run.run_id for run in reported.runs] == ["r1", "r2"]
    assert [item["id"] for item in reported.actions] == ["a1", "a2"]
    assert [item["fingerprint"] for item in reported.alerts] == ["f1", "f2"]


def test_a_lake_without_anything_reports_nothing(story: Story) -> None:
    assert story.read(BEGIN, BEGIN + DAY) == TimelineResult([], [], [], [])
