"""The window follows the store, and the store gives it back after a restart."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from controlplane.events import window as window_module
from controlplane.events.window import Window
from controlplane.ingest.service import IngestService
from controlplane.model import Action, ActionState, QueryView
from controlplane.store import actions
from tests.drivers import BEGIN, Driver, real_reports, report
from tests.stores import StoreHarness, sqlite_harness


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[StoreHarness]:
    with sqlite_harness(tmp_path) as opened:
        yield opened


def by_id(window: Window) -> dict[str, QueryView]:
    return {view.query_id: view for view in window.views()}


ACTION = Action("a", "q", "shop", "orders", "stop", "ada", ActionState.REQUESTED, BEGIN, BEGIN + 60)


def test_a_restart_gives_the_same_window(harness: StoreHarness) -> None:
    item, two = Driver(labels={"team": "x"}), Driver(app="other")
    harness.accept(
        item.line("app_started", {"actions": "stop"}), *(item.line("progress", r) for r in real_reports())
    )
    harness.accept(
        *(item.progress("q", "r1", n) for n in range(130)), item.terminated("q", "r1", exception="boom")
    )
    harness.accept(
        item.started("q", "r2"),
        item.progress("q", "r2", 130),
        item.line("idle", {"id": "q", "runId": "r2"}),
        item.status(
            {"id": "q", "runId": "r2", "message": "Waiting", "facts": {"trigger": "once", "sink": "delta"}}
        ),
        two.started("p", "r9", name=None),
        two.line("heartbeat", {"dropped": {"x": 1}}),
        two.line("start_failed", {"id": None, "name": "never", "exception": "no table"}),
    )
    harness.write(actions.insert, ACTION)
    harness.window.set_action("q", ACTION)
    again = harness.reloaded()
    assert by_id(again) == by_id(harness.window)
    assert again.agents() == harness.window.agents()
    assert again.agent_info(two.agent) == harness.window.agent_info(two.agent)
    assert again.totals("q") == harness.window.totals("q")


def test_the_window_holds_the_newest_samples_of_all_runs_in_the_order_of_time(harness: StoreHarness) -> None:
    driver = Driver()
    late = driver.progress("q", "r1", 0)
    harness.accept(*(driver.progress("q", f"r{n // 100}", n) for n in range(1, 200)))
    harness.accept(late)
    view = harness.window.view("q")
    assert view is not None
    assert [sample.batch_id for sample in view.progress] == list(range(80, 200))
    assert harness.reloaded().view("q") == view


def test_a_snapshot_does_not_change_when_the_window_does(harness: StoreHarness) -> None:
    driver = Driver()
    harness.accept(driver.progress("q", "r", 0))
    before = harness.window.view("q")
    harness.accept(driver.progress("q", "r", 1))
    assert before is not None
    assert len(before.progress) == 1
    assert harness.window.view("q") != before


def test_what_is_not_stored_is_not_in_the_window(harness: StoreHarness) -> None:
    harness.accept(Driver().started("q", "r"))
    harness.writer.stop()
    with pytest.raises(Exception, match="not open"):
        harness.accept(Driver().started("p", "r2"))
    assert harness.window.view("p") is None


def test_an_action_is_shown_until_it_is_final(harness: StoreHarness) -> None:
    harness.accept(Driver().started("q", "r"))
    harness.window.set_action("q", ACTION)
    view = harness.window.view("q")
    assert view is not None
    assert view.action == ACTION
    harness.window.set_action("q", replace(ACTION, state=ActionState.SUCCEEDED))
    view = harness.window.view("q")
    assert view is not None
    assert view.action is None


def test_a_heartbeat_shows_on_every_query_of_the_agent(harness: StoreHarness) -> None:
    driver = Driver()
    harness.accept(driver.started("q", "r1"), driver.started("p", "r2"))
    before = harness.window.views()
    harness.accept(driver.line("heartbeat", {}))
    kept = zip(harness.window.views(), before, strict=True)
    assert all(view is known for view, known in kept)  # a sign of life alone is no news
    views = [harness.window.view(query_id) for query_id in ("q", "p")]
    assert [view and view.agent and view.agent.last_seen_at for view in views] == [BEGIN + 3] * 2
    harness.accept(driver.line("heartbeat", {"executors": 2}))
    assert [view.executors for view in harness.window.views()] == [2, 2]


def test_a_poll_that_lacks_a_query_is_news_of_it(harness: StoreHarness) -> None:
    driver = Driver()
    harness.accept(driver.started("q", "r1"), driver.started("p", "r2"))
    harness.window.views()
    listed = [{"id": "p", "runId": "r2", "message": "", "isDataAvailable": True, "isTriggerActive": False}]
    harness.accept(driver.line("status", {"queries": listed, "listedAt": BEGIN + 3}))
    assert [view.polls for view in harness.window.views()] == [(BEGIN + 3,)] * 2


def test_a_window_loaded_in_steps_is_the_window_loaded_at_once(
    harness: StoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = Driver()
    for batch in range(8):
        harness.accept(*(driver.progress(query, f"run of {query}", batch) for query in "abc"))
    driver.seq = 1_000
    stepwise = Window()
    harness.read(stepwise.load, 2)
    assert [len(view.progress) for view in stepwise.views()] == [2, 2, 2]
    harness.window = stepwise
    harness.ingest = IngestService(harness.writer, stepwise, clock=lambda: harness.now)
    harness.accept(driver.progress("a", "run of a", 9))
    late = driver.line("progress", report("b", "run of b", 20, BEGIN + 2), BEGIN + 2.5)
    harness.accept(late)
    assert harness.read(stepwise.complete, 2) == 1
    assert [stepwise.is_complete(query) for query in "abc"].count(False) == 1
    assert harness.read(stepwise.complete, 2) == 0
    assert sorted(stepwise.views(), key=str) == sorted(harness.reloaded().views(), key=str)


def test_a_large_fleet_keeps_fewer_samples_of_each_query(
    harness: StoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(window_module, "MAX_SAMPLES", 8)
    monkeypatch.setattr(window_module, "MIN_WINDOW_LENGTH", 3)
    driver = Driver()
    for batch in range(6):
        harness.accept(driver.progress("a", "run of a", batch))
    assert harness.window.length == 8
    harness.accept(driver.progress("b", "run of b", 0), driver.progress("c", "run of c", 0))
    harness.accept(driver.progress("a", "run of a", 6))
    for window in (harness.window, harness.reloaded()):
        view = window.view("a")
        assert view is not None
        assert [sample.batch_id for sample in view.progress] == [4, 5, 6]
        assert window.length == 3


def test_an_overload_of_the_host_is_remembered_after_it_has_passed(harness: StoreHarness) -> None:
    driver = Driver()
    harness.accept(driver.started("q", "r1"))
    for load in (40.0, 1.0):
        harness.accept(driver.line("heartbeat", {"hostLoad": {"load": load, "cpus": 2}}))
    for window in (harness.window, harness.reloaded()):
        (view,) = window.views()
        assert view.host is not None and (view.host.load, view.host.at) == (1.0, BEGIN + 3)
        assert view.overload is not None and (view.overload.load, view.overload.at) == (40.0, BEGIN + 2)


def test_a_query_on_a_new_checkpoint_takes_the_place_of_the_old_one(harness: StoreHarness) -> None:
    driver = Driver()
    harness.accept(driver.started("old", "r1"), driver.terminated("old", "r1"), driver.started("new", "r2"))
    for window in (harness.window, harness.reloaded()):
        assert window.superseded("old") == "new"
        assert window.superseded("new") is None
        assert window.lineage("shop", "orders") == ["old", "new"]


def test_queries_of_one_name_that_run_side_by_side_do_not_hide_each_other(harness: StoreHarness) -> None:
    driver = Driver()
    harness.accept(driver.started("one", "r1"), driver.started("two", "r2"))
    assert harness.window.superseded("one") is None
    harness.accept(driver.terminated("one", "r1"))
    assert harness.window.superseded("one") == "two"


def test_two_drivers_that_both_live_do_not_hide_each_other_even_when_one_dies_later(
    harness: StoreHarness,
) -> None:
    first, second = Driver(), Driver()
    harness.accept(first.started("one", "r1", at=BEGIN))
    harness.accept(second.started("two", "r2", at=BEGIN + 100))
    assert harness.window.superseded("one") == "two"  # as after a redeploy on a new checkpoint
    harness.accept(first.line("heartbeat", {}, BEGIN + 200))
    assert harness.window.superseded("one") is None
    harness.accept(second.line("heartbeat", {}, BEGIN + 900))
    assert harness.window.superseded("one") is None
    harness.accept(first.terminated("one", "r1", at=BEGIN + 901))
    assert harness.window.superseded("one") == "two"


def test_queries_without_a_name_never_take_each_other_s_place(harness: StoreHarness) -> None:
    driver = Driver()
    harness.accept(driver.started("one", "r1", name=None), driver.started("two", "r2", name=None))
    assert harness.window.superseded("one") is None
    assert harness.window.lineage("shop", None) == []


def test_a_query_that_failed_before_it_had_an_id_gives_way_to_the_one_that_starts(
    harness: StoreHarness,
) -> None:
    driver = Driver()
    harness.accept(driver.line("start_failed", {"id": None, "name": "orders", "exception": "no table"}))
    (unstarted,) = harness.window.views()
    harness.accept(driver.started("q", "r"))
    assert harness.window.superseded(unstarted.query_id) == "q"


def test_a_query_put_away_and_one_forgotten(harness: StoreHarness) -> None:
    harness.accept(Driver().started("q", "r"))
    harness.window.retire("q", BEGIN + 9)
    view = harness.window.view("q")
    assert view is not None
    assert view.retired_at == BEGIN + 9
    harness.window.forget(["q", "nobody"])
    assert harness.window.views() == []
    assert harness.window.totals("q") == {}


def test_an_unknown_id_has_no_owner(harness: StoreHarness) -> None:
    assert harness.window.view("nobody") is None
    assert harness.window.superseded("nobody") is None
    assert harness.window.agent("nobody") is None
    harness.window.set_action("nobody", ACTION)
    assert harness.window.views() == []


def test_many_may_read_while_one_writes(harness: StoreHarness) -> None:
    driver, done, seen = Driver(), threading.Event(), []

    def look() -> None:
        while not done.is_set():
            for view in harness.window.views():
                ids = [sample.batch_id for sample in view.progress]
                if ids != sorted(ids):
                    seen.append(ids)

    readers = [threading.Thread(target=look) for _ in range(3)]
    for reader in readers:
        reader.start()
    for n in range(40):
        harness.accept(driver.progress("q", "r", n), driver.progress("p", "s", n))
    done.set()
    for reader in readers:
        reader.join()
    assert seen == []


class CountingLock:
    """A window's lock that counts the views that are built under each hold of it."""

    def __init__(self, window: Window, monkeypatch: pytest.MonkeyPatch):
        self._lock, self._depth, self.built = threading.RLock(), 0, [0]
        build = window._build_view

        def counted(query: Any) -> Any:
            self.built[-1] += 1
            return build(query)

        monkeypatch.setattr(window, "_build_view", counted)
        monkeypatch.setattr(window, "_lock", self)

    def __enter__(self) -> None:
        self._lock.acquire()
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if not self._depth:
            self.built.append(0)
        self._lock.release()


