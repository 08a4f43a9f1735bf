"""How logs become tasks, and what is said of an import when it is over."""

from __future__ import annotations

import errno
import json
import re
from collections import Counter
from pathlib import Path

import pytest

from controlplane.lake.lake import Lake
from controlplane.pipeline.eventlogs import import_job
from controlplane.pipeline.eventlogs.discovery import EventLog, LogFile, RejectedLog
from controlplane.pipeline.eventlogs.event_parser import EVENT_CLASS_PREFIX
from controlplane.pipeline.eventlogs.import_job import (
    MAX_TASK_BYTES,
    MAX_TASK_SPLITS,
    MIN_TASK_BYTES,
    RANGE_BYTES,
    ImportProgress,
    group_into_tasks,
    normalize_paths,
)
from controlplane.pipeline.eventlogs.import_summary import (
    MAX_NAMED_PATHS,
    ImportSummary,
    format_bytes,
    summary_json,
    summary_lines,
)
from controlplane.pipeline.eventlogs.split_reader import LogSplit, SplitResult, read_split
from tests import eventlogs

LARGE, SMALL = 3 * MIN_TASK_BYTES, MIN_TASK_BYTES // 4


def log(*sizes: int, codec: str = "") -> EventLog:
    files = tuple(LogFile(f"/logs/events_{n}_a", size, 1.0) for n, size in enumerate(sizes, start=1))
    return EventLog("app-1", None, "/logs", files, (codec,) * len(files), False)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.open(str(tmp_path / "lake"), create=True)


def pieces(lake: Lake, made: EventLog) -> list[LogSplit]:
    return import_job._splits(lake, made, None)


