"""Quotas of queries, agents and events: what is refused, what is counted, and who is not affected."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from controlplane.errors import TooManyEvents
from controlplane.ingest import quotas
from controlplane.ingest.quotas import DAY_SECONDS, Quotas
from controlplane.ingest.service import IngestService
from controlplane.settings import Settings
from tests.drivers import Driver
from tests.stores import StoreHarness, sqlite_harness


@dataclass
class Elapsed:
    """A monotonic clock that a test advances."""

    seconds: float = 100.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def elapsed() -> Elapsed:
    return Elapsed()


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[StoreHarness]:
    with sqlite_harness(tmp_path) as opened:
        yield opened


def limited(harness: StoreHarness, elapsed: Elapsed, **limits: Any) -> Quotas:
    """The harness with these quotas."""
    harness.ingest = IngestService(harness.writer, harness.window, lambda: harness.now, Settings(**limits))
    harness.ingest.quotas._monotonic = elapsed
    return harness.ingest.quotas


def starts(driver: Driver, count: int) -> list[bytes]:
    return [driver.started(str(uuid.uuid4()), str(uuid.uuid4()), f"q{n}") for n in range(count)]


def test_new_queries_over_the_quota_of_their_app_are_refused_by_line_and_counted(
    harness: StoreHarness, elapsed: Elapsed
) -> None:
    quota = limited(harness, elapsed, max_queries_per_app=3)
    driver, other = Driver(app="flood"), Driver(app="other")
    lines = starts(driver, 5)
    answer = harness.accept(*lines)
    assert (answer.stored, [line["line"] for line in answer.rejected]) == (3, [4, 5])
    assert "CONTROLPLANE_MAX_QUERIES_PER_APP" in answer.rejected[0]["error"]
    assert quota.refused == {("max_queries_per_app", "flood"): 2}
    elapsed.seconds += quotas.COUNT_SECONDS  # counted again, from the window
    assert harness.accept(*starts(driver, 1)).stored == 0
    assert harness.accept(*starts(other, 3)).stored == 3
    assert len(harness.window.views()) == 6


def test_events_of_known_queries_are_accepted_whatever_the_quota(
    harness: StoreHarness, elapsed: Elapsed
) -> None:
    limited(harness, elapsed, max_queries_per_app=1)
    driver, query_id, run_id = Driver(), str(uuid.uuid4()), str(uuid.uuid4())
    harness.accept(driver.started(query_id, run_id))
    answer = harness.accept(*(driver.progress(query_id, run_id, batch) for batch in range(5)))
    assert (answer.stored, answer.rejected) == (5, [])


def test_the_fleet_has_a_quota_over_all_apps(harness: StoreHarness, elapsed: Elapsed) -> None:
    limited(harness, elapsed, max_queries=3)
    answers = [harness.accept(*starts(Driver(app=f"app{n}"), 1)) for n in range(5)]
    assert [answer.stored for answer in answers] == [1, 1, 1, 0, 0]
    assert "the fleet has its limit of 3 queries" in answers[-1].rejected[0]["error"]


def test_new_agents_over_the_quota_are_refused(harness: StoreHarness, elapsed: Elapsed) -> None:
    quota = limited(harness, elapsed, max_agents_per_app=2, max_agents=3)
    stored = [harness.accept(Driver(app="a").line("heartbeat", {})).stored for _ in range(3)]
    stored += [harness.accept(Driver(app=app).line("heartbeat", {})).stored for app in ("b", "c")]
    assert stored == [1, 1, 0, 1, 0]
    assert quota.refused == {("max_agents_per_app", "a"): 1, ("max_agents", "c"): 1}


def test_a_status_event_lists_only_queries_within_the_quota(harness: StoreHarness, elapsed: Elapsed) -> None:
    quota = limited(harness, elapsed, max_queries_per_app=2)
    entries = [{"id": str(uuid.uuid4()), "runId": str(uuid.uuid4()), "name": f"q{n}"} for n in range(4)]
    assert harness.accept(Driver().status(*entries)).stored == 1
    assert sorted(str(view.name) for view in harness.window.views()) == ["q0", "q1"]
    assert quota.refused == {("max_queries_per_app", "shop"): 2}


def test_failed_starts_without_an_id_count_by_their_name(harness: StoreHarness, elapsed: Elapsed) -> None:
    limited(harness, elapsed, max_queries_per_app=1)
    driver = Driver()
    lines = [driver.line("start_failed", {"name": name, "exception": "boom"}) for name in ("a", "a", "b")]
    assert harness.accept(*lines).stored == 2


def test_queries_that_ended_over_a_day_ago_are_not_counted(harness: StoreHarness, elapsed: Elapsed) -> None:
    """A notebook has new query ids every day; it must not be refused when it has had enough of them."""
    limited(harness, elapsed, max_queries_per_app=2)
    driver, old = Driver(), [(str(uuid.uuid4()), str(uuid.uuid4())) for _ in range(2)]
    harness.accept(*(driver.started(*ids) for ids in old), driver.terminated(*old[0]))
    harness.now += DAY_SECONDS + 60
    elapsed.seconds += quotas.COUNT_SECONDS
    harness.accept(driver.line("heartbeat", {}, at=harness.now))
    assert harness.accept(*starts(driver, 2)).stored == 1  # one of the old queries still runs


def test_an_app_over_its_rate_is_asked_to_wait_and_others_are_not(
    harness: StoreHarness, elapsed: Elapsed
) -> None:
    quota = limited(harness, elapsed, max_events_per_second_per_app=10)
    flood, calm = Driver(app="flood"), Driver(app="calm")
    heartbeats = [flood.line("heartbeat", {}) for _ in range(150)]
    assert harness.accept(*heartbeats).stored == 150  # a request that began within the burst is taken whole
    with pytest.raises(TooManyEvents) as caught:
        harness.accept(flood.line("heartbeat", {}))
    assert caught.value.retry_after == pytest.approx(6.0)  # 50 events over the burst, and one second
    assert harness.accept(calm.line("heartbeat", {})).stored == 1
    elapsed.seconds += 6.0
    assert harness.accept(flood.line("heartbeat", {})).stored == 1
    assert quota.refused == {("max_events_per_second_per_app", "flood"): 1}


def test_the_metric_names_a_bounded_number_of_apps(
    harness: StoreHarness, elapsed: Elapsed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quotas, "MAX_NAMED_APPS", 2)
    quota = limited(harness, elapsed, max_queries=1)
    for n in range(5):
        harness.accept(*starts(Driver(app=f"app{n}"), 1))
    assert quota.refused == {
        ("max_queries", "app1"): 1,
        ("max_queries", "app2"): 1,
        ("max_queries", quotas.OTHER_APPS): 2,
    }
