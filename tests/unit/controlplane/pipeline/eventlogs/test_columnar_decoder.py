"""The fast way from lines to rows gives what the general way gives, or leaves a line to it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.lake.rows import REPORT_TABLES, LakeRowBuilder, Producer
from controlplane.pipeline.eventlogs.columnar_decoder import ReportDecoder, ended_at
from controlplane.pipeline.eventlogs.event_parser import parse_event, parse_line
from tests import eventlogs

WHO = Producer("recorded", "4.3.0", "log")
LINES = eventlogs.progress_lines()
NO_WATERMARK = b'"watermark":"1970-01-01T00:00:00.000Z"'
STATEFUL, STATELESS = (
    next(line for line in LINES if (b"rocksdb" in line) is stateful and NO_WATERMARK not in line)
    for stateful in (True, False)
)
Columns = dict[str, list[dict[str, Any]]]


def slowly(*lines: bytes) -> Columns:
    rows = LakeRowBuilder()
    for line in lines:
        event = parse_event(parse_line(line))
        assert event is not None
        rows.progress(WHO, event.report or {})
    return columns(rows.take())


def quickly(*lines: bytes) -> Columns | None:
    """None where a line is for the general way."""
    reports = ReportDecoder(WHO)
    if None in [reports.add(line) for line in lines]:
        return None
    tables = reports.take()
    assert not len(reports)
    return columns(tables)


def columns(tables: dict[str, pa.Table]) -> Columns:
    return {name: table.to_pylist() for name, table in tables.items() if name in REPORT_TABLES}


def agree(line: bytes) -> bool:
    """Whether the line took the fast way; where it did the rows are the same."""
    fast = quickly(line)
    if fast is not None:
        assert fast == slowly(line)
    return fast is not None


def changed(change: Callable[[dict[str, Any]], Any], line: bytes = STATEFUL) -> bytes:
    document = json.loads(line)
    change(document["progress"])
    return json.dumps(document).encode()


def test_reports_that_spark_wrote_take_the_fast_way_and_give_the_same_rows() -> None:
    assert len(LINES) == eventlogs.REPORTS
    assert sum(NO_WATERMARK in line for line in LINES) == len(LINES) - 7
    odd = [line for line in LINES if not agree(line)]
    assert len(odd) == 1 and b'"inputRowsPerSecond":0.0' in odd[0] and b'"numInputRows":0' not in odd[0]
    typical = [line for line in LINES if line not in odd]
    assert quickly(*typical) == slowly(*typical)


@pytest.mark.parametrize(
    "change",
    [
        lambda p: p.update(novelty=1),
        lambda p: p["sources"][0].update(novelty=1),
        lambda p: p["sink"].update(metrics={"files": "3"}),
        lambda p: p["durationMs"].update(addBatch=1.5),
        lambda p: p.update(durationMs={"triggerExecution": 3}, sources=[]),
        lambda p: p.update(batchId=2**63),
        lambda p: p.update(runId=""),
        lambda p: p.update(timestamp="yesterday"),
        lambda p: p.update(eventTime={"watermark": "1970-01-01T00:00:00Z"}),
        lambda p: p.update(eventTime={"max": "2026-11-20T05:30:00.000"}),
        lambda p: p.update(timestamp="2026-11-20T05:30:00.000+01:00"),
        lambda p: p.update(stateOperators=[{"customMetrics": {"a": 2**63}}]),
        lambda p: p.update(stateOperators=[{"customMetrics": {"a": "1"}}]),
        lambda p: p["sources"][0].update(endOffset={"t": {"0": 1}}),
        lambda p: p["sources"][0].update(inputRowsPerSecond=0.0, numInputRows=5),
        lambda p: p["sources"][0].update(inputRowsPerSecond="fast"),
        lambda p: p.update(sources=[{"numInputRows": 2**62}] * 2),
        lambda p: p.update(sources=[p["sources"][0] | {"inputRowsPerSecond": 1.7e308}] * 2),
        lambda p: p.update(sources=[p["sources"][0] | {"inputRowsPerSecond": -1.7e308}] * 2),
        lambda p: p.update(
            eventTime={"watermark": "1970-01-01T00:00:00Z"},
            observedMetrics={"watermark": "1970-01-01T00:00:00.000Z"},
        ),
    ],
)  # fmt: skip
def test_unusual_input_takes_the_general_path(change: Callable[[dict[str, Any]], Any]) -> None:
    assert quickly(changed(change)) is None


@pytest.mark.parametrize(
    "change",
    [
        lambda p: p.pop("batchDuration"),
        lambda p: p.update(batchDuration=2**62),
        lambda p: p.update(sources=[]),
        lambda p: p.update(sources=p["sources"] * 3),
        lambda p: p.update(sources=[p["sources"][0], p["sources"][0] | {"inputRowsPerSecond": "NaN"}]),
        lambda p: p.update(sources=[{"endOffset": '{"t":{"0":4}}', "latestOffset": '{"t":{"0":9,"1":2}}'}]),
        lambda p: p.update(sources=[{"endOffset": " 12 ", "latestOffset": "no json"}]),
        lambda p: p.update(stateOperators=None, sink=None, eventTime=None, observedMetrics=None, name=""),
        lambda p: p.update(stateOperators=p["stateOperators"] * 2),
        lambda p: p.update(stateOperators=[{"operatorName": "o", "numRowsTotal": 2**62}] * 3),
        lambda p: p.update(stateOperators=[{"snapshotCustomMetricNames": []}]),
        lambda p: p.update(observedMetrics={"m": {"schema": {"fields": [{"name": "n"}]}, "values": [7]}}),
        lambda p: p["sink"].update(numOutputRows=-1, description=""),
        lambda p: p.update(eventTime={"watermark": "1970-01-01T00:00:00.000Z"}),
        lambda p: p.update(stateOperators=[{"customMetrics": {}}, {"customMetrics": {"a": 1}}]),
        lambda p: p.update(stateOperators=[{"customMetrics": {"a": 1, "b": 2}}, {"customMetrics": {"b": 1}}]),
        lambda p: p.update(eventTime={"max": "2026-11-20T05:30:00.123456Z", "avg": None}),
    ],
)  # fmt: skip
def test_what_is_unusual_but_of_its_type_gives_the_same_rows(change: Callable[[dict[str, Any]], Any]) -> None:
    assert agree(changed(change)) and agree(changed(change, STATELESS))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (rb'"batchId":', rb'"batchId":3,"batchId":'),
        (rb'"batchDuration":', rb'"batchDuration":1.0,"x":'),
        (rb'"name":', rb'"name":"a\ud800","x":'),
        (rb'"description":"', b'"description":"\xff'),
        (rb'"Event":"org', rb'"Event":"SparkListenerJobEnd","Event":"org'),
    ],
    ids=["twice", "float", "half a pair", "no UTF-8", "event twice"],
)
def test_text_that_parsers_read_in_different_ways_gives_no_other_rows(old: bytes, new: bytes) -> None:
    line = STATEFUL.replace(old, new, 1)
    assert line != STATEFUL
    agree(line)


def test_another_event_is_not_for_the_fast_way() -> None:
    assert quickly(b'{"Event":"SparkListenerJobEnd"}') is None
    assert quickly(b"{") is None


def test_nothing_that_was_reported_is_empty_tables() -> None:
    assert quickly() == {name: [] for name in REPORT_TABLES}


def test_the_end_of_a_trigger_is_read_from_its_report() -> None:
    report = ReportDecoder(WHO).add(
        changed(lambda p: p.update(timestamp="2026-11-20T05:30:00Z", batchDuration=1500))
    )
    assert report is not None
    assert ended_at(report) == datetime(2026, 11, 20, 5, 30, 1, 500_000, UTC).timestamp()


scalars = (
    st.none() | st.booleans() | st.floats() | st.text(max_size=4)
    | st.sampled_from([0, 1, -1, 7, 2**62, 2**63 - 1, 2**63, -(2**63), 10**30, 0.0, 1.5, 1e308, "NaN", "Infinity"])
    | st.sampled_from(["5", "05", '{"t":{"0":3}}', "null", " 7", "2026-11-20T05:30:00Z", "1970-01-01T00:00:00Z"])
)  # fmt: skip
wild = scalars | st.dictionaries(st.sampled_from(["a", "schema", "values"]), scalars) | st.lists(scalars)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_no_change_of_reports_makes_the_two_ways_disagree(data: st.DataObject) -> None:
    taken = []
    for _ in range(data.draw(st.integers(1, 4))):
        line = drawn(data)
        if quickly(line) is not None:
            taken.append(line)
    try:
        assert quickly(*taken) == slowly(*taken)
    except ValueError as error:
        pytest.fail(f"the general way refuses what the fast one takes: {error}")


def drawn(data: st.DataObject) -> bytes:
    """A report that was changed in up to three places."""
    document = parse_line(data.draw(st.sampled_from(LINES)))
    for _ in range(data.draw(st.integers(0, 3))):
        holder, key = data.draw(st.sampled_from(list(places(document["progress"]))))
        if isinstance(holder, dict) and data.draw(st.integers(0, 3)) == 0:
            holder.pop(key, None)
        else:
            holder[key] = data.draw(wild)
    return json.dumps(document).encode()


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Where something can be changed: all keys, at any depth, and one that is not there."""
    if isinstance(value, dict):
        yield value, "new"
    for key, inner in list(value.items() if isinstance(value, dict) else enumerate(value)):
        yield value, key
        if isinstance(inner, (dict, list)) and key != "snapshotCustomMetricNames" and key != "customMetrics":
            yield from places(inner)
