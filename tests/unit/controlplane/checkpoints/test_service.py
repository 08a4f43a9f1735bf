"""The doctor's space on a real store: who is asked to look, where, and what is kept."""

from __future__ import annotations

import shutil
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from controlplane.actions.outbox import Outbox
from controlplane.actions.service import ActionService
from controlplane.checkpoints import service as module
from controlplane.checkpoints.changes import ChangeService
from controlplane.checkpoints.inventory import roots
from controlplane.checkpoints.service import CheckpointService
from controlplane.health.verdicts import VerdictLog
from controlplane.model import CheckpointLogs, CheckpointSummary, QueryView
from controlplane.settings import Settings
from controlplane.store import checkpoints
from controlplane.store import shapes as stored_shapes
from listeners.protocol.wire import CommandResult
from tests.acceptance.checkpoint_files import write
from tests.acceptance.live import eventually
from tests.drivers import BEGIN, Driver
from tests.stores import StoreHarness, sqlite_harness
from tests.unit.controlplane.checkpoints.test_inventory_events import GOOD
from tests.unit.controlplane.shapes import shapes


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[StoreHarness]:
    with sqlite_harness(tmp_path) as opened:
        yield opened


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture
def service(harness: StoreHarness, lake: Path) -> Iterator[CheckpointService]:
    outbox, window = Outbox(), harness.window

    def clock() -> float:
        return harness.now

    made = CheckpointService(harness.writer, window, outbox, harness.engine.connect, clock, (str(lake),))
    actions = ActionService(harness.writer, window, outbox, clock, made)
    made.changes = ChangeService(actions, window, VerdictLog(), made.request, Settings(), clock)
    harness.ingest.listeners.append(made.on_events)
    made.start()
    yield made
    made.stop()


def left_behind(harness: StoreHarness, place: Path) -> QueryView:
    """A query with a checkpoint there, whose driver has ended."""
    query_id, run_id, driver = str(uuid.uuid4()), str(uuid.uuid4()), Driver()
    write(place, query_id, 1)
    harness.accept(driver.started(query_id, run_id))
    harness.accept(
        driver.status({"id": query_id, "runId": run_id, "facts": {"checkpoint": f"file://{place}"}})
    )
    harness.accept(driver.line("app_ended", {"reason": "exit"}))
    return view_of(harness, query_id)


def view_of(harness: StoreHarness, query_id: str) -> QueryView:
    view = harness.window.view(query_id)
    assert view is not None
    return view


def seen(harness: StoreHarness, view: QueryView) -> CheckpointSummary:
    return eventually(lambda: view_of(harness, view.query_id).checkpoint)


def trouble(service: CheckpointService, view: QueryView) -> str:
    return eventually(lambda: service.trouble(view.query_id))


def held(monkeypatch: pytest.MonkeyPatch, gate: threading.Event, name: str) -> Callable[[], bool]:
    """Let the file system hang at a name until the gate opens; whether it hangs."""
    real, hangs = roots.os.path.realpath, threading.Event()

    def hanging(path: str, **more: Any) -> str:
        if str(path).endswith(name):
            hangs.set()
            gate.wait(30)
        return str(real(path, **more))

    monkeypatch.setattr(roots.os.path, "realpath", hanging)
    return hangs.is_set


def test_without_an_agent_the_server_collects(
    harness: StoreHarness, service: CheckpointService, lake: Path
) -> None:
    view = left_behind(harness, lake / "orders")
    assert service.request(view) == "server"
    assert (seen(harness, view).verdict, seen(harness, view).checkpoint) == ("ok", f"file://{lake}/orders")