def test_a_large_plain_file_is_cut_into_ranges_that_cover_it_and_a_compressed_one_is_not(lake: Lake) -> None:
    cut = pieces(lake, log(5 * RANGE_BYTES // 2, 10))
    assert [(item.file_index, item.start, item.stop) for item in cut] == [
        (0, 0, RANGE_BYTES), (0, RANGE_BYTES, 2 * RANGE_BYTES), (0, 2 * RANGE_BYTES, None), (1, 0, None),
    ]  # fmt: skip
    assert sum(item.size for item in cut) == 5 * RANGE_BYTES // 2 + 10
    assert len(pieces(lake, log(5 * RANGE_BYTES, codec="zstd"))) == 1


def test_tasks_begin_with_the_largest_and_small_pieces_share_one(lake: Lake) -> None:
    made = group_into_tasks(pieces(lake, log(SMALL, LARGE, SMALL, SMALL, SMALL, SMALL)), cores=2)
    assert [[item.size for item in task] for task in made] == [[LARGE], [SMALL] * 4, [SMALL]]
    many = group_into_tasks(pieces(lake, log(*[1] * (MAX_TASK_SPLITS + 1))), cores=2)
    assert [len(task) for task in many] == [MAX_TASK_SPLITS, 1]
    assert group_into_tasks([], cores=2) == []


@pytest.mark.parametrize(("cores", "a_task"), [(1, 2), (2, 2), (4, 1), (64, 1)])
def test_every_core_has_several_tasks_and_none_of_them_is_too_large(
    lake: Lake, cores: int, a_task: int
) -> None:
    made = group_into_tasks(pieces(lake, log(*[MAX_TASK_BYTES // 2] * 16)), cores)
    assert {len(task) for task in made} == {a_task}


def test_a_piece_that_cannot_be_read_is_refused_and_raises_nothing(lake: Lake, tmp_path: Path) -> None:
    gone = EventLog("a", None, "/x", (LogFile(str(tmp_path / "gone"), 5, 1.0),), ("",), False)
    outcome = read_split(pieces(lake, gone)[0], None)
    assert outcome.rejected is not None and outcome.rejected.startswith("unreadable: ")
    assert outcome.parts == []


def test_that_the_lake_cannot_be_written_is_reported_apart(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    from controlplane.errors import LakeError
    from controlplane.lake.staging import Staging

    def full(*_: object) -> None:
        raise LakeError("the disk is full")

    monkeypatch.setattr(Staging, "write", full)
    path = eventlogs.RECORDED
    whole = EventLog("a", None, str(path), (LogFile(str(path), path.stat().st_size, 1.0),), ("",), False)
    outcome = read_split(pieces(lake, whole)[0], None)
    assert (outcome.lake_error, outcome.rejected) == ("the disk is full", None)


def test_memory_is_emptied_while_a_piece_is_read(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controlplane.pipeline.eventlogs.split_reader.MAX_BUFFERED_ROWS", 8)
    monkeypatch.setattr("controlplane.pipeline.eventlogs.split_reader.MAX_COLUMN_BYTES", 1)
    path = eventlogs.RECORDED
    whole = EventLog("a", None, str(path), (LogFile(str(path), path.stat().st_size, 1.0),), ("",), False)
    outcome: SplitResult = read_split(pieces(lake, whole)[0], None)
    assert sum(part.rows for part in outcome.parts if part.table == "progress") == eventlogs.REPORTS
    assert len([part for part in outcome.parts if part.table == "progress"]) >= 3


def test_memory_is_emptied_by_the_length_of_lines_too(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controlplane.pipeline.eventlogs.split_reader.MAX_BUFFERED_LINE_BYTES", 10_000)
    monkeypatch.setattr("controlplane.pipeline.eventlogs.split_reader.MAX_COLUMN_BYTES", 1)
    path = eventlogs.RECORDED
    whole = EventLog("a", None, str(path), (LogFile(str(path), path.stat().st_size, 1.0),), ("",), False)
    outcome = read_split(pieces(lake, whole)[0], None)
    assert sum(part.rows for part in outcome.parts if part.table == "progress") == eventlogs.REPORTS
    assert len([part for part in outcome.parts if part.table == "progress"]) >= 3


def test_a_batch_that_took_durations_costs_neither_the_end_of_its_run_nor_the_file(
    lake: Lake, tmp_path: Path
) -> None:
    report = next(line for line in eventlogs.progress_lines() if b'"batchDuration":' in line)
    ids = json.loads(report)["progress"]
    durations = re.sub(rb'"batchDuration":\d+', b'"batchDuration":4611686018427387904', report)
    over = {
        "Event": EVENT_CLASS_PREFIX + "TerminatedEvent",
        "id": ids["id"],
        "runId": ids["runId"],
        "exception": None,
    }
    path = tmp_path / "app-1"
    head = b"".join(eventlogs.lines()[:2])
    path.write_bytes(
        head + durations.rstrip() + b"\n" + json.dumps(over, separators=(",", ":")).encode() + b"\n"
    )
    made = EventLog("app-1", None, str(path), (LogFile(str(path), path.stat().st_size, 1.0),), ("",), False)
    outcome = read_split(pieces(lake, made)[0], None)
    assert (outcome.rejected, outcome.problems) == (None, [])
    assert outcome.events == {"progress": 1, "terminated": 1}


def test_a_disk_that_is_full_is_the_lakes_trouble_and_none_of_the_log(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("controlplane.lake.staging.Staging._write_day", full)
    size = eventlogs.RECORDED.stat().st_size
    whole = EventLog("a", None, "/x", (LogFile(str(eventlogs.RECORDED), size, 1.0),), ("",), False)
    outcome = read_split(pieces(lake, whole)[0], None)
    assert outcome.rejected is None
    assert (
        outcome.lake_error
        == f"the lake at {lake.folder} cannot be written: [Errno 28] No space left on device"
    )


def test_paths_are_taken_once_each() -> None:
    assert normalize_paths(["/a/", "/b", "/a", "/"]) == ("/a", "/b", "/")


def test_the_time_left_is_estimated_by_bytes() -> None:
    assert ImportProgress(1, 2, 250, 1000, 9, 5.0).seconds_left == 15.0
    assert ImportProgress(0, 2, 0, 1000, 0, 5.0).seconds_left is None


def account(**more: object) -> ImportSummary:
    made = ImportSummary("/lake", found=3, read=2, unchanged=1, size=1_500_000, seconds=2.04)
    made.events, made.rows = Counter(progress=5, idle=1), Counter(progress=4)
    for name, value in more.items():
        setattr(made, name, value)
    return made


def test_the_summary_counts_lines_read_stored_and_skipped_by_reason() -> None:
    reported = account(
        duplicates=1,
        in_progress=1,
        too_old=2,
        damaged=[RejectedLog("/l/a", "torn")],
        rejected=[RejectedLog("/l/b", "odd")],
    )
    assert summary_lines(reported) == [
        "/lake: 2 logs read (1.5 MB) in 2.0 s, 1 unchanged, 1 rejected",
        "2 logs older than --since",
        "1 log still in progress: import again later for the rest",
        "events: 1 idle, 5 progress",
        "rows: 4 progress; skipped 1 report that the lake already has",
        "damaged: /l/a: torn",
        "rejected: /l/b: odd",
    ]
    document = summary_json(reported)
    assert document["logs"] == {
        "found": 3, "read": 2, "unchanged": 1, "too_old": 2, "in_progress": 1, "damaged": 1, "rejected": 1,
    }  # fmt: skip
    assert document["rejected"] == [{"path": "/l/b", "reason": "odd"}]


def test_of_many_rejections_people_see_some_and_programs_all() -> None:
    reported = account(rejected=[RejectedLog(f"/l/{n}", "odd") for n in range(MAX_NAMED_PATHS + 7)])
    assert summary_lines(reported)[-1] == "rejected: 7 more; --json lists them all"
    assert len(summary_json(reported)["rejected"]) == MAX_NAMED_PATHS + 7


@pytest.mark.parametrize(
    ("size", "printed"), [(12, "12 B"), (1500, "1.5 KB"), (2.5e9, "2.5 GB"), (7e12, "7000.0 GB")]
)
def test_bytes_are_stated_in_a_unit_that_reads_well(size: float, printed: str) -> None:
    assert format_bytes(size) == printed


QUERY = b'{"Event":"org.apache.spark.sql.streaming.StreamingQueryListener$Query'
DEEP = b'{"a":' * 1000 + b"1" + b"}" * 1003
ODD = {
    "a time of no year": b'StartedEvent","id":"q","runId":"r","timestamp":9007199254740992}',
    "the year 10000": b'StartedEvent","id":"q","runId":"r","timestamp":"9999-12-31T23:59:59.999-12:00"}',
    "sources are a number": (
        b'Progress","queryStatus":{"id":1,"timestamp":1,"triggerDetails":{"triggerId":"1"},"sourceStatuses":7}}'
    ),
    "nested deep": (
        b'ProgressEvent","progress":{"id":"q","runId":"r","batchId":1,"timestamp":"2026-01-01T00:00:00Z",'
        b'"observedMetrics":' + DEEP
    ),
}


@pytest.mark.parametrize("line", ODD.values(), ids=list(ODD))
def test_one_odd_event_costs_nothing_but_itself(line: bytes, lake: Lake, tmp_path: Path) -> None:
    path = tmp_path / "local-1"
    path.write_bytes(eventlogs.RECORDED.read_bytes() + QUERY + line + b"\n")
    found = EventLog(
        "local-1", None, str(path), (LogFile(str(path), path.stat().st_size, 1.0),), ("",), False
    )
    outcome = read_split(pieces(lake, found)[0], None)
    assert outcome.rejected is None
    assert outcome.events["progress"] == eventlogs.REPORTS
