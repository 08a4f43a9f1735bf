"""Loads by id: which snapshot Spark begins with, and what it needs on the way to a version."""

from __future__ import annotations

import io
import json
import struct
import zipfile

import pytest
import zstandard

from controlplane.checkpoints.inventory.model import FileEntry, Inventory
from controlplane.checkpoints.reading.state_loading import FaultKind, LoadResult, StateLoader
from controlplane.checkpoints.reading.state_tree import StateFile, Store
from controlplane.checkpoints.reading.versions import SparkVersion

FOLDER = "state/0/0"
NEWEST = 10
REPAIRING, PLAIN = SparkVersion(4, 2), SparkVersion(4, 1)


def changelog(lineage: range) -> bytes:
    named = json.dumps([{"version": n, "checkpointUniqueId": f"id{n}"} for n in lineage]).encode()
    plain = b"\x00\x02v3" + struct.pack(">H", len(named)) + named + struct.pack(">i", -1)
    return zstandard.compress(plain)


def snapshot() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as made:
        made.writestr("metadata", 'v1\n{"sstFiles":[],"numKeys":0}')
    return packed.getvalue()


def files(*snapshots: int, lost: tuple[int, ...] = (), bad: tuple[int, ...] = ()) -> dict[str, bytes]:
    """Versions 1 … 10 of a store that took snapshots of 4 and 8. `lost` changelogs and `bad` snapshots."""
    made = {}
    for number in set(range(1, NEWEST + 1)) - set(lost):
        base = max((n for n in (1, 4, 8) if n < number), default=number)
        made[f"{number}_id{number}.changelog"] = changelog(range(base, number))
    for number in snapshots:
        made[f"{number}_id{number}.zip"] = b"cut" if number in bad else snapshot()
    return made


def load(held: dict[str, bytes], target: SparkVersion = REPAIRING, collected: bool = True) -> LoadResult:
    contents = {f"{FOLDER}/{name}": data for name, data in held.items()}
    entries = {path: FileEntry(len(data), 0.0, False) for path, data in contents.items()}
    if not collected:
        contents = {path: data for path, data in contents.items() if not path.endswith("/8_id8.changelog")}
    named = []
    for name in held:
        head, _, kind = name.rpartition(".")
        number, _, key = head.partition("_")
        named.append(StateFile(f"{FOLDER}/{name}", int(number), kind, key))
    loader = StateLoader(Inventory("/ck", entries, contents), target, codec="zstd")
    return loader.load_by_id(Store(FOLDER, 0, 0, "default", tuple(named)), NEWEST, f"id{NEWEST}")


@pytest.mark.parametrize(
    "held",
    [
        files(4, 8),
        files(8, lost=(1, 2, 3, 4, 5, 6, 7, 8)),
        files(4),  # no snapshot in the newest lineage: an older lineage has one
        files(4, 8, bad=(8,)),
        files(8, bad=(8,)),  # the empty store was not tried yet
    ],
)
def test_spark_finds_a_base(held: dict[str, bytes]) -> None:
    assert load(held).loads


@pytest.mark.parametrize(
    ("held", "kind", "path"),
    [
        (files(), FaultKind.BASE, "8_id8.zip"),  # the empty store was tried first, with too short a lineage
        (files(4, lost=(8,)), FaultKind.BASE, "8_id8.zip"),
        (files(4, lost=(4,)), FaultKind.BASE, "8_id8.zip"),  # Spark follows the lineage down to version 1
        (files(4, 8, bad=(8,), lost=(8,)), FaultKind.CORRUPT, "8_id8.zip"),
        (files(4, 8, lost=(9,)), FaultKind.MISSING, "9_id9.changelog"),
        (files(4, 8, lost=(10,)), FaultKind.MISSING, "10_id10.changelog"),
        (files(4, 8, bad=(8,), lost=(6,)), FaultKind.MISSING, "6_id6.changelog"),
    ],
)
def test_spark_finds_no_base_or_lacks_a_changelog(held: dict[str, bytes], kind: FaultKind, path: str) -> None:
    faults = load(held).faults
    assert (kind, f"{FOLDER}/{path}") in [(fault.kind, fault.path) for fault in faults]


@pytest.mark.parametrize("held", [files(4), files(), files(4, 8, bad=(8,))])
def test_before_auto_repair_the_newest_snapshot_of_the_lineage_must_be_whole(held: dict[str, bytes]) -> None:
    assert load(files(4, 8), PLAIN).loads
    assert not load(held, PLAIN).loads


def test_a_changelog_that_was_not_collected_counts_as_good() -> None:
    assert load(files(4), collected=False).loads
