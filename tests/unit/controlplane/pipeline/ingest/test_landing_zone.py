"""Lines of a landing zone: each a row of what it reports, or of why it is none."""

from __future__ import annotations

import pyarrow as pa
import pytest

from controlplane.pipeline.ingest.landing_zone import PARSED, damaged_file, parse_batches
from listeners.protocol import wire

AGENT = "3f2c8f5e-6f0a-4a7e-9d6e-0b9e2f6d1c11"


def line(seq: int = 1) -> bytes:
    return wire.encode_event(wire.Event(AGENT, seq, 1.0, wire.App("a"), "heartbeat", {})).encode()


def rows(*lines: bytes, origin: str = "file:/zone/a") -> list[dict[str, object]]:
    batch = pa.RecordBatch.from_pydict({"value": list(lines), "origin": [origin] * len(lines)})
    (out,) = parse_batches(iter([batch]))
    assert out.schema == PARSED
    return list(out.to_pylist())


def test_a_line_reports_its_agent_and_number_and_is_kept_as_it_came() -> None:
    (row,) = rows(line(7))
    assert (row["agent"], row["seq"], row["line"], row["error"]) == (AGENT, 7, line(7), None)


def test_a_bad_line_is_rejected_with_a_reason_and_its_neighbours_are_stored() -> None:
    found = rows(line(1), b"{", line(2), b"\xff")
    assert [row["seq"] for row in found] == [1, None, 2, None]
    assert [str(row["error"])[:8] for row in found] == ["None", "not JSON", "None", "not UTF-"]


def test_empty_lines_are_nothing() -> None:
    assert rows(b"", b"  ", b"\r") == []


def test_the_same_event_has_the_same_key_wherever_it_lies() -> None:
    assert rows(line())[0]["key"] == rows(line(), origin="file:/zone/b")[0]["key"]


def test_a_bad_line_of_two_files_is_two() -> None:
    assert rows(b"{")[0]["key"] != rows(b"{", origin="file:/zone/b")[0]["key"]
    assert rows(b"{")[0]["key"] == rows(b"{")[0]["key"]


def failed(path: str, cause: str) -> str:
    return (
        "Job aborted due to stage failure: [FAILED_READ_FILE.NO_HINT] Encountered error while reading file "
        f"{path}.  SQLSTATE: KD001\n\tat x\nCaused by: {cause}\n"
    )


@pytest.mark.parametrize(
    "cause",
    [
        "java.io.EOFException: Unexpected end of input stream",
        "java.io.IOException: not a gzip file",
        "java.io.IOException: gzip stream CRC failure",
    ],
    ids=["torn", "not gzip", "damaged"],
)
def test_a_file_that_no_try_will_read_is_named(cause: str) -> None:
    assert damaged_file(failed("file:///my zone/a.gz", cause)) == "file:///my zone/a.gz"


@pytest.mark.parametrize(
    "trouble",
    [
        failed("s3a://zone/a.gz", "java.net.SocketTimeoutException: Read timed out"),
        "EOFException of anything",
    ],
    ids=["the way to it", "no file"],
)
def test_what_may_pass_blames_no_file(trouble: str) -> None:
    assert damaged_file(trouble) is None
