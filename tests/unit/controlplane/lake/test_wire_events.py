"""Events of the wire: what is the same event, and what of it the lake keeps."""

from __future__ import annotations

import json
from typing import Any

import pytest

from controlplane.lake import wire_events
from controlplane.lake.rows import LakeRowBuilder
from listeners.protocol import wire
from listeners.protocol.errors import WireError
from tests.paths import DATA

AGENT, OTHER = "3f2c8f5e-6f0a-4a7e-9d6e-0b9e2f6d1c11", "6b1f0e6e-2a43-4e6e-8f6c-3a0d8a6a1b22"
RUN = {"id": "q-1", "runId": "r-1"}
REPORT = json.loads((DATA / "progress/spark-4.3.jsonl").read_text().splitlines()[0])


def event(type: str, data: dict[str, Any], agent: str = AGENT, seq: int = 1, at: float = 1e9) -> wire.Event:
    return wire.Event(agent, seq, at, wire.App("orders", "local-1", "4.3.0"), type, data)


def line(item: wire.Event) -> bytes:
    return wire.encode_event(item).encode()


def test_a_line_of_an_agent_is_read() -> None:
    reported = event("progress", REPORT)
    assert wire_events.decode_line(line(reported)) == reported


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (b"{", "not JSON"),
        (b"\xff\xfe", "UTF-8"),
        (b"[1]", "JSON object"),
        (b'{"v":1}', "agent"),
        (b"[" * 100_000, "nested too deep"),
    ],
    ids=["torn", "bytes", "a list", "no agent", "deep"],
)
def test_an_invalid_line_has_a_reason(bad: bytes, why: str) -> None:
    with pytest.raises(WireError, match=why):
        wire_events.decode_line(bad)


def test_only_an_inventory_may_be_longer_than_a_mebibyte() -> None:
    data = {"id": "q", "inventory": {"text": "x" * wire_events.MAX_LINE_BYTES}}
    assert wire_events.decode_line(line(event("inventory", data))).type == "inventory"
    with pytest.raises(WireError, match="at most"):
        wire_events.decode_line(line(event("progress", data)))


@pytest.mark.parametrize(
    ("type", "data", "again"),
    [
        ("progress", REPORT, {**REPORT, "numInputRows": 0}),
        ("started", {**RUN, "timestamp": "2026-11-20T06:00:00Z"}, RUN),
        ("terminated", {**RUN, "exception": "x"}, RUN),
        (
            "idle",
            {**RUN, "timestamp": "2026-11-20T06:00:00Z"},
            {**RUN, "timestamp": "2026-11-20T06:00:00.000Z"},
        ),
    ],
    ids=["progress", "started", "terminated", "idle"],
)
def test_facts_of_a_run_do_not_depend_on_the_reporting_agent(
    type: str, data: dict[str, Any], again: dict[str, Any]
) -> None:
    assert wire_events.deduplication_key(event(type, data)) == wire_events.deduplication_key(
        event(type, again, OTHER, 7)
    )


@pytest.mark.parametrize(
    ("item", "another"),
    [
        (event("progress", REPORT), event("progress", {**REPORT, "batchId": 11})),
        (event("progress", REPORT), event("progress", {**REPORT, "timestamp": "2026-11-20T06:03:12Z"})),
        (event("progress", REPORT), event("progress", {**REPORT, "runId": "another"})),
        (event("started", RUN), event("terminated", RUN)),
        (event("heartbeat", {}), event("heartbeat", {}, seq=2)),
        (event("heartbeat", {}), event("heartbeat", {}, OTHER)),
        (event("start_failed", RUN), event("start_failed", RUN, seq=2)),
        (event("progress", {"runId": "r"}), event("progress", {"runId": "r"}, seq=2)),
    ],
    ids=["batch", "trigger", "run", "kind", "number", "agent", "each failure", "no batch"],
)
def test_what_differs_has_another_key(item: wire.Event, another: wire.Event) -> None:
    assert wire_events.deduplication_key(item) != wire_events.deduplication_key(another)


def test_a_report_becomes_rows_with_its_agent() -> None:
    rows = LakeRowBuilder()
    assert wire_events.add_event(rows, event("progress", REPORT, seq=5))
    (row,) = rows.take()["progress"].to_pylist()
    assert (row["app"], row["agent"], row["seq"], row["origin"]) == ("orders", AGENT, 5, "agent")
    assert (row["batch_id"], row["spark_version"]) == (10, "4.3.0")


def test_a_failure_becomes_a_row_of_its_lifecycle() -> None:
    data = {**RUN, "name": "n", "exception": "boom", "errorClassOnException": "DIV", "later": {"a": 1}}
    rows = LakeRowBuilder()
    assert wire_events.add_event(rows, event("terminated", data))
    (row,) = rows.take()["lifecycle"].to_pylist()
    assert (row["event"], row["exception"], row["error_class"], row["name"]) == (
        "terminated",
        "boom",
        "DIV",
        "n",
    )
    assert json.loads(row["extra"]) == {"later": {"a": 1}} and row["reported_at"].timestamp() == 1e9


def test_a_start_is_at_the_time_that_spark_states() -> None:
    rows = LakeRowBuilder()
    wire_events.add_event(rows, event("started", {**RUN, "timestamp": "2026-11-20T06:00:00.250Z"}))
    (row,) = rows.take()["lifecycle"].to_pylist()
    assert row["reported_at"].isoformat() == "2026-11-20T06:00:00.250000+00:00"


@pytest.mark.parametrize("type", ["heartbeat", "status", "inventory", "of a newer agent"])
def test_metrics_of_the_present_only_are_no_rows(type: str) -> None:
    rows = LakeRowBuilder()
    assert wire_events.add_event(rows, event(type, RUN)) is False and len(rows) == 0


@pytest.mark.parametrize(
    "reported",
    [event("progress", {"id": "q"}), event("started", {"id": "q"}), event("terminated", {"runId": "r"})],
    ids=["progress", "started", "terminated"],
)
def test_what_names_no_run_is_refused_and_spoils_nothing(reported: wire.Event) -> None:
    rows = LakeRowBuilder()
    with pytest.raises(ValueError, match="must be"):
        wire_events.add_event(rows, reported)
    assert len(rows) == 0
