"""Ingest on a real Spark: a landing zone to the lake and to a real server, each event once."""

from __future__ import annotations

import gzip
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from controlplane.errors import BadRequest
from controlplane.lake.lake import Lake
from controlplane.pipeline.ingest import ingest_job, landing_zone
from controlplane.pipeline.ingest.forwarding import Forwarder
from controlplane.pipeline.ingest.landing_zone import IngestSource
from listeners import attach
from listeners.delivery.backoff import Backoff
from listeners.delivery.transport import HttpTransport
from tests.acceptance.live import LiveServer, eventually, live_server
from tests.spark.landed import Zone, rejected, rows_by_duckdb, stored_rows

pytestmark = pytest.mark.spark

DAY = 86400.0


@pytest.fixture
def zone(tmp_path: Path) -> Zone:
    return Zone(tmp_path / "zone", seed=4)


@pytest.fixture
def own(spark: Any) -> Any:
    return ingest_job.stream_session(spark)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LiveServer]:
    with live_server(tmp_path / "data") as running:
        yield running


Take = Callable[..., ingest_job.IngestSummary]


@pytest.fixture
def take(own: Any, zone: Zone, tmp_path: Path) -> Take:
    """Take in what is there."""

    def take(
        checkpoint: str = "checkpoint", forwarder: Forwarder | None = None, **more: Any
    ) -> ingest_job.IngestSummary:
        lake = Lake.open(str(tmp_path / "lake"), create=True)
        printed: list[str] = []
        batches = ingest_job.MicroBatches(lake, DAY, forwarder, printed.append)
        source = IngestSource(str(zone.folder), **more)
        plan = ingest_job.IngestPlan(source, str(tmp_path / checkpoint), DAY, None)
        take.printed = printed  # type: ignore[attr-defined]
        return ingest_job.run_stream(
            own, plan, batches, threading.Event(), printed.append, Backoff(0.01, 0.02)
        )

    return take


def test_doubles_within_a_run_across_runs_and_across_checkpoints_are_taken_once(
    take: Take, zone: Zone, tmp_path: Path
) -> None:
    zone.drop(5)
    first = take()
    assert rows_by_duckdb(tmp_path / "lake") == sorted(zone.rows.values())
    again = zone.folder / "a folder below" / "again.ndjson.gz"  # an agent that sends all of it once more
    again.parent.mkdir()
    again.write_bytes(b"".join(path.read_bytes() for path in sorted(zone.folder.glob("*-*-*-*-*.gz"))))
    zone.drop(5)
    second = take()
    assert rows_by_duckdb(tmp_path / "lake") == sorted(zone.rows.values())
    assert sorted(rejected(tmp_path / "lake")) == sorted(zone.malformed)
    assert first.malformed + second.malformed == len(zone.malformed)
    assert first.events + second.events == len(zone.events)
    anew = take("another checkpoint")  # knows nothing of what was taken: the lake does
    assert rows_by_duckdb(tmp_path / "lake") == sorted(zone.rows.values())
    assert anew.rows == 0 and anew.duplicates == len(zone.rows)


