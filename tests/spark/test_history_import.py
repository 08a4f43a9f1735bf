"""Event logs as real Spark writes them come into the lake: every codec, every file system, whatever else lies there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from controlplane.lake.lake import Lake
from controlplane.lake.rows import LakeRowBuilder, Producer
from controlplane.pipeline.eventlogs import import_job
from controlplane.pipeline.eventlogs.import_job import ImportRequest, NoFilesFound, import_logs
from controlplane.pipeline.eventlogs.import_summary import summary_json, summary_lines
from tests import eventlogs
from tests.paths import ROOT

pytestmark = pytest.mark.spark
REPORTS = eventlogs.REPORTS


class World:
    """A folder of logs, a lake, and the import between them."""

    def __init__(self, spark: Any, base: Path):
        self.spark, self.logs = spark, base / "logs"
        self.logs.mkdir()
        self.lake = Lake.open(str(base / "lake"), create=True)

    def put(self, name: str, content: bytes | None = None) -> Path:
        path = self.logs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(eventlogs.renamed(eventlogs.RECORDED, app_of(name)) if content is None else content)
        return path

    def go(self, *paths: str, **wish: Any) -> dict[str, Any]:
        asked = ImportRequest(paths or (str(self.logs),), **wish)
        account = import_logs(lambda: self.spark, self.lake, asked)
        assert all(summary_lines(account))
        return summary_json(account)

    def rows(self, table: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.lake.read(table).to_pylist()
        return found

    def counts(self) -> dict[str, int]:
        return {
            name: len(self.rows(name)) for name in ("progress", "sources", "state_operators", "lifecycle")
        }


def app_of(name: str) -> str:
    return name.removesuffix(".inprogress").partition(".")[0]


ONE = {"progress": 12, "sources": 12, "state_operators": 11, "lifecycle": 6}


@pytest.fixture
def world(spark: Any, tmp_path: Path) -> World:
    return World(spark, tmp_path)


def compressed(spark: Any, path: Path, codec: str, content: bytes) -> None:
    """As Spark's writer of event logs does it: its codec's stream for logs, flushed line by line now and then."""
    jvm = spark.sparkContext._jvm
    conf = jvm.org.apache.spark.SparkConf(False)
    out = jvm.java.io.FileOutputStream(str(path))
    stream = jvm.org.apache.spark.io.CompressionCodec.createCodec(
        conf, codec
    ).compressedContinuousOutputStream(out)
    for place, line in enumerate(content.splitlines(keepends=True)):
        stream.write(line)
        if place % 3 == 0:
            stream.flush()
    stream.close()


@pytest.mark.parametrize("codec", ["zstd", "lz4", "snappy", "lzf"])
def test_logs_that_sparks_own_codecs_wrote_are_read_whole(world: World, codec: str) -> None:
    app = "app-20261120153140-0001"
    compressed(world.spark, world.logs / f"{app}.{codec}", codec, eventlogs.renamed(eventlogs.RECORDED, app))
    document = world.go()
    assert (document["damaged"], document["rejected"]) == ([], [])
    assert document["decoded_bytes"] == len(eventlogs.renamed(eventlogs.RECORDED, app))
    assert document["events"] == {"progress": REPORTS, "started": 3, "terminated": 3}
    assert world.counts() == ONE


@pytest.mark.parametrize("codec", ["zstd", "lz4", "snappy"])
def test_of_a_compressed_log_that_a_crash_cut_off_what_can_be_decoded_is_taken(
    world: World, codec: str
) -> None:
    path = world.logs / f"local-1.{codec}.inprogress"
    compressed(world.spark, path, codec, eventlogs.RECORDED.read_bytes())
    os.truncate(path, path.stat().st_size * 6 // 10)
    document = world.go()
    assert 0 < document["events"]["progress"] < REPORTS
    assert document["logs"]["in_progress"] == 1
    assert world.counts()["progress"] == document["events"]["progress"]


def test_what_a_log_reports_is_in_the_lake_as_the_listener_received_it(world: World) -> None:
    world.put("local-1795188700460", eventlogs.RECORDED.read_bytes())
    world.go()
    received = {
        (item["report"]["runId"], item["report"]["batchId"]): item["report"]
        for item in eventlogs.received()
        if item["kind"] == "progress"
    }
    rows = world.rows("progress")
    assert {(row["run_id"], row["batch_id"]) for row in rows} == received.keys()
    for row in rows:
        report = received[row["run_id"], row["batch_id"]]
        assert (row["input_rows"], row["duration_ms"]) == (report["numInputRows"], report["batchDuration"])
        assert (row["app"], row["spark_version"], row["origin"]) == ("recorded", "4.3.0", "log")
    ends = [row for row in world.rows("lifecycle") if row["event"] == "terminated"]
    last = {
        run: max(r["reported_at"] for r in rows if r["run_id"] == run) for run in {r["run_id"] for r in rows}
    }
    assert all(0 <= (end["reported_at"] - last[end["run_id"]]).total_seconds() < 30 for end in ends)


def test_among_damaged_foreign_empty_and_torn_files_the_good_ones_are_all_taken(world: World) -> None:
    whole = eventlogs.RECORDED.read_bytes()
    for number in range(20):
        world.put(f"local-{number}")
    world.put("notes.txt", b"hello\n")
    world.put("app-1-0001", b"no event log\n" * 100)
    world.put("app-2-0001", b"")
    world.put("app-3-0001.zstd", b"no zstd at all, whatever its name says")
    world.put("app-4-0001", eventlogs.renamed(eventlogs.RECORDED, "app-4-0001")[:-30])
    world.put(
        "app-5-0001",
        whole.replace(b'"batchId":0', b'"batchId":"x"', 1).replace(b"local-1795188700460", b"app-5"),
    )
    world.put("app-6-0001.lz4", b"")
    (world.logs / "app-7-0001").symlink_to(world.logs / "nowhere")
    world.put(
        "deep/er/eventlog_v2_app-8-0001/events_2_app-8-0001",
        eventlogs.renamed(eventlogs.RECORDED, "app-8-0001"),
    )
    document = world.go()
    refused = {Path(item["path"]).name: item["reason"] for item in document["rejected"]}
    assert refused == {
        "notes.txt": "the name is not that of an event log",
        "app-1-0001": "not an event log: the first line is not an event of Spark",
        "app-2-0001": "the file is empty",
        "app-3-0001.zstd": refused["app-3-0001.zstd"],
        "app-6-0001.lz4": "the file is empty",
        "app-7-0001": "unreadable: No such file or directory",
    }
    assert "zstd" in refused["app-3-0001.zstd"]
    damaged = {Path(item["path"]).name: item["reason"] for item in document["damaged"]}
    assert damaged == {
        "app-4-0001": "the end of the log is truncated",
        "app-5-0001": "app-5-0001: 1 events are malformed: batchId must be an integer",
        "eventlog_v2_app-8-0001": "events_1 is missing",
    }
    assert document["logs"]["read"] == 23
    assert world.counts()["progress"] == 22 * REPORTS + REPORTS - 1


def test_a_second_import_reads_nothing_and_changes_nothing(world: World) -> None:
    world.put("local-1")
    world.go()
    before = sorted(world.lake.folder.list_files("progress"))
    again = world.go()
    assert (again["logs"]["read"], again["logs"]["unchanged"]) == (0, 1)
    forced = world.go(force=True)
    assert (forced["logs"]["read"], world.counts()) == (1, ONE)
    assert sorted(world.lake.folder.list_files("progress")) == before


def test_a_log_that_grew_is_read_anew_and_replaces_what_it_gave(world: World) -> None:
    content = eventlogs.renamed(eventlogs.RECORDED, "local-1")
    place = content.index(b"\n", len(content) // 2) + 1
    path = world.put("local-1.inprogress", content[: place + 50])
    first = world.go()
    assert (first["logs"]["in_progress"], first["damaged"]) == (1, [])
    assert world.counts()["progress"] < REPORTS
    path.rename(world.logs / "local-1")
    world.put("local-1", content)
    assert world.go()["logs"]["read"] == 1
    assert world.counts() == ONE


def test_a_log_that_reports_less_than_before_takes_nothing_away(world: World) -> None:
    content = eventlogs.renamed(eventlogs.RECORDED, "local-1")
    world.put("local-1")
    world.go()
    world.put("local-1", content[: content.index(b"\n", len(content) // 2) + 1])
    document = world.go()
    gone = REPORTS - document["events"]["progress"]
    (damaged,) = document["damaged"]
    assert (
        damaged["reason"]
        == f"{gone} reports of an earlier import are no longer in the log; the lake keeps them"
    )
    assert world.counts() == ONE
    assert world.go()["logs"]["unchanged"] == 1
    world.put("local-1", content)
    assert world.go()["damaged"] == []
    assert world.counts() == ONE


def test_a_rolling_log_whose_old_files_went_while_it_grew_loses_no_batch(world: World) -> None:
    lines = eventlogs.renamed(eventlogs.RECORDED, "local-2").splitlines(keepends=True)
    ends = [place + 1 for place, line in enumerate(lines) if b"$QueryProgressEvent" in line[:120]]
    folder = "eventlog_v2_local-2"
    world.put(f"{folder}/appstatus_local-2.inprogress", b"")
    old = world.put(f"{folder}/events_1_local-2", b"".join(lines[: ends[2]]))
    assert world.go()["rows"]["progress"] == 3
    old.unlink()
    world.put(f"{folder}/events_2_local-2", b"".join(lines[ends[2] :]))
    document = world.go()
    assert document["rows"]["progress"] == REPORTS - 3
    assert [item["reason"] for item in document["damaged"]] == [
        "events_1 is missing",
        "3 reports of an earlier import are no longer in the log; the lake keeps them",
    ]
    assert world.counts() == ONE


def test_copies_under_other_names_in_one_call_bring_no_batch_twice(world: World) -> None:
    content = eventlogs.renamed(eventlogs.RECORDED, "local-1")
    world.put("local-1", content[: content.index(b"\n", len(content) // 2) + 1])
    for name in ("local-2", "app-1"):
        world.put(name, content)
    assert world.go()["duplicate_reports"] >= REPORTS
    assert world.counts() == ONE
    world.go(force=True)
    assert world.counts() == ONE


def test_a_copy_of_a_log_under_another_name_brings_no_batch_twice(world: World) -> None:
    world.put("local-1")
    world.go()
    world.put("local-2", eventlogs.renamed(eventlogs.RECORDED, "local-1"))
    assert world.go()["duplicate_reports"] == REPORTS
    assert world.counts() == ONE


def test_the_same_log_twice_in_one_call_is_taken_once_and_reported(world: World) -> None:
    first = world.put("local-1")
    world.put("copies/local-1")
    document = world.go(str(first), str(world.logs))
    (refused,) = document["rejected"]
    assert "same log as" in refused["reason"]
    assert world.counts() == ONE


def test_a_large_plain_log_is_read_in_ranges_and_a_rolling_one_by_its_files(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_job, "RANGE_BYTES", 40_000)
    monkeypatch.setattr(import_job, "MIN_TASK_BYTES", 1)
    world.put("local-1")
    lines = eventlogs.renamed(eventlogs.RECORDED, "local-2").splitlines(keepends=True)
    for number, part in enumerate((lines[:10], lines[10:20], lines[20:]), start=1):
        world.put(f"eventlog_v2_local-2/events_{number}_local-2", b"".join(part))
    world.put("eventlog_v2_local-2/appstatus_local-2", b"")
    document = world.go()
    assert (document["damaged"], document["rejected"]) == ([], [])
    assert world.counts() == {table: 2 * count for table, count in ONE.items()}
    assert {row["app"] for row in world.rows("progress")} == {"recorded"}


def test_spark_2_0_is_imported_too(world: World) -> None:
    shutil.copy(eventlogs.SPARK_2_0, world.logs)
    document = world.go()
    assert document["events"] == {"idle": 2, "progress": 2, "started": 1, "terminated": 1}
    assert document["damaged"] == []
    assert [row["batch_id"] for row in world.rows("progress")] == [0, 1]
    assert {row["app"] for row in world.rows("progress")} == {"clicks job"}


def test_a_log_without_streaming_queries_is_remembered_as_read(world: World) -> None:
    world.put("local-1", b"".join(eventlogs.lines()[:2]))
    assert world.go()["events"] == {}
    assert world.go()["logs"]["unchanged"] == 1


def test_patterns_and_single_files_are_taken_and_since_leaves_out_old_ones(world: World) -> None:
    for number in (1, 2, 3):
        world.put(f"local-{number}")
    os.utime(world.logs / "local-3", (1000, 1000))
    document = world.go(str(world.logs / "local-[13]"), since=2000.0)
    assert (document["logs"]["read"], document["logs"]["too_old"]) == (1, 1)
    named = world.put("saved.log")
    assert world.go(str(named))["rows"]["progress"] == REPORTS


def test_where_nothing_is_that_is_stated_of_each_path(world: World) -> None:
    with pytest.raises(
        NoFilesFound, match=r"/none: no such file or folder; .*/other-\*: no such file or folder"
    ):
        world.go(str(world.logs / "none"), str(world.logs / "other-*"))


@pytest.mark.long
def test_a_file_system_that_only_hadoop_knows_is_listed_and_read(world: World) -> None:
    name = "fs.viewfs.mounttable.default.link./logs"
    conf = world.spark.sparkContext._jsc.hadoopConfiguration()
    conf.set(name, world.logs.as_uri())
    try:
        world.put("local-1")
        compressed(
            world.spark,
            world.logs / "app-2-0001.zstd",
            "zstd",
            eventlogs.renamed(eventlogs.RECORDED, "app-2-0001"),
        )
        document = world.go("viewfs:///logs")
    finally:
        conf.unset(name)
    assert (document["rejected"], document["damaged"]) == ([], [])
    assert world.counts()["progress"] == 2 * REPORTS
    assert world.lake.manifest().commits_of_job("import").popitem()[1].facts["log"].startswith("viewfs:/")


def test_a_file_system_of_fsspec_is_listed_and_read(world: World, tmp_path: Path) -> None:
    import fsspec

    from controlplane.pipeline.eventlogs import listing

    memory = fsspec.filesystem("memory")
    memory.pipe("/logs/local-1", eventlogs.RECORDED.read_bytes())
    memory.pipe("/logs/_hidden/local-2", eventlogs.RECORDED.read_bytes())
    try:
        files, named, refused = listing.list_files(lambda: world.spark, ["memory://logs"])
    finally:
        memory.rm("/logs", recursive=True)
    assert [file.path for file in files] == ["memory:///logs/local-1"]
    assert (files[0].size, named, refused) == (eventlogs.RECORDED.stat().st_size, [], [])


@pytest.mark.long
def test_the_command_does_it_all_in_a_process_of_its_own(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    shutil.copy(eventlogs.RECORDED, logs)
    command = [
        sys.executable,
        "-m",
        "controlplane",
        "history",
        "import",
        str(logs),
        "--json",
        "--master",
        "local[2]",
    ]
    environment = {**os.environ, "CONTROLPLANE_LAKE": str(tmp_path / "lake")}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=180
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["logs"]["read"], document["rows"]["progress"]) == (1, REPORTS)
    assert " WARN " not in done.stderr
    assert "events" in done.stderr


@pytest.mark.parametrize(
    ("codec", "rolling"),
    [
        pytest.param("zstd", "true", marks=pytest.mark.long),
        pytest.param("lz4", "false", marks=pytest.mark.soak),
        pytest.param("none", "false", marks=pytest.mark.soak),
        pytest.param("snappy", "true", marks=pytest.mark.soak),
    ],
)
def test_a_log_of_real_queries_gives_what_a_listener_beside_it_received(
    world: World, tmp_path: Path, codec: str, rolling: str
) -> None:
    program, received = Path(__file__).parent / "programs/event_log.py", tmp_path / "heard.jsonl"
    command = [sys.executable, str(program), str(world.logs), str(received), codec, rolling]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    reported = [json.loads(line) for line in received.read_text().splitlines()]
    reports = [item["report"] for item in reported if item["kind"] == "progress"]
    document = world.go()
    assert (document["damaged"], document["rejected"]) == ([], [])
    batches = {
        (r["runId"], r["batchId"]): r for r in reports if r["numInputRows"] or "addBatch" in r["durationMs"]
    }
    rows = {(row["run_id"], row["batch_id"]): row for row in world.rows("progress")}
    assert rows.keys() == batches.keys()
    for key, row in rows.items():
        (expected,) = as_rows(batches[key])
        for rate in ("input_rows_per_second", "processed_rows_per_second"):
            assert row[rate] == pytest.approx(expected[rate], abs=0.0501)
        for name in (
            "input_rows",
            "duration_ms",
            "output_rows",
            "watermark",
            "state_rows",
            "state_bytes",
            "observed",
        ):
            assert row[name] == expected[name]
    ours = sorted((row["event"], row["run_id"]) for row in world.rows("lifecycle") if row["event"] != "idle")
    assert ours == sorted((e["kind"], e["runId"]) for e in reported if e["kind"] in ("started", "terminated"))


def as_rows(report: dict[str, Any]) -> list[dict[str, Any]]:
    rows = LakeRowBuilder()
    rows.progress(Producer("event-log", "4.3.0", "log"), report)
    found: list[dict[str, Any]] = rows.take()["progress"].to_pylist()
    return found