def test_hanging_mount_does_not_block_requests(
    harness: StoreHarness, service: CheckpointService, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    view, gate = left_behind(harness, lake / "dead"), threading.Event()
    hangs = held(monkeypatch, gate, "lake/dead")
    try:
        harness.write(lambda connection: service.request_before_start(view))
        assert eventually(hangs)
        assert service.pending_request(view.query_id), "it was asked, and nobody waits for it"
        harness.accept(Driver().started("another", "r2"))
        assert view_of(harness, "another")
    finally:
        gate.set()
    assert seen(harness, view).verdict == "ok"


def test_a_link_out_of_the_roots_is_not_followed(
    harness: StoreHarness, service: CheckpointService, lake: Path
) -> None:
    view = left_behind(harness, lake.parent / "secret")
    lake.mkdir()
    (lake / "way-out").symlink_to(lake.parent / "secret")
    service.request(replace(view, facts=replace(view.facts, checkpoint=f"file://{lake}/way-out")))
    assert "not below a checkpoint root of the server" in trouble(service, view)
    assert view_of(harness, view.query_id).checkpoint is None


def swapped(place: Path) -> None:
    """A link to a checkpoint outside the roots takes the place of this one."""
    write(place.parent.parent / "secret", str(uuid.uuid4()), 7)
    shutil.rmtree(place)
    place.symlink_to(place.parent.parent / "secret")


def test_a_link_that_takes_the_place_of_a_checkpoint_while_it_waits_leads_nowhere(
    harness: StoreHarness, service: CheckpointService, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, evil, gate = (
        left_behind(harness, lake / "slow"),
        left_behind(harness, lake / "evil"),
        threading.Event(),
    )
    hangs = held(monkeypatch, gate, "lake/slow")
    try:
        service.request(slow)
        assert eventually(hangs)
        assert service.request(evil) == "server"
        swapped(lake / "evil")
    finally:
        gate.set()
    assert "not below a checkpoint root of the server" in trouble(service, evil)
    assert view_of(harness, evil.query_id).checkpoint is None


def test_link_replacing_a_checkpoint_during_the_listing_is_refused(
    harness: StoreHarness, service: CheckpointService, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evil, really = left_behind(harness, lake / "evil"), module.collect

    def collect(url: str, *arguments: Any, **more: Any) -> Any:
        swapped(lake / "evil")
        return really(url, *arguments, **more)

    monkeypatch.setattr(module, "collect", collect)
    service.request(evil)
    assert "it was replaced by a link" in trouble(service, evil)
    assert view_of(harness, evil.query_id).checkpoint is None


def test_inventory_of_an_unknown_query_is_dropped(harness: StoreHarness, service: CheckpointService) -> None:
    known, driver = "known", Driver()
    harness.accept(driver.started(known, "r1"))
    for query_id in ("nobody", known):
        harness.accept(driver.line("inventory", {"id": query_id, "runId": "r1", "inventory": GOOD}))
    assert eventually(lambda: view_of(harness, known).checkpoint)
    assert set(harness.read(checkpoints.latest_reports)) == {known}


def test_change_that_failed_is_known_with_its_run_and_after_a_restart(
    harness: StoreHarness, service: CheckpointService
) -> None:
    driver, counted = Driver(), shapes.reported(shapes.aggregate())
    for run_id, shape in (("good", counted), ("bad", shapes.reported(shapes.deduplicate(shapes.key("k"))))):
        harness.accept(driver.started("q", run_id))
        harness.accept(driver.status({"id": "q", "runId": run_id, "facts": {"shape": shape}}))
        if run_id == "good":
            harness.accept(driver.progress("q", run_id, 0))
            assert eventually(lambda: harness.read(stored_shapes.of_run, "good"))
        harness.accept(driver.terminated("q", run_id, None if run_id == "good" else "no state"))
    change = eventually(lambda: view_of(harness, "q").change)
    assert (change.run_id, change.fails) == ("bad", True)
    assert "were aggregate and are deduplicate" in change.change
    harness.window.load(harness.engine.connect())
    harness.read(service.load)
    assert view_of(harness, "q").change == change
    harness.accept(driver.started("q", "next"))
    assert view_of(harness, "q").change is None, "it is of an earlier run"


def test_outdated_checkpoint_of_a_dead_driver_is_read_by_the_server(
    harness: StoreHarness, service: CheckpointService, lake: Path
) -> None:
    view = left_behind(harness, lake / "orders")
    service.tick()
    assert seen(harness, view).collector.startswith("server")


def test_checkpoint_that_its_agent_refuses_to_read_is_read_by_the_server(
    harness: StoreHarness, service: CheckpointService, lake: Path
) -> None:
    query_id, run_id, driver = str(uuid.uuid4()), str(uuid.uuid4()), Driver()
    write(lake / "orders", query_id, 1)
    harness.accept(driver.started(query_id, run_id))
    facts = {"checkpoint": f"file://{lake}/orders"}
    harness.accept(driver.status({"id": query_id, "runId": run_id, "facts": facts}))
    harness.now = BEGIN + 5
    assert service.request(view_of(harness, query_id)) == "agent"
    command = service.pending_request(query_id)
    service.answer(command.id, CommandResult("refused", "a Connect client", "unsupported_session"), None)
    assert seen(harness, view_of(harness, query_id)).verdict == "ok"
    assert eventually(lambda: service.pending_request(query_id) is None)
    assert service.trouble(query_id) is None


def test_reading_of_the_logs_is_kept_with_the_newest_inventory(
    harness: StoreHarness, service: CheckpointService
) -> None:
    driver = Driver()
    harness.accept(driver.started("q", "r1"))
    read = {"id": "q", "runId": "r1", "seconds": 0.5, "planned": 9, "committed": 8}
    harness.accept(driver.line("checkpoint_logs", read))
    assert view_of(harness, "q").checkpoint is None
    harness.accept(driver.line("inventory", {"id": "q", "runId": "r1", "why": "started", "inventory": GOOD}))
    taken = seen(harness, view_of(harness, "q")).taken_at
    harness.accept(driver.line("checkpoint_logs", read, at=taken - 1))
    assert view_of(harness, "q").checkpoint.logs is None, "the inventory is newer"
    harness.accept(driver.line("checkpoint_logs", read, at=taken + 60))
    assert view_of(harness, "q").checkpoint.logs == CheckpointLogs(taken + 59.5, 9, 8)
    assert service.pending_request("q") is None


def test_logs_that_lack_a_reported_batch_lead_to_an_inventory(
    harness: StoreHarness, service: CheckpointService
) -> None:
    driver = Driver()
    harness.accept(driver.started("q", "r1"))
    harness.accept(driver.line("inventory", {"id": "q", "runId": "r1", "why": "started", "inventory": GOOD}))
    taken = seen(harness, view_of(harness, "q")).taken_at
    harness.accept(driver.progress("q", "r1", 59, at=taken + 100))
    harness.now = taken + 2000
    late = {"id": "q", "runId": "r1", "seconds": 0.1, "planned": 3, "committed": 3}
    harness.accept(driver.line("checkpoint_logs", late, at=taken + 1999))
    assert service.pending_request("q").by == "agent"