@pytest.mark.long
def test_each_damaged_file_is_named_and_gives_what_can_be_read(
    take: Take, zone: Zone, tmp_path: Path
) -> None:
    zone.drop(40)
    torn, *others = (
        next(zone.folder.glob(f"{driver.agent}-000000000002-*.gz")).rename(zone.folder / f"a {n} %20{{x}}.gz")
        for n, driver in enumerate(zone.drivers)
    )
    whole = {path: path.read_bytes() for path in (torn, *others)}
    torn.write_bytes(whole[torn][: len(whole[torn]) // 2])
    for path in others:
        path.write_bytes(b"no gzip at all")
    take()
    named = [
        item
        for item in take.printed
        if "damaged or missing: its readable events were ingested, the rest is lost" in item
    ]  # type: ignore[attr-defined]
    assert [path.as_uri().rpartition("/")[0] in item for item, path in zip(named, whole, strict=True)]
    kept = [
        json.loads(line)
        for file in (tmp_path / "lake" / "_rejected").glob("files-*.ndjson")
        for line in file.read_text().splitlines()
    ]
    assert sorted(item["origin"].rpartition("/")[2] for item in kept) == sorted(path.name for path in whole)
    found = rows_by_duckdb(tmp_path / "lake")
    assert set(found) <= set(zone.rows.values()) and len(found) < len(zone.rows)
    for number, content in enumerate(whole.values()):
        (zone.folder / f"whole {number}.ndjson.gz").write_bytes(content)
    take()
    assert rows_by_duckdb(tmp_path / "lake") == sorted(zone.rows.values())


def test_no_file_is_skipped_for_its_time_and_no_line_takes_all_memory(
    take: Take, zone: Zone, tmp_path: Path
) -> None:
    ahead = zone.folder / "of a clock that is wrong.ndjson"
    ahead.write_bytes(b"x" * (landing_zone.MAX_LINE_BYTES + 1) + b"\n")
    os.utime(ahead, (2**31 - 1, 2**31 - 1))
    take()
    before = set(zone.folder.iterdir())
    zone.drop(3)
    for path in set(zone.folder.iterdir()) - before:  # copied with its time
        os.utime(path, (time.time() - 40 * DAY,) * 2)
    zone.drop(3)
    take()
    assert rows_by_duckdb(tmp_path / "lake") == sorted(zone.rows.values())
    assert sorted(rejected(tmp_path / "lake")) == sorted(zone.malformed)


@pytest.mark.long
def test_two_at_once_on_one_landing_zone_take_each_event_once(spark: Any, zone: Zone, tmp_path: Path) -> None:
    for _ in range(6):
        zone.drop(20)
    Lake.open(str(tmp_path / "lake"), create=True)
    failed: list[str] = []

    def go(number: int) -> None:
        printed: list[str] = []
        batches = ingest_job.MicroBatches(Lake.open(str(tmp_path / "lake")), DAY, None, printed.append)
        plan = ingest_job.IngestPlan(
            IngestSource(str(zone.folder), max_files=4), str(tmp_path / f"c{number}"), DAY, None
        )
        own = ingest_job.stream_session(spark)
        for _ in range(10):  # as a timetable would
            try:
                ingest_job.run_stream(
                    own, plan, batches, threading.Event(), printed.append, Backoff(0.01, 0.5)
                )
                return
            except ingest_job.IngestFailed as error:
                printed.append(str(error))
        failed.extend(printed)

    both = [threading.Thread(target=go, args=(number,)) for number in (0, 1)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert failed == []
    assert rows_by_duckdb(tmp_path / "lake") == sorted(zone.rows.values())


def test_a_server_gets_all_of_it_and_sees_the_job_as_a_query(
    take: Take, own: Any, zone: Zone, server: LiveServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONTROLPLANE_SPOOL_DIR", str(tmp_path / "spool"))
    attachment = attach.attach(own, server=server.url, app="controlplane", token=server.agent_token)
    try:
        zone.drop(5)
        sender = HttpTransport(server.url, server.agent_token)
        done = take(forwarder=Forwarder(sender, threading.Event()))
        assert (done.events, done.rejected) == (len(zone.events), 0)
        assert stored_rows(server, zone) == sorted(zone.rows.values())

        def seen() -> Any:
            queries = server.client().get("/api/v1/queries", params={"app": "controlplane"}).json()["queries"]
            return [
                query
                for query in queries
                if query["name"] == "history-ingest" and query["batch_id"] is not None
            ]

        assert eventually(seen)
    finally:
        attachment.detach()


@pytest.mark.long
def test_a_server_that_is_away_fails_the_run_and_nothing_is_lost(
    take: Take, zone: Zone, server: LiveServer, tmp_path: Path
) -> None:
    nobody = Forwarder(HttpTransport("http://127.0.0.1:9", "t"), threading.Event(), timeout_seconds=0.0)
    with pytest.raises(ingest_job.IngestFailed, match="cannot be forwarded"):
        take(forwarder=nobody)
    staged = tmp_path / "lake" / "_staging"
    assert not staged.exists() or list(staged.iterdir()) == []
    done = take(forwarder=Forwarder(HttpTransport(server.url, server.agent_token), threading.Event()))
    assert done.events == len(zone.events)


@pytest.mark.long
def test_files_are_removed_once_they_are_taken_where_that_is_asked_for(take: Take, zone: Zone) -> None:
    zone.drop(2)
    take(clean=True)
    (zone.folder / "next.ndjson.gz").write_bytes(gzip.compress(b""))
    take(clean=True)
    (zone.folder / "last.ndjson.gz").write_bytes(gzip.compress(b""))
    assert eventually(lambda: len(list(zone.folder.iterdir())) <= 2)


@pytest.mark.long
def test_a_checkpoint_that_was_set_back_is_refused(take: Take, zone: Zone, tmp_path: Path) -> None:
    import shutil

    take()
    shutil.copytree(tmp_path / "checkpoint", tmp_path / "old")
    for _ in range(2):
        zone.drop(1)
        take()
    shutil.rmtree(tmp_path / "checkpoint")
    (tmp_path / "old").rename(tmp_path / "checkpoint")
    zone.drop(1)
    with pytest.raises(ingest_job.CheckpointRewound, match="set back"):
        take()


def test_a_stop_during_a_batch_is_no_failure(
    take: Take, own: Any, zone: Zone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def held(*_: Any) -> Any:
        def write(batches: Iterator[Any]) -> Iterator[Any]:
            time.sleep(60)
            yield from batches

        return write

    zone.drop(2)
    stopping, jobs = threading.Event(), own.sparkContext.statusTracker().getActiveJobsIds
    batches = ingest_job.MicroBatches(Lake.open(str(tmp_path / "lake"), create=True), DAY, None, print)
    plan = ingest_job.IngestPlan(IngestSource(str(zone.folder)), str(tmp_path / "checkpoint"), DAY, 0.1)
    with monkeypatch.context() as patched:
        patched.setattr(ingest_job.partition_writer, "make_writer", held)
        patched.setattr(ingest_job, "DRAIN_TIMEOUT_SECONDS", 0.0)
        running = threading.Thread(target=ingest_job.run_stream, args=(own, plan, batches, stopping, print))
        running.start()
        try:
            assert eventually(lambda: own.streams.active and jobs())
            query = own.streams.active[0]
        finally:
            stopping.set()
            running.join(30)
    # Spark cancels the batch's jobs, then interrupts its thread: the batch fails by whichever comes first.
    assert not running.is_alive() and batches.last_error is not None
    assert (query.exception(), query.status["message"]) == (None, "Stopped")
    assert take().events == len(zone.events)
    assert rows_by_duckdb(tmp_path / "lake") == sorted(zone.rows.values())


@pytest.mark.long
def test_a_stream_that_ends_unasked_is_started_again(own: Any, zone: Zone, tmp_path: Path) -> None:
    stopping, printed = threading.Event(), list[str]()
    batches = ingest_job.MicroBatches(
        Lake.open(str(tmp_path / "lake"), create=True), DAY, None, printed.append
    )
    plan = ingest_job.IngestPlan(IngestSource(str(zone.folder)), str(tmp_path / "checkpoint"), DAY, 0.1)
    often = Backoff(0.01, 0.02)
    running = threading.Thread(
        target=ingest_job.run_stream, args=(own, plan, batches, stopping, printed.append, often)
    )
    running.start()
    try:
        assert eventually((tmp_path / "checkpoint" / "commits" / "0").exists)
        own.streams.active[0].stop()
        zone.drop(2)
        assert eventually(lambda: batches.totals.events >= len(zone.events))
    finally:
        stopping.set()
        running.join(30)
    assert any("ended by itself" in line for line in printed)
    assert rows_by_duckdb(tmp_path / "lake") == sorted(zone.rows.values())


def test_kafka_without_its_connector_is_an_error_that_names_the_package(own: Any, tmp_path: Path) -> None:
    source = IngestSource("", "kafka", {"kafka.bootstrap.servers": "localhost:9", "subscribe": "events"})
    lake = Lake.open(str(tmp_path / "lake"), create=True)
    batches = ingest_job.MicroBatches(lake, DAY, None, print)
    plan = ingest_job.IngestPlan(source, str(tmp_path / "c"), DAY, None)
    with pytest.raises(BadRequest, match=r"spark-sql-kafka-0-10_2\.13:"):
        ingest_job.run_stream(own, plan, batches, threading.Event(), print)