def test_reading_the_fleet_lets_commits_and_requests_in_between(
    harness: StoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controlplane.events.window.MAX_REFRESHED", 2)
    driver, names = Driver(), [f"q{n}" for n in range(7)]
    harness.accept(*(driver.started(name, f"r-{name}") for name in names))
    lock = CountingLock(harness.window, monkeypatch)
    assert len(harness.window.fleet()) == 7
    assert (max(lock.built), sum(lock.built)) == (2, 7)


def test_a_request_soon_after_another_does_not_wait_for_the_window(
    harness: StoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver, now = Driver(), BEGIN + 600
    harness.accept(driver.started("q", "r"))
    harness.window.note_contact(driver.agent, now)
    lock = CountingLock(harness.window, monkeypatch)
    harness.window.note_contact(driver.agent, now + 1)
    assert lock.built == [0]
    harness.window.note_contact(driver.agent, now + 60)
    assert len(lock.built) == 2


def test_a_contact_lasts_over_later_events_and_not_over_a_restart(harness: StoreHarness) -> None:
    driver, now = Driver(), BEGIN + 600
    harness.accept(driver.started("q", "r"))
    harness.window.note_contact(driver.agent, now)
    harness.accept(driver.progress("q", "r", 0))
    agents = harness.window.agent(driver.agent), by_id(harness.window)["q"].agent
    assert [agent and agent.last_contact_at for agent in agents] == [now, now]
    reloaded = harness.reloaded().agent(driver.agent)
    assert reloaded is not None
    assert reloaded.last_contact_at < now


def test_a_request_right_after_an_event_changes_no_view(harness: StoreHarness) -> None:
    driver = Driver()
    harness.accept(driver.started("q", "r"))
    before = by_id(harness.window)["q"]
    assert before.agent is not None
    harness.window.note_contact(driver.agent, before.agent.last_seen_at + 5)
    assert by_id(harness.window)["q"] is before
