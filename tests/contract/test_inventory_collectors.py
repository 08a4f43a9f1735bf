"""One inventory, two collectors: fsspec (command line, server) and the driver's Hadoop over py4j.

What both see must be the same, and so what the judge states; what each chooses to read goes by one rule.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.checkpoints.analyzer import analyze
from controlplane.checkpoints.findings import Finding
from controlplane.checkpoints.inventory import selection as of_server
from controlplane.checkpoints.inventory.collector import collect as collect_by_fsspec
from controlplane.checkpoints.inventory.model import FileEntry, Inventory, from_json, to_json
from listeners.checkpoints import inventory_policy, inventory_reader
from listeners.checkpoints.hadoop import HadoopFileSystem

STORE = "spark.sql.streaming.stateStore."
ROCKSDB = {
    f"{STORE}providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    f"{STORE}rocksdb.changelogCheckpointing.enabled": "true",
}
SERVER_BUDGET = inventory_policy.InventoryBudget(
    of_server.MAX_FILES,
    of_server.MAX_TOTAL_BYTES,
    of_server.MAX_FILE_BYTES,
    of_server.MAX_COMPACTION_BYTES,
    of_server.MAX_SST_BYTES,
)

numbers = st.integers(0, 40).map(str)
stores = st.sampled_from(["state/0/0", "state/0/1", "state/1/0/left-keyToNumValues", "state/0/2/SSTs"])
paths = st.one_of(
    st.sampled_from(
        ["metadata", ".metadata.crc", "state/0/_metadata/metadata", "state/0/_metadata/v2/3", "x"]
    ),
    st.builds(
        "{}/{}".format, st.sampled_from(["offsets", "commits", "sources/0", "_spark_metadata"]), numbers
    ),
    st.builds("{}/.{}.crc".format, st.sampled_from(["offsets", "commits"]), numbers),
    st.builds(
        "{}/{}.compact".format, st.sampled_from(["sources/0", "sources/a b", "_spark_metadata"]), numbers
    ),
    st.builds(
        "{}/{}{}".format,
        stores,
        numbers,
        st.sampled_from([".delta", ".snapshot", ".zip", "_a-1.changelog", "_a-1.zip.crc"]),
    ),
    st.builds("{}/{:06d}-u.sst".format, stores, st.integers(0, 30)),
)


@given(st.dictionaries(paths, st.integers(0, 2000), max_size=120))
def test_both_choose_the_same_files_where_all_fit(sizes: dict[str, int]) -> None:
    entries = {path: FileEntry(size) for path, size in sizes.items()}
    assert inventory_policy.select_contents(sizes, SERVER_BUDGET) == of_server.select_files(entries)


def by_driver(spark: Any, place: str) -> Inventory:
    found = inventory_reader.DriverInventory(
        HadoopFileSystem(spark, place), inventory_reader.Bounds(), time.monotonic() + 60.0, time.monotonic
    )
    inventory_reader.collect(found)
    return from_json(json.loads(json.dumps(found.document(1.0, None))))


def agree(driver: Inventory, fsspec: Inventory) -> None:
    """The same but for the collector's name and times, of which Hadoop keeps milliseconds only."""
    assert comparable(driver) == comparable(fsspec)
    assert times(driver) == pytest.approx(times(fsspec), rel=0.0, abs=0.002)
    assert text(driver) == text(fsspec)


def comparable(inventory: Inventory) -> dict[str, Any]:
    document = to_json(replace(inventory, collector="", collected_at=0.0, root_modified=None))
    document["files"] = [(path, size) for path, size, _ in document["files"]]
    document["folders"] = [path for path, _ in document["folders"]]
    return document


def times(inventory: Inventory) -> dict[str, float]:
    document = to_json(inventory)
    return {path: at for path, *_, at in document["files"] + document["folders"]}


def text(inventory: Inventory) -> list[tuple[str, str, str]]:
    def key(finding: Finding) -> tuple[str, str, str]:
        return finding.check, finding.severity.value, finding.message

    verdict = analyze(inventory)
    return [
        (verdict.verdict, str(verdict.query_id), str(verdict.last_committed_batch)),
        *map(key, verdict.findings),
    ]


@pytest.fixture
def built(spark: Any, tmp_path: Path) -> Callable[[str, dict[str, str]], Path]:
    """A checkpoint that a real query has just written."""
    folder = tmp_path / "in put"
    folder.mkdir()
    for number in range(11):
        (folder / f"{number}.json").write_text(json.dumps({"k": f"k{number % 4}", "v": number}))

    def build(kind: str, conf: dict[str, str]) -> Path:
        place = tmp_path / f"check, point;={kind}"
        for key, value in conf.items():
            spark.conf.set(key, value)
        try:
            frame = (
                spark.readStream.schema("k STRING, v BIGINT")
                .option("maxFilesPerTrigger", 1)
                .json(str(folder))
            )
            if kind != "stateless":
                frame = frame.groupBy("k").count()
            mode = "append" if kind == "stateless" else "complete"
            writer = (
                frame.writeStream.format("noop").outputMode(mode).option("checkpointLocation", str(place))
            )
            writer.trigger(availableNow=True).start().awaitTermination()
        finally:
            for key in conf:
                spark.conf.unset(key)
        # The maintenance of state stores outlives the query, and writes snapshots between two listings.
        spark._jvm.org.apache.spark.sql.execution.streaming.state.StateStore.stop()
        return place

    return build


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "conf"),
    [
        ("stateless", {}),
        ("deltas", {}),
        ("changelogs", ROCKSDB),
        ("ids", {**ROCKSDB, f"{STORE}checkpointFormatVersion": "2"}),
    ],
)
def test_both_see_the_same_checkpoint_whole_and_broken(
    spark: Any, built: Callable[[str, dict[str, str]], Path], kind: str, conf: dict[str, str]
) -> None:
    place = built(kind, conf)
    agree(by_driver(spark, f"file:{place}"), collect_by_fsspec(str(place), 1.0))
    assert analyze(by_driver(spark, str(place))).verdict == "ok"
    for path in (
        place / "offsets/10",
        place / "commits/9",
        place / "sources/0/9.compact",
        *place.glob("state/0/0/10*"),
    ):
        path.write_bytes(path.read_bytes()[:9])
    (place / "offsets/9").unlink()
    (place / "offsets/11").mkdir()
    (place / "offsets/line\nbreak; isDirectory=true; length=3").write_text("x")
    found = by_driver(spark, str(place))
    agree(found, collect_by_fsspec(str(place), 1.0))
    assert analyze(found).verdict == "broken"


@pytest.mark.spark
def test_both_say_the_same_of_what_is_no_checkpoint(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    for name in ("gone", "empty", "file"):
        agree(by_driver(spark, str(tmp_path / name)), collect_by_fsspec(str(tmp_path / name), 1.0))
