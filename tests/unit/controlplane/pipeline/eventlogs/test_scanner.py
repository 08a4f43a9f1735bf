"""Only lines whose own event is one of a query are handed out, each once, however the file is cut."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.pipeline.eventlogs import scanner
from controlplane.pipeline.eventlogs.scanner import (
    NEARBY_BYTES,
    NotAnEventLog,
    ScanState,
    nearest_time,
    read_header,
    scan_lines,
)
from tests import eventlogs

CONTENT = eventlogs.RECORDED.read_bytes()
OURS = [line.rstrip(b"\n") for line in eventlogs.lines() if b"StreamingQueryListener$Query" in line[:120]]
TASK = b'{"Event":"SparkListenerTaskEnd","Reason":"%s"}\n'
QUERY = b'{"Event":"org.apache.spark.sql.streaming.StreamingQueryListener$QueryIdleEvent","id":"%d"}\n'


def cut(content: bytes, size: int) -> list[bytes]:
    return [content[at : at + size] for at in range(0, len(content), size)]


def texts(content: bytes, size: int = 1000) -> list[bytes]:
    return [text for text, _, _ in scan_lines(cut(content, size), ScanState())]


@pytest.mark.parametrize("size", [1, 7, 1000, len(CONTENT)])
def test_all_lines_of_queries_are_found_however_it_is_read(size: int) -> None:
    walk = ScanState()
    assert [text for text, _, _ in scan_lines(cut(CONTENT, size), walk)] == OURS
    assert len(OURS) == eventlogs.REPORTS + 6
    assert (walk.read, walk.torn) == (len(CONTENT), b"")


def test_a_line_that_quotes_the_marker_is_none_of_ours() -> None:
    quoting = TASK % b"no such StreamingQueryListener$QueryProgressEvent"
    assert texts(quoting + QUERY % 1 + quoting) == [(QUERY % 1).rstrip()]


def test_a_line_whose_event_does_not_come_first_is_handed_out_to_be_looked_at() -> None:
    odd = b'{"id":"q","Event":"org.apache.spark.sql.streaming.StreamingQueryListener$QueryIdleEvent"}\n'
    assert texts(odd) == [odd.rstrip()]


def test_of_a_range_within_one_long_line_nothing_is_kept_and_no_more_is_read_than_the_range() -> None:
    read = []

    def endless() -> Iterator[bytes]:
        while True:
            read.append(1)
            yield b"x" * 1000

    walk = ScanState()
    assert list(scan_lines(endless(), walk, 4000, 5000, 9000)) == []
    assert (len(read), walk.torn, walk.too_long) == (5, b"", 0)


@pytest.mark.parametrize("size", [100, 700, 5000])
def test_a_too_long_line_is_counted_by_the_split_of_its_beginning(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanner, "MAX_LINE_BYTES", 1500)
    before, after = QUERY % 1, QUERY % 2
    content = before + b"y" * 6000 + b"\n" + after
    found, too_long = [], 0
    for start, stop in pairwise([0, 1000, 2000, 4000, None]):
        walk, base = ScanState(), max(0, (start or 0) - 950)
        found += [text for text, _, _ in scan_lines(cut(content[base:], size), walk, base, start or 0, stop)]
        too_long += walk.too_long
    assert found == [before.rstrip(), after.rstrip()]
    assert too_long == 1


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(1, len(CONTENT) - 1), max_size=6, unique=True),
    st.integers(50, 40_000),
    st.integers(1, 3000),  # a split reads what is before it, to know whether it begins with a line
)
def test_ranges_hand_out_each_line_once(cuts: list[int], size: int, before: int) -> None:
    bounds = [0, *sorted(cuts), None]
    found = []
    for start, stop in pairwise(bounds):
        base = max(0, (start or 0) - before)
        chunks = cut(CONTENT[base:], size)
        found += [text for text, _, _ in scan_lines(chunks, ScanState(), base, start or 0, stop)]
    assert found == OURS


def test_a_range_that_begins_at_the_begin_of_a_line_hands_that_line_out() -> None:
    start = CONTENT.index(OURS[3])
    lines = scan_lines([CONTENT[start - 1 :]], ScanState(), start - 1, start)
    assert next(iter(lines))[0] == OURS[3]


def test_the_last_line_without_an_end_is_kept_apart() -> None:
    walk = ScanState()
    whole, torn = QUERY % 1, (QUERY % 2)[:-9]
    assert [text for text, _, _ in scan_lines([whole + torn], walk)] == [whole.rstrip()]
    assert walk.torn == torn


def test_a_too_long_line_is_skipped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanner, "MAX_LINE_BYTES", 5000)
    walk = ScanState()
    content = QUERY % 1 + TASK % (b"x" * 20_000) + QUERY % 2
    assert [text for text, _, _ in scan_lines(cut(content, 1000), walk)] == [
        (QUERY % n).rstrip() for n in (1, 2)
    ]
    assert (walk.too_long, walk.torn) == (1, b"")


def test_the_time_of_a_line_is_that_of_the_event_before_it() -> None:
    early, late = (
        b'{"Event":"SparkListenerJobEnd","Completion Time":%d}\n' % at
        for at in (1000000000000, 1795188700460)
    )
    ((_, around, at),) = scan_lines([early + late + QUERY % 1], ScanState())
    assert nearest_time(around, at) == 1795188700.46
    ((_, around, at),) = scan_lines([early + b"\n" * (NEARBY_BYTES + 1) + QUERY % 1], ScanState())
    assert nearest_time(around, at) is None


def test_the_header_shows_the_application_and_its_spark_version() -> None:
    reported = read_header(cut(CONTENT, 100))
    assert (reported.spark_version, reported.app, reported.app_id) == (
        "4.3.0",
        "recorded",
        "local-1795188700460",
    )
    assert reported.started_at == pytest.approx(1795188699.7, abs=1)


@pytest.mark.parametrize(
    "content", [b"hello\nworld\n", b"{}\n", b"[1]\n", b'{"Event":1}\n', b"\x00" * 200_000, b"text"]
)
def test_what_begins_otherwise_is_no_event_log(content: bytes) -> None:
    with pytest.raises(NotAnEventLog, match="not an event log"):
        read_header(cut(content, 70_000))


def test_of_what_cannot_be_decoded_at_all_that_is_stated() -> None:
    with pytest.raises(NotAnEventLog, match="no data can be decoded"):
        read_header([])


def test_a_log_that_has_only_begun_is_one() -> None:
    assert read_header([b'{"Event":"SparkListenerLogStart","Spark Ver']).app_id is None
    assert (
        read_header([b'{"Event":"SparkListenerLogStart","Spark Version":"3.5.1"}\n']).spark_version == "3.5.1"
    )
