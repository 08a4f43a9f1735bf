"""Whatever the files hold, the doctor answers; it never raises and never hangs."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controlplane.checkpoints.analyzer import analyze
from controlplane.checkpoints.findings import ReportStatus
from controlplane.checkpoints.inventory.model import FileEntry, Inventory, NotAnInventory, from_json, to_json
from controlplane.checkpoints.reading.versions import SparkVersion
from controlplane.checkpoints.survey import survey_from_json
from tests.unit.controlplane.checkpoints.goldens import golden

NAMES = ["files12", "agg", "rocks", "rockscl", "v2", "tws", "join", "v2log"]
VERSIONS = st.sampled_from(
    [SparkVersion(4, 3, 0), SparkVersion(3, 5, 9), SparkVersion(3, 1, 0), SparkVersion(4, 1)]
)
HOSTILE = [
    b"",
    b"\x00",
    b"\xff\xfe" * 40,
    b"v1",
    b"v1\n",
    b"v1\n\n",
    b"v1\n[]\n{}",
    b"v1\nnull\nnull",
    b"v1\n" + b"[" * 5000,
    b'v1\n{"conf":[1],"batchWatermarkMs":1e999,"batchTimestampMs":"x"}\n{"logOffset":true}',
    b'v1\n{"nextBatchWatermarkMs":%d,"stateUniqueIds":{"0":[[1],null,{}]}}' % (10**400),
    b'v1\n{"conf":{"spark.sql.shuffle.partitions":"999999999"}}\n{"logOffset":99999999999999}',
    b'v2\n{"conf":{}}\n:\n-:-',
    b'v1\n{"path":3,"batchId":"x"}\n{"path":null}',
    b'{"id":7}',
    b'v1\n{"operatorInfo":7,"stateStoreInfo":[{"numPartitions":Infinity}]}',
    b"LZ4Block\x20" + b"\xff" * 12,
    b"LZ4Block\x20\x04\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x1f\x00\x00\xff",
    b"PK\x03\x04" + b"\xff" * 40,
    b"\x00\x02v2\x7f\xff\xff\xff",
    b"crc\x00\x00\x00\x00\x01",
    "v1\n{\u2028}\u0085".encode(),
]


@st.composite
def damaged(draw: st.DrawFn) -> Inventory:
    """A checkpoint of real Spark with some files lost, cut, flipped, or filled with something else."""
    whole = golden(draw(st.sampled_from(NAMES))).checkpoint
    entries, contents = dict(whole.entries), dict(whole.contents)
    for path in draw(st.lists(st.sampled_from(sorted(entries)), min_size=1, max_size=6, unique=True)):
        act = draw(st.sampled_from(["lose", "fill", "cut", "flip", "unread", "folder"]))
        data = contents.get(path, b"")
        if act == "lose":
            entries.pop(path)
            contents.pop(path, None)
            continue
        if act == "folder":
            entries[path] = FileEntry(0, None, folder=True)
            contents.pop(path, None)
            continue
        if act == "unread":
            contents.pop(path, None)
            continue
        if act == "fill":
            data = draw(st.one_of(st.sampled_from(HOSTILE), st.binary(max_size=200)))
        elif act == "cut":
            data = data[: draw(st.integers(0, max(len(data), 1)))]
        elif data:
            at = draw(st.integers(0, len(data) - 1))
            data = data[:at] + bytes([data[at] ^ draw(st.integers(1, 255))]) + data[at + 1 :]
        contents[path], entries[path] = data, FileEntry(len(data), 1.0)
    return replace(whole, entries=entries, contents=contents)


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(damaged(), VERSIONS)
def test_damage_of_any_kind_gets_a_verdict_that_is_json(inventory: Inventory, target: SparkVersion) -> None:
    verdict = analyze(inventory, target)
    document = json.loads(json.dumps(verdict.as_json()))
    assert document["verdict"] in {status.value for status in ReportStatus}
    assert all(finding["message"] and finding["check"] for finding in document["findings"])


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(damaged())
def test_an_inventory_survives_its_way_through_json(inventory: Inventory) -> None:
    assert from_json(json.loads(json.dumps(to_json(inventory)))) == inventory


NUMBERS = ["0", "1", "9", "00", "17", "999999999", "99999999999999999", "9" * 30, "٣", "-1", "1.compact"]
FOLDERS = ["offsets", "commits", "sources/0", "state/0/0", "state", "_spark_metadata", "state/0/0/left-x"]


@pytest.mark.parametrize("content", HOSTILE)
def test_hostile_content_in_every_place_gets_a_verdict(content: bytes) -> None:
    paths = [
        f"{folder}/{name}{end}" for folder in FOLDERS for name in NUMBERS for end in ("", ".delta", ".zip")
    ]
    paths += [
        "metadata",
        "state/0/_metadata/metadata",
        "state/0/_metadata/v2/0",
        "state/0/0/_metadata/schema",
    ]
    held = Inventory("/x", {path: FileEntry(len(content)) for path in paths}, dict.fromkeys(paths, content))
    assert analyze(held, SparkVersion(4, 3), output=held, inputs=(held,)).verdict is not ReportStatus.OK


@settings(max_examples=200, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["format", "version", "files", "contents", "root", "inputs"]), inner
            )
        ),
    )
)
def test_document_that_is_no_inventory_is_refused(document: object) -> None:
    with pytest.raises(NotAnInventory):
        survey_from_json(document)


@pytest.mark.parametrize("broken", ["files", "contents", "collected_at", "relocations"])
@pytest.mark.parametrize("value", [None, 3, [[1]], {"a": "§"}, [[1, 2, 3, 4]]])
def test_inventory_with_a_malformed_part_is_refused(broken: str, value: object) -> None:
    document = {**to_json(Inventory("/x", {})), broken: value}
    if broken == "collected_at" and value == 3:
        assert from_json(document).collected_at == 3.0
        return
    with pytest.raises(NotAnInventory):
        from_json(document)
