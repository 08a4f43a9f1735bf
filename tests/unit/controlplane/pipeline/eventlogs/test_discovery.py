"""Names, sizes and times of files become logs; what is none is reported, and so is what is missing of one."""

from __future__ import annotations

import pytest

from controlplane.pipeline.eventlogs.discovery import EventLog, LogFile, RejectedLog, find_logs


def file(path: str, size: int = 10, modified: float = 1.0) -> LogFile:
    return LogFile(path, size, modified)


def only_log(*files: LogFile, named: tuple[str, ...] = ()) -> EventLog:
    (log,), refused = find_logs(files, named)
    assert refused == []
    return log


@pytest.mark.parametrize(
    ("name", "app_id", "attempt", "codec", "in_progress"),
    [
        ("app-20261120153140-0001", "app-20261120153140-0001", None, "", False),
        ("application_1795188700460_0007", "application_1795188700460_0007", None, "", False),
        ("application_1795188700460_0007_2.zstd", "application_1795188700460_0007", "2", "zstd", False),
        ("local-1795188700460.lz4.inprogress", "local-1795188700460", None, "lz4", True),
        ("spark-4f3c2d1e0a9b48c7.snappy", "spark-4f3c2d1e0a9b48c7", None, "snappy", False),
        ("app-20261120153140-0001_3.lzf", "app-20261120153140-0001", "3", "lzf", False),
    ],
)
def test_a_single_file_is_recognized_by_its_name(
    name: str, app_id: str, attempt: str | None, codec: str, in_progress: bool
) -> None:
    log = only_log(file(f"/logs/{name}"))
    assert (log.app_id, log.attempt, log.codecs, log.in_progress) == (app_id, attempt, (codec,), in_progress)


def test_a_name_of_any_bytes_is_reported_in_one_line_that_can_be_printed() -> None:
    reported = str(RejectedLog("/logs/ü \udcff\n%", "the file is empty"))
    assert reported == "/logs/ü \\udcff\\n%: the file is empty"
    assert reported.encode().isascii() is False


def test_a_file_that_grew_between_two_looks_at_it_is_taken_once() -> None:
    path = "/logs/eventlog_v2_app-1/events_1_app-1"
    assert [item.size for item in only_log(file(path), file(path, 20)).files] == [20]


@pytest.mark.parametrize(
    "name", ["notes.txt", "app-1.gz", "events_1_app-1", "part-0000.parquet", "application"]
)
def test_what_is_named_otherwise_is_foreign(name: str) -> None:
    logs, (refused,) = find_logs([file(f"/logs/{name}")])
    assert (logs, refused.path, refused.reason) == (
        [],
        f"/logs/{name}",
        "the name is not that of an event log",
    )


def test_a_file_that_the_user_names_is_taken_for_a_log() -> None:
    log = only_log(file("/logs/copied.zstd"), named=("/logs/copied.zstd",))
    assert (log.app_id, log.codecs) == ("copied.zstd", ("zstd",))


def test_an_empty_file_is_reported_and_a_mark_of_the_file_system_is_not() -> None:
    logs, refused = find_logs([file("/logs/app-1", 0), file("/logs/_SUCCESS"), file("/logs/.app-1.crc")])
    assert (logs, [item.reason for item in refused]) == ([], ["the file is empty"])


def rolled(*names: str, app: str = "app-1") -> list[LogFile]:
    return [
        file(f"/logs/eventlog_v2_{app}/{name}", 0 if name.startswith("appstatus") else 10) for name in names
    ]


def test_a_rolling_log_is_its_files_in_the_order_of_their_numbers() -> None:
    log = only_log(
        *rolled(
            "events_10_app-1", "events_2_app-1.zstd", *[f"events_{n}_app-1" for n in (1, 3, 4, 5, 6, 7, 8, 9)]
        )
    )
    assert [each.name.split("_")[1] for each in log.files] == [str(n) for n in range(1, 11)]
    assert (log.codecs[1], log.path, log.notes) == ("zstd", "/logs/eventlog_v2_app-1", ())


def test_its_status_file_shows_whether_it_is_in_progress() -> None:
    assert only_log(*rolled("appstatus_app-1.inprogress", "events_1_app-1")).in_progress
    assert not only_log(*rolled("appstatus_app-1", "events_1_app-1")).in_progress


def test_a_compacted_file_stands_for_all_before_it() -> None:
    names = (
        "events_1_a",
        "events_2_a",
        "events_2_a.compact",
        "events_3_a",
        "events_1_a.compact",
        "events_4_a",
    )
    log = only_log(*rolled(*names))
    assert [each.name for each in log.files] == ["events_2_a.compact", "events_3_a", "events_4_a"]


def test_a_missing_number_is_reported() -> None:
    assert only_log(*rolled("events_1_a", "events_4_a")).notes == (
        "events_2 is missing",
        "events_3 is missing",
    )
    assert only_log(*rolled("events_2_a.compact", "events_4_a")).notes == ("events_3 is missing",)
    many = only_log(*rolled("events_20_a")).notes
    assert (many[0], many[-1]) == ("events_1 is missing", "14 more files are missing")


def test_a_folder_without_events_and_a_stranger_in_one_are_reported() -> None:
    logs, refused = find_logs(rolled("appstatus_a", "readme.md"))
    assert logs == []
    assert {item.reason for item in refused} == {
        "the folder has no event file",
        "the name is not that of a file of a rolling event log",
    }


def test_an_empty_file_of_a_rolling_log_is_no_gap() -> None:
    files = [*rolled("events_1_a"), file("/logs/eventlog_v2_app-1/events_2_a", 0)]
    log = only_log(*files)
    assert ([each.name for each in log.files], log.notes) == (["events_1_a"], ())


def test_the_same_log_at_two_places_is_taken_once_and_reported() -> None:
    logs, (refused,) = find_logs(
        [file("/a/app-1.inprogress", 10), file("/b/app-1", 30), file("/a/app-1_2", 5), file("/b/app-1", 30)]
    )
    assert [log.path for log in logs] == ["/b/app-1", "/a/app-1_2"]
    assert refused.path == "/a/app-1.inprogress"
    assert refused.reason == "same log as /b/app-1, which is not smaller"


def test_a_log_keeps_its_lake_name_when_it_ends_or_moves() -> None:
    open_, closed = only_log(file("/a/app-1.inprogress")), only_log(file("/b/app-1"))
    assert open_.batch == closed.batch != only_log(file("/a/app-1_2")).batch
    assert only_log(file("/a/app-1")).fingerprint == only_log(file("/b/app-1")).fingerprint
    assert only_log(file("/a/app-1", 11)).fingerprint != only_log(file("/a/app-1", 10)).fingerprint
    assert only_log(file("/a/app-1", modified=2.0)).fingerprint != only_log(file("/a/app-1")).fingerprint
