"""Inventories as anybody may send them: read, slimmed, judged, and never a traceback."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from controlplane.checkpoints.inventory.model import NotAnInventory
from controlplane.checkpoints.inventory_events import (
    received_inventory,
    shapes_in_status,
    survey_from,
    without_listing,
    without_state_rows,
)
from controlplane.checkpoints.known_history import history_from
from controlplane.checkpoints.report import build_report, checkpoint_seen
from controlplane.events.parsing import parse
from listeners.protocol import wire
from tests.drivers import BEGIN, Driver

GOOD: dict[str, Any] = {
    "format": "spark-checkpoint-inventory",
    "version": 1,
    "root": "/c",
    "collected_at": BEGIN,
    "collector": "agent",
    "exists": True,
    "complete": True,
    "guessed": False,
    "root_modified": None,
    "spark_version": None,
    "errors": [],
    "relocations": [],
    "files": [["metadata", 10, BEGIN], ["offsets/0", 20, BEGIN], ["commits/0", 5, BEGIN]],
    "folders": [["offsets", BEGIN], ["commits", BEGIN]],
    "contents": {"metadata": "e30="},
}


def event(inventory: Any, **more: Any) -> wire.Event:
    return Driver().event("inventory", {"id": "q", "runId": "r", "inventory": inventory, **more})


def test_the_time_of_an_inventory_is_when_its_collection_began() -> None:
    assert received_inventory(event(GOOD, seconds=3.5)).taken_at == BEGIN + 1 - 3.5
    assert received_inventory(event(GOOD, seconds=-7)).taken_at == BEGIN + 1
    assert received_inventory(event(GOOD, seconds="x")).taken_at == BEGIN + 1


def test_the_version_of_spark_is_the_events_else_its_apps() -> None:
    reported = event(GOOD)
    assert received_inventory(event(GOOD, sparkVersion="3.5.9")).spark_version == "3.5.9"
    assert received_inventory(reported).spark_version is None


def test_a_slim_event_keeps_figures_in_place_of_bulk_and_all_else() -> None:
    kept = without_listing({"id": "q", "new": 1, "inventory": GOOD, "output": None})
    assert (kept["inventory"]["files"], kept["inventory"]["contents"], kept["new"]) == (3, 1, 1)
    assert kept["inventory"]["root"] == "/c"
    assert without_listing({"inventory": "odd"}) == {"inventory": "odd"}


def test_a_list_beyond_the_bound_is_refused_before_it_is_built() -> None:
    with pytest.raises(NotAnInventory, match="more than 200,000"):
        survey_from(received_inventory(event({**GOOD, "files": [None] * 200_001})))


@pytest.mark.parametrize(
    "row",
    [
        ["a", 10**400, 1.0],
        ["a", 2**63, 1.0],
        ["a", -1, 1.0],
        ["a", 1, float("inf")],
        ["a", 1, float("nan")],
        ["a", 1, 1e300],
        ["a", 1, -1e300],
        ["a", 1, 10**400],
        ["x/" * 33 + "a", 1, 1.0],
        ["x" * 4097, 1, 1.0],
    ],
    ids=lambda row: f"{str(row[0])[:4]} {len(str(row))}",
)
def test_what_no_file_system_has_is_refused(row: list[Any]) -> None:
    with pytest.raises(NotAnInventory):
        survey_from(received_inventory(event({**GOOD, "files": [row]})))


@pytest.mark.parametrize(
    "changed", [{"collected_at": 1e300}, {"root_modified": 1e300}, {"root": "/c" * 4000}]
)
def test_a_place_or_time_that_is_none_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(NotAnInventory):
        survey_from(received_inventory(event({**GOOD, **changed})))


def test_what_a_file_system_can_have_is_taken() -> None:
    files = [["x/" * 32 + "a", 2**63 - 1, 0.0], ["y" * 4096, 0, -1.0]]
    survey = survey_from(received_inventory(event({**GOOD, "files": files})))
    assert survey.checkpoint.size(files[0][0]) == 2**63 - 1


def test_a_short_document_that_names_many_folders_is_refused() -> None:
    files = [[f"{n}/" + "a/" * 30 + "b", 1, 1.0] for n in range(7_000)]
    with pytest.raises(NotAnInventory, match="more than 200,000 folders"):
        survey_from(received_inventory(event({**GOOD, "files": files})))


@pytest.mark.parametrize(
    "bulk",
    [
        {"folders": [[f"a{n}", 1.0] for n in range(1_000)]},
        {"files": [[f"a{n}", 1, 1.0] for n in range(1_000)]},
        {"errors": ["x" * 50_000]},
        {"relocations": [["a" * 25_000, "b" * 25_000]]},
        {"contents": {"a": "x" * 50_000}},
        {"unknown": {"deep": [["x" * 50_000]]}},
    ],
    ids=lambda bulk: next(iter(bulk)),
)
def test_all_that_an_inventory_holds_weighs(bulk: dict[str, Any]) -> None:
    assert received_inventory(event({**GOOD, **bulk})).weight > 50_000
    assert received_inventory(event(GOOD, output={**GOOD, **bulk})).weight > 50_000
    assert received_inventory(event(GOOD)).weight < 10_000


def test_shapes_are_found_with_whose_they_are() -> None:
    reported = {
        "id": "q",
        "runId": "r",
        "name": "orders",
        "facts": {"checkpoint": "file:/c", "shape": {"v": 1}},
    }
    found = list(shapes_in_status(Driver().event("status", {"queries": [reported, {"id": "x"}, 7]})))
    assert [(whose.run_id, whose.checkpoint, shape) for whose, shape in found] == [("r", "/c", {"v": 1})]


NAMES = st.sampled_from(
    [
        "metadata", "offsets/0", "offsets/1", "offsets/1/", "commits/0", "commits/-1", "commits/1", "state", "state/0",
        "state/0/0/1.delta", "state/0/0/2.zip", "state/0/0/2_ab.changelog", "state/0/_metadata/metadata",
        "state/0/0/_metadata/schema", "state/0/0/1.delta.crc", "sources/0/0", "sources/0/9.compact", "sources/0",
        "", "/", "..", "a//b", "offsets/99999999999999999999", "offsets/.0.crc", "commits/٣", "state/0/_metadata/v2/0",
    ]
) | st.text(max_size=20)  # fmt: skip
NUMBERS = st.integers(-5, 10**20) | st.floats() | st.booleans() | st.none()
BYTES = st.sampled_from(
    [b"", b"v1", b"v1\n{}\n5", b"v1\n{}", b'{"id":"x"}', b"v2\n{}\na:{}", b"v9", b'v1\n{"path":1}',
        b"v1\n[]\n[", b"\xff\x00" * 9]
) | st.binary(max_size=60)  # fmt: skip
FILES = st.lists(st.tuples(NAMES, NUMBERS, NUMBERS).map(list), max_size=12)
CONTENTS = st.dictionaries(NAMES, BYTES.map(lambda data: base64.b64encode(data).decode()), max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=10,
)
CHANGED = st.dictionaries(st.sampled_from(sorted(GOOD)), JSON, max_size=3)


def whole(files: list[Any], contents: dict[str, str], changed: dict[str, Any]) -> dict[str, Any]:
    return {**GOOD, "files": files, "contents": contents, **changed}


@given(st.builds(whole, FILES, CONTENTS, st.just({}) | CHANGED))
@example({})
@example({**GOOD, "files": [["offsets/0", 1e400, 0]]})
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_inventory_is_analyzed_or_refused_with_a_reason(document: dict[str, Any]) -> None:
    line = wire.dumps(wire.loads(json.dumps(document)))
    came = received_inventory(event(wire.loads(line), output=document.get("errors")))
    parse(event(wire.loads(line)))
    try:
        survey = survey_from(came)
    except NotAnInventory:
        return
    printed = build_report(
        survey,
        None,
        history_from("q", [(1.0, {"batchId": 1, "sources": [{"endOffset": 5}]})], "/c", None, "r"),
    )
    assert printed["summary"]
    assert checkpoint_seen(wire.loads(wire.dumps(printed)), BEGIN).verdict == printed["verdict"]


def test_what_is_kept_holds_no_rows_of_state() -> None:
    schemas = [
        "state/0/_metadata/metadata",
        "state/0/0/_metadata/schema",
        "state/0/_stateSchema/default/0_9b",
    ]
    held = ["metadata", "offsets/1", *schemas]
    rows = ["state/0/0/3.delta", "state/0/0/left-keyToNumValues/4.changelog", "state/0/1/5.zip"]
    kept = without_state_rows({**GOOD, "contents": dict.fromkeys([*held, *rows], "e30=")})
    assert list(kept["contents"]) == held
    assert without_state_rows("nonsense") == "nonsense"
    assert without_state_rows({"contents": 3}) == {"contents": 3}
