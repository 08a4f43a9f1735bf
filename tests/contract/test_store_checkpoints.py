"""What every store must keep of checkpoints: inventories, verdicts and shapes, the newest few of each query."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlalchemy import func, select

from controlplane.store import checkpoints, queries, retention, shapes
from controlplane.store.checkpoints import MAX_DOCUMENTS, MAX_SUMMARIES, StoredInventory
from controlplane.store.shapes import MAX_SHAPES, ShapeOwner
from controlplane.store.tables import inventories
from tests.drivers import BEGIN, Driver
from tests.stores import StoreHarness

PRINTED = {"verdict": "ok", "summary": "it will resume at batch 3 🔥", "findings": []}
WHOSE = ShapeOwner("r1", "q1", "shop", "orders", "/lake/c", 100.0)


def taken(at: float, query_id: str = "q1", place: str = "/lake/c") -> StoredInventory:
    document = checkpoints.pack({"checkpoint": {"root": place, "at": at}, "output": None})
    return StoredInventory(query_id, "r1", place, at, {"files": int(at), "bytes": 10}, document)


def put(harness: StoreHarness, at: float, **more: Any) -> bool:
    return bool(harness.write(checkpoints.put, taken(at, **more), at + 1, {**PRINTED, "batch": at}))


def test_the_newest_inventory_counts_in_whatever_order_they_come(harness: StoreHarness) -> None:
    assert put(harness, 20.0) is True
    assert put(harness, 10.0) is False
    assert put(harness, 30.0) is True
    report = harness.read(checkpoints.latest_report, "q1")
    assert (report["taken_at"], report["batch"]) == (30.0, 30.0)
    assert report["summary"] == "it will resume at batch 3 🔥"
    assert harness.read(checkpoints.document, "q1") == {
        "checkpoint": {"root": "/lake/c", "at": 30.0},
        "output": None,
    }
    assert [header["files"] for header in harness.read(checkpoints.inventory_summaries, "q1")] == [10, 20, 30]
    assert set(harness.read(checkpoints.latest_reports)) == {"q1"}


def test_of_a_query_only_the_newest_are_kept_and_fewer_of_them_whole(harness: StoreHarness) -> None:
    for at in range(MAX_SUMMARIES + 5):
        put(harness, float(at + 1))
    put(harness, 1.0, query_id="q2")
    kept = harness.read(checkpoints.inventory_summaries, "q1")
    assert [header["taken_at"] for header in kept] == [float(at) for at in range(6, MAX_SUMMARIES + 6)]
    with harness.engine.connect() as connection:
        whole = connection.execute(select(func.count(inventories.c.document))).scalar()
    assert whole == MAX_DOCUMENTS + 1


def test_what_is_not_there_is_none(harness: StoreHarness) -> None:
    for question in (checkpoints.latest_report, checkpoints.document, shapes.newest, shapes.of_run):
        assert harness.read(question, "nobody") is None
    assert harness.read(checkpoints.inventory_summaries, "nobody") == []


def test_the_query_that_used_the_same_place_before_is_found(harness: StoreHarness) -> None:
    put(harness, 10.0, query_id="old")
    put(harness, 20.0, query_id="new")
    put(harness, 5.0, query_id="elsewhere", place="/lake/other")
    assert harness.read(checkpoints.previous_query, "/lake/c", "new") == "old"
    assert harness.read(checkpoints.previous_query, "/lake/c", "old") is None
    assert harness.read(checkpoints.previous_query, "/lake/c", "not yet seen") == "new"


def test_reports_come_back_as_spark_wrote_them_oldest_first(harness: StoreHarness) -> None:
    driver = Driver()
    harness.accept(*(driver.progress("q", "r", batch) for batch in range(5)))
    found = harness.read(checkpoints.progress_before, "q", BEGIN + 4, 3)
    assert [report["batchId"] for _, report in found] == [1, 2, 3]
    assert found[0][1]["sources"][0]["endOffset"] == 10


def test_a_shape_is_kept_once_a_run_and_found_by_query_place_or_name(harness: StoreHarness) -> None:
    shape = {"v": 1, "sources": [{"type": "naïve 数据"}]}
    assert harness.write(shapes.put, WHOSE, shape, None) is True
    assert harness.write(shapes.put, WHOSE, {"v": 2}, None) is False
    later = replace(WHOSE, run_id="r2", at=200.0)
    harness.write(shapes.put, later, {"v": 1}, {"verdict": "allowed"})
    assert harness.read(shapes.newest, "q1")["comparison"] == {"verdict": "allowed"}
    assert harness.read(shapes.of_run, "r1")["shape"] == shape
    unknown = replace(WHOSE, run_id="r9", query_id="", at=300.0)
    assert harness.read(shapes.baseline, replace(later, at=200.0))["run_id"] == "r1"
    assert harness.read(shapes.baseline, unknown)["run_id"] == "r2"
    assert harness.read(shapes.baseline, replace(unknown, checkpoint=None))["run_id"] == "r2"
    assert harness.read(shapes.baseline, replace(unknown, checkpoint="/lake/new")) is None
    assert harness.read(shapes.baseline, replace(unknown, app="other", checkpoint=None)) is None


def runs_of(harness: StoreHarness, query_id: str, *runs: tuple[str, bool]) -> None:
    """Runs with a shape each, in this order; True: it committed a batch, else it failed."""
    driver = Driver()
    for run_id, commits in runs:
        harness.accept(driver.started(query_id, run_id))
        if commits:
            harness.accept(driver.progress(query_id, run_id, driver.seq))
        harness.accept(driver.terminated(query_id, run_id, None if commits else "failed"))
        owner = replace(WHOSE, run_id=run_id, query_id=query_id, at=100.0 + driver.seq)
        harness.write(shapes.put, owner, {"v": 1}, None)


def test_baseline_is_the_newest_run_that_committed_a_batch(harness: StoreHarness) -> None:
    """The second try of a change was let through: the first, failed one counted as the last run."""
    runs_of(harness, "q1", ("a", True), ("b", True), ("changed", False))
    again = replace(WHOSE, run_id="again", at=500.0)
    assert harness.read(shapes.baseline, again)["run_id"] == "b"
    assert harness.read(shapes.baseline, replace(again, query_id=""))["run_id"] == "b"
    assert harness.read(shapes.newest, "q1")["run_id"] == "changed"


def test_a_deleted_checkpoint_has_no_baseline(harness: StoreHarness) -> None:
    runs_of(harness, "q1", ("a", True))
    anew = replace(WHOSE, run_id="new", query_id="q2", at=500.0)
    assert harness.read(shapes.baseline, anew) is None


def test_newest_comparison_of_each_query_is_listed(harness: StoreHarness) -> None:
    for number, (query_id, run_id) in enumerate((("q1", "a"), ("q2", "b"), ("q1", "c"))):
        owner = replace(WHOSE, query_id=query_id, run_id=run_id, at=float(number))
        harness.write(shapes.put, owner, {"v": 1}, {"verdict": run_id} if run_id != "b" else None)
    found = harness.read(shapes.newest_comparisons)
    assert sorted(found) == [("q1", "c", {"verdict": "c"}), ("q2", "b", None)]


def test_failed_runs_do_not_displace_the_baseline(harness: StoreHarness) -> None:
    runs_of(harness, "q1", ("good", True), *((f"bad{n}", False) for n in range(MAX_SHAPES + 3)))
    assert harness.read(shapes.baseline, replace(WHOSE, run_id="x", at=500.0))["run_id"] == "good"
    assert harness.read(shapes.of_run, "bad0") is None


def test_of_a_query_only_the_newest_shapes_are_kept(harness: StoreHarness) -> None:
    for number in range(MAX_SHAPES + 3):
        harness.write(shapes.put, replace(WHOSE, run_id=f"r{number}", at=float(number)), {"v": 1}, None)
    assert harness.read(shapes.of_run, "r2") is None
    assert harness.read(shapes.of_run, "r3") is not None


def test_what_is_known_of_a_query_goes_with_it(harness: StoreHarness) -> None:
    driver = Driver()
    harness.accept(driver.started("q1", "r1"), driver.terminated("q1", "r1"))
    put(harness, 10.0)
    harness.write(shapes.put, WHOSE, {"v": 1}, None)
    harness.write(queries.retire, "q1", BEGIN + 5)
    pruned = retention.prune(harness.writer, BEGIN + 1e6, 100.0, 1 << 30)
    assert pruned.queries == 1
    assert harness.read(checkpoints.latest_reports) == {}
    assert harness.read(shapes.newest, "q1") is None
