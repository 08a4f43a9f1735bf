"""One executor's share of a batch, without Spark: rows, lines that are none, and what is to be forwarded."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from controlplane.lake.lake import Lake
from controlplane.lake.manifest import Part
from controlplane.pipeline.ingest import forwarding, partition_writer
from controlplane.pipeline.ingest.partition_writer import PartitionResult
from listeners.protocol import wire
from tests.paths import DATA

AGENT = "3f2c8f5e-6f0a-4a7e-9d6e-0b9e2f6d1c11"
REPORT = json.loads((DATA / "progress/spark-4.3.jsonl").read_text().splitlines()[0])
AT = datetime(2026, 11, 20, 6, 30, tzinfo=UTC)


def report(seq: int, **more: object) -> bytes:
    data = {**REPORT, "batchId": seq, **more}
    return wire.encode_event(
        wire.Event(AGENT, seq, 1.0, wire.App("a", spark_version="4.3.0"), "progress", data)
    ).encode()


def batch(*rows: tuple[int | None, bytes, str | None]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "agent": [None if seq is None else AGENT for seq, _, _ in rows],
            "seq": pa.array([seq for seq, _, _ in rows], pa.int64()),
            "line": [line for _, line, _ in rows],
            "origin": ["file:/zone/a"] * len(rows),
            "error": pa.array([error for _, _, error in rows], pa.string()),
            "arrived": pa.array([AT] * len(rows), pa.timestamp("us", tz="UTC")),
        }
    )


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.open(str(tmp_path / "lake"), create=True)


def written(
    lake: Lake, *batches: pa.RecordBatch, forward: bool = False, name: str = "s-1"
) -> PartitionResult:
    staging = lake.stage("ingest", name)
    (out,) = partition_writer.make_writer(staging, lake.manifest(), forward)(iter(batches))
    reported = PartitionResult.of_json(out.to_pylist()[0]["result"])
    waiting = list(forwarding.read_outboxes(lake.folder, reported.outboxes))
    assert [item.seq for item in waiting] == sorted(item.seq for item in waiting)
    lake.commit(staging, reported.parts)
    return reported


def test_a_partition_becomes_parts_with_its_arrival_time(lake: Lake) -> None:
    reported = written(lake, batch((1, report(1), None)), batch((2, report(2), None)))
    assert (reported.events, reported.malformed, reported.duplicates, reported.arrived) == (
        2,
        0,
        0,
        AT.timestamp(),
    )
    assert lake.read("progress")["batch_id"].to_pylist() == [1, 2]


def test_a_line_that_is_none_is_kept_with_its_reason(lake: Lake) -> None:
    reported = written(lake, batch((1, report(1), None), (None, b"{\xff", "not JSON")))
    assert reported.malformed == 1
    (path,) = lake.folder.list_names("_rejected")
    kept = json.loads(lake.folder.read(f"_rejected/{path}"))
    assert kept == {"origin": "file:/zone/a", "error": "not JSON", "line": "{�"}


def test_a_report_without_a_valid_row_is_forwarded_and_kept_as_rejected(lake: Lake) -> None:
    staging = lake.stage("ingest", "s-1")
    bad = report(1, timestamp="yesterday")
    (out,) = partition_writer.make_writer(staging, lake.manifest(), True)(
        iter([batch((1, bad, None), (2, report(2), None))])
    )
    reported = PartitionResult.of_json(out.to_pylist()[0]["result"])
    assert [outbox.line for outbox in forwarding.read_outboxes(lake.folder, reported.outboxes)] == [
        bad,
        report(2),
    ]
    assert (reported.events, reported.malformed) == (2, 1)
    assert "timestamp" in lake.folder.read("_rejected/ingest-s-1-00000.ndjson").decode()


def test_rows_that_the_lake_has_from_another_job_are_omitted(lake: Lake) -> None:
    written(lake, batch((1, report(1), None)), name="first-1")
    reported = written(lake, batch((1, report(1), None), (2, report(2), None)), name="other-1")
    assert reported.duplicates == 1 and lake.read("progress").num_rows == 2


def test_the_same_batch_again_takes_its_own_place(lake: Lake) -> None:
    for _ in range(2):
        assert written(lake, batch((1, report(1), None))).duplicates == 0
    assert lake.read("progress").num_rows == 1


def test_many_rows_are_written_piece_by_piece(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_writer, "MAX_BUFFERED_ROWS", 5)
    reported = written(lake, batch(*((seq, report(seq), None) for seq in range(1, 21))))
    assert len({part.path for part in reported.parts}) == len(reported.parts) > 3
    assert sorted(lake.read("progress")["batch_id"].to_pylist()) == list(range(1, 21))


def test_an_empty_partition_is_reported(lake: Lake) -> None:
    assert written(lake) == PartitionResult()


def test_text_on_a_share_come_back_as_they_were() -> None:
    part = Part("progress", AT.date(), "progress/date=2026-11-20/a.parquet", 3, 40)
    reported = PartitionResult((part,), ("outbox",), 3, 1, 2, 5.5)
    assert PartitionResult.of_json(reported.to_json()) == reported
    assert reported.plus(reported) == PartitionResult((part, part), ("outbox", "outbox"), 6, 2, 4, 5.5)


def test_lines_beyond_the_buffer_are_forwarded_and_kept_as_rejected_too(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_writer, "MAX_BUFFERED_BYTES", 1)
    lines = [(seq, report(seq), None) for seq in (3, 1, 2)]
    bad = [(None, b"{%d" % number, "no JSON") for number in range(3)]
    for _ in "two attempts":
        reported = written(lake, batch(*lines, *bad), forward=True)
    assert (reported.events, reported.malformed, len(reported.outboxes)) == (3, 3, 3)
    aside = [lake.folder.read(f"_rejected/{name}").decode() for name in lake.folder.list_names("_rejected")]
    assert sorted(json.loads(line)["line"] for text in aside for line in text.splitlines()) == [
        "{0",
        "{1",
        "{2",
    ]
