"""The server's own job, as it runs: a process of Spark beside the server moves what is old, and ends with it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from controlplane.cli.main import run
from controlplane.errors import LakeError
from controlplane.history.offload_process import LOG_FILE
from controlplane.lake.lake import Lake
from controlplane.pipeline.offload import offload_job
from controlplane.pipeline.offload.offload_job import OffloadRequest
from controlplane.store import offload_marks
from tests.acceptance.live import LiveServer, eventually, live_server
from tests.acceptance.simulated import SimulatedQuery, stamp
from tests.drivers import BEGIN, Driver
from tests.stores import sqlite_harness

pytestmark = pytest.mark.spark
DAY = 86400.0


def send(server: LiveServer, query: SimulatedQuery, began: float, batches: int) -> None:
    agent = server.agent()
    ids = {"id": query.query_id, "runId": query.run_id, "name": query.name}
    lines = [agent.line("started", {**ids, "timestamp": stamp(began)}, began)]
    for number in range(batches):
        at = began + number * 10.0
        kind, data = agent.progress(query, timestamp=stamp(at))
        lines.append(agent.line(kind, data, at + 0.5))
    agent.post(*lines)
    agent.close()


def kept(server: LiveServer) -> int:
    with server.plane.reading() as connection:
        return offload_marks.count(connection, 0, 2**62)


def test_a_job_goes_on_where_the_last_one_ended_and_writes_damaged_commits_again(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offload_job, "EVENTS_PER_COMMIT", 40)
    monkeypatch.setattr(offload_job, "EVENTS_PER_TASK", 15)
    printed: list[str] = []
    with sqlite_harness(tmp_path) as harness:
        driver = Driver()
        for number in range(100):
            harness.accept(driver.progress("q", "r", number, at=BEGIN + number))
        lake = str(tmp_path / "lake")
        first = offload_job.offload(spark, OffloadRequest(harness.url, lake, BEGIN + 60.0), printed.append)
        assert (first.commits, first.until, first.counts.stored, len(printed)) == (2, 60, 60, 2)
        [part] = [
            p for p in Lake.open(lake).manifest().parts("progress") if p.path.endswith("00002-0000.parquet")
        ]
        (tmp_path / "lake" / part.path).write_bytes(b"")
        last = offload_job.offload(spark, OffloadRequest(harness.url, lake, BEGIN + 500.0), printed.append)
        assert (last.repaired, last.until, last.counts.duplicates) == (1, 100, 0)
        again = offload_job.offload(spark, OffloadRequest(harness.url, lake, BEGIN + 500.0), printed.append)
        assert (again.commits, again.rows) == (0, 0)
    found = Lake.open(lake).read("progress")["batch_id"].to_pylist()
    assert sorted(found) == list(range(100))


def test_a_read_only_lake_is_a_one_line_error_and_stays_empty(spark: Any, tmp_path: Path) -> None:
    lake, printed = tmp_path / "lake", []
    with sqlite_harness(tmp_path) as harness:
        driver = Driver()
        harness.accept(*[driver.progress("q", "r", number, at=BEGIN + number) for number in range(5)])
        Lake.open(str(lake), create=True)
        (lake / "_staging").write_text("no folder")
        with pytest.raises(LakeError, match="events 1 to 5 were not offloaded: the lake at") as caught:
            offload_job.offload(spark, OffloadRequest(harness.url, str(lake), BEGIN + 60.0), printed.append)
        assert "\n" not in str(caught.value)
        (lake / "_staging").unlink()
        assert (
            offload_job.offload(
                spark, OffloadRequest(harness.url, str(lake), BEGIN + 60.0), printed.append
            ).counts.stored
            == 5
        )


@pytest.mark.long
def test_the_server_moves_what_is_old_verifies_it_and_forgets_it(tmp_path: Path) -> None:
    lake, query = tmp_path / "lake", SimulatedQuery("orders")
    with live_server(tmp_path / "data", lake=str(lake)) as server:
        service = server.plane.history
        send(server, query, time.time() - 5 * DAY, 300)
        send(server, query, time.time() - 60, 5)
        assert service.begin()
        assert not service.begin(), "one at a time"

        def verified() -> bool:
            service.tick()
            return bool(service.status().mark)

        assert eventually(verified, 300.0), (tmp_path / "data" / LOG_FILE).read_text()
        assert service.status().error is None
        assert not service.begin(), "nothing is left to move"
        server.plane.prune()
        assert kept(server) == 6
    assert Lake.open(str(lake)).read("progress").num_rows == 300
    assert Lake.open(str(lake)).read("lifecycle")["event"].to_pylist() == ["started"]


def test_a_failing_job_has_a_reason_and_the_store_keeps_its_rows(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    with live_server(tmp_path / "data", lake=str(lake)) as server:
        (lake / "lake.json").write_text("{}")
        send(server, SimulatedQuery("orders"), time.time() - 5 * DAY, 3)
        service = server.plane.history
        assert service.begin()

        def reported() -> bool:
            service.tick()
            return "is not the metadata file of a lake" in (service.status().error or "")

        assert eventually(reported, 300), (tmp_path / "data" / LOG_FILE).read_text()
        server.plane.prune()
        assert kept(server) == 4


def test_the_job_ends_with_the_server(tmp_path: Path) -> None:
    with live_server(tmp_path / "data", lake=str(tmp_path / "lake")) as server:
        send(server, SimulatedQuery("orders"), time.time() - 5 * DAY, 3)
        service = server.plane.history
        assert service.begin()
        child = service._offload_process._child
        assert child is not None and service.status().moving
    assert child.poll() is not None


def test_the_command_names_the_missing_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["history", "offload", "--data-dir", str(tmp_path)]) == 2
    assert "CONTROLPLANE_LAKE" in capsys.readouterr().err
    assert run(["history", "offload", "--data-dir", str(tmp_path), "--lake", str(tmp_path / "lake")]) == 2
    assert "no store found" in capsys.readouterr().err
