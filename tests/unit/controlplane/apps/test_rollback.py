"""Tests of the evidence for a rollback: health of queries, what changed, and what checkpoints hold."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from controlplane.apps.model import AppVersion, StartedDriver
from controlplane.apps.rollback import MAX_REQUESTS, RollbackCheck, VersionEvidence
from controlplane.errors import Conflict
from controlplane.health.checkpoint_verdict import NOT_ALLOWED
from controlplane.model import Agent, CheckpointSummary, QueryView, RunEnd
from controlplane.store import checkpoints, shapes
from controlplane.store.checkpoints import StoredInventory
from controlplane.store.shapes import ShapeOwner
from tests.stores import StoreHarness, sqlite_harness
from tests.unit.controlplane import situations
from tests.unit.controlplane.shapes.shapes import reported
from tests.unit.controlplane.situations import NOW

SINCE, ENDED_AT = NOW - 300, NOW - 10
DRIVER = StartedDriver(
    "shop", "l3", "process", {}, "7", NOW - 60, "x", {}, ENDED_AT, "", AppVersion({}, SINCE)
)
FRESH = CheckpointSummary(NOW - 5, "ok", "fine", "/c", run_id="run-1")
CRASHED = situations.run(started_at=NOW - 50, ended_at=ENDED_AT, end=RunEnd.FAILED)
VIEW = situations.view(run=CRASHED, checkpoint=FRESH)


@dataclass
class Fakes:
    """A window with one query, and a doctor that notes who asks it."""

    view: QueryView = VIEW
    known: list[Agent] = field(default_factory=list)
    pending: bool = False
    failed: str | None = None
    error: str | None = None
    asked: int = 0

    def fleet(self) -> list[QueryView]:
        return [self.view]

    def agents(self) -> list[Agent]:
        return self.known

    def pending_request(self, query_id: str) -> object | None:
        return object() if self.pending else None

    def trouble(self, query_id: str) -> str | None:
        return self.failed

    def request_before_start(self, view: QueryView) -> None:
        self.asked += 1
        if self.error:
            raise Conflict(self.error)


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreHarness]:
    with sqlite_harness(Path(tmp_path_factory.mktemp("store"))) as made:
        yield made


@pytest.fixture
def store(harness: StoreHarness) -> StoreHarness:
    harness.write(shapes.delete_queries, ["q1"])
    harness.write(checkpoints.delete_queries, ["q1"])
    return harness


def evidence(store: StoreHarness, fakes: Fakes) -> VersionEvidence:
    @contextmanager
    def reading() -> Iterator[Any]:
        with store.engine.connect() as connection:
            yield connection

    return VersionEvidence(fakes, fakes, reading, lambda: NOW)  # type: ignore[arg-type]


def put_shape(store: StoreHarness, at: float, comparison: dict[str, Any] | None = None, **more: Any) -> None:
    owner = ShapeOwner(f"run-{at}", "q1", "shop", "orders", "/c", at)
    store.write(shapes.put, owner, reported(**more), comparison)


def put_report(store: StoreHarness, *findings: dict[str, str]) -> None:
    document = checkpoints.pack({})
    taken = StoredInventory("q1", "run-1", "/c", NOW - 5, {"files": 1, "bytes": 1}, document)
    store.write(checkpoints.put, taken, NOW, {"verdict": "broken", "findings": list(findings)})


def test_a_version_is_healthy_while_every_query_of_its_driver_works(store: StoreHarness) -> None:
    running = situations.run(started_at=NOW - 50, last_batch_id=7)
    healthy = evidence(store, Fakes(replace(VIEW, run=running))).is_healthy(DRIVER)
    assert healthy
    for run in (CRASHED, replace(running, last_batch_id=None), replace(running, started_at=NOW - 3600)):
        assert not evidence(store, Fakes(replace(VIEW, run=run))).is_healthy(DRIVER)


def test_changes_name_spark_and_the_plan(store: StoreHarness) -> None:
    findings = {"findings": [{"change": "a column was dropped"}]}
    put_shape(store, SINCE + 1, findings)
    agents = [
        situations.agent(spark_version="4.0.1", first_seen_at=SINCE - 9),
        situations.agent(spark_version="4.3.0", first_seen_at=SINCE + 9),
    ]
    found = evidence(store, Fakes(known=agents)).changes(DRIVER)
    assert found == ["Spark 4.0.1 → 4.3.0", "query orders: a column was dropped"]


def test_a_checkpoint_to_which_the_new_version_has_committed_nothing_allows_a_rollback(
    store: StoreHarness,
) -> None:
    put_shape(store, SINCE - 100)
    put_report(store, {"check": NOT_ALLOWED, "severity": "error", "message": "The query was changed."})
    assert evidence(store, Fakes()).check(DRIVER) == RollbackCheck()


def test_a_broken_checkpoint_refuses(store: StoreHarness) -> None:
    put_report(store, {"check": "ckpt.offsets", "severity": "error", "message": "Offsets are damaged."})
    refusal = evidence(store, Fakes()).check(DRIVER).refusal
    assert refusal == "the checkpoint of orders is broken: Offsets are damaged."


@pytest.mark.parametrize(
    ("more", "refused"), [({}, False), ({"spark": "4.4.0"}, True), ({"operators": None}, True)]
)
def test_what_the_new_version_has_committed_must_fit_the_earlier_one(
    store: StoreHarness, more: dict[str, Any], refused: bool
) -> None:
    put_shape(store, SINCE - 100)
    put_shape(store, SINCE + 100, **more)
    refusal = evidence(store, Fakes()).check(DRIVER).refusal
    assert (refusal is not None) is refused
    assert not refused or "has committed batches to the checkpoint of orders" in str(refusal)


def test_committed_batches_of_unknown_shape_refuse(store: StoreHarness) -> None:
    view = replace(VIEW, run=replace(CRASHED, batches=3))
    assert "not known what" in str(evidence(store, Fakes(view)).check(DRIVER).refusal)


def test_an_inventory_is_awaited_and_asked_for_twice_at_most(store: StoreHarness) -> None:
    fakes = Fakes(replace(VIEW, checkpoint=replace(FRESH, taken_at=ENDED_AT - 5)))
    checks = evidence(store, fakes)
    assert checks.check(DRIVER).waiting
    fakes.pending = True
    assert (checks.check(DRIVER).waiting, fakes.asked) == (True, 1)
    fakes.pending, fakes.failed = False, "its agent delivered no inventory within 15 s"
    assert checks.check(DRIVER).waiting
    refused = checks.check(DRIVER)
    assert (fakes.asked, "was not checked: its agent" in str(refused.refusal)) == (MAX_REQUESTS, True)
    fakes.error = "the place of its checkpoint is not known"
    assert "place" in str(checks.check(replace(DRIVER, launch_id="l4")).refusal)


def test_without_a_known_query_there_is_nothing_to_check(store: StoreHarness) -> None:
    fakes = Fakes(replace(VIEW, app="other"))
    assert "no query of it is known" in str(evidence(store, fakes).check(DRIVER).refusal)
