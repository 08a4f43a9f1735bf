"""Checkpoints of healthy queries of every kind have no findings."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from controlplane.checkpoints.analyzer import analyze
from controlplane.checkpoints.findings import Severity
from controlplane.checkpoints.reading.versions import parse_version
from controlplane.checkpoints.survey import collect_survey
from tests.spark import goldens
from tests.spark.deployment import PROGRAMS, wait_for
from tests.spark.goldens import CHANGELOG, HDFS, PROVIDERS, ROCKSDB, Golden, Inputs, run

pytestmark = pytest.mark.spark

FAST = {"processingTime": "0 seconds"}
#: Of every stateful computation, in every provider that can hold it.
STATEFUL = {
    "counted": (goldens.counted, "complete"),
    "windowed": (goldens.windowed, "append"),
    "sessions": (goldens.sessions, "append"),
    "distinct": (goldens.distinct, "append"),
    "within": (goldens.distinct_within, "append"),
    "joined": (goldens.joined, "append"),
    "outer": (goldens.outer, "append"),
    "function": (goldens.stateful_function, "update"),
}
KINDS = [
    Golden(f"{name} in {provider}", build, mode, "noop", PROVIDERS[provider])
    for name, (build, mode) in STATEFUL.items()
    for provider in PROVIDERS
    if not (name in ("joined", "outer") and provider == "ids")
]
KINDS += [
    Golden("transformed", goldens.transformed, "update", "noop", ROCKSDB),
    Golden("transformed with changelogs", goldens.transformed, "update", "noop", CHANGELOG),
    Golden("plain to files", goldens.display_root, sink="files"),
    Golden("plain to a function", goldens.display_root),
    Golden("plain to the console", goldens.display_root, sink="console"),
    Golden("united", goldens.united, sink="noop"),
    Golden("without a key", goldens.keyless, "complete", "noop"),
    Golden("by interval", goldens.counted, "complete", "noop", trigger=FAST),
    Golden("once", goldens.counted, "complete", "noop", trigger={"once": True}),
    Golden(
        "offsets by name",
        goldens.display_root,
        "append",
        "noop",
        {"spark.sql.streaming.offsetLog.formatVersion": "2"},
    ),
]
QUICK = {"plain to files", "without a key", "windowed in ids"}
#: The formats of changelogs and state ids, once in CI: what differs by computation is the same in the other providers.
REPEATED = {
    kind.name
    for kind in KINDS
    if kind.name.endswith((" in changelog", " in ids")) and not kind.name.startswith("counted")
}


@pytest.fixture(scope="module")
def inputs(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    made = Inputs(spark, tmp_path_factory.mktemp("healthy") / "in put")
    made.feed(3)
    return made


def complaints(checkpoint: Path, output: Path | None = None) -> list[str]:
    """The doctor's findings above `info`, with and without the output named."""
    found = []
    for known in {output, None}:
        held = collect_survey(str(checkpoint), time.time(), output=known and str(known))
        verdict = analyze(held.checkpoint, parse_version("4.3.0"), output=held.output, inputs=held.inputs)
        found += [f"{f.check}: {f.message}" for f in verdict.findings if f.severity is not Severity.INFO]
        assert verdict.verdict == ("risky" if found else "ok")
    return found


def healthy(inputs: Inputs, golden: Golden, place: Path) -> None:
    ran = run(inputs, golden, place / "checkpoint", place / "out")
    assert ran.error is None, ran.error
    assert complaints(place / "checkpoint", place / "out" if golden.sink == "files" else None) == []


@pytest.mark.parametrize("golden", [kind for kind in KINDS if kind.name in QUICK], ids=lambda kind: kind.name)
def test_a_checkpoint_just_written_is_healthy(inputs: Inputs, golden: Golden, tmp_path: Path) -> None:
    healthy(inputs, golden, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize(
    "golden",
    [
        pytest.param(kind, id=kind.name, marks=[pytest.mark.soak] if kind.name in REPEATED else kind.marks)
        for kind in KINDS
        if kind.name not in QUICK
    ],
)
def test_a_checkpoint_of_every_kind_is_healthy(inputs: Inputs, golden: Golden, tmp_path: Path) -> None:
    healthy(inputs, golden, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize(
    "conf",
    [
        pytest.param(HDFS, id="hdfs"),
        pytest.param(ROCKSDB, id="rocksdb", marks=pytest.mark.soak),  # changelogs are RocksDB's too
        pytest.param(CHANGELOG, id="changelog"),
    ],
)
def test_after_compactions_and_purges_it_is_healthy(spark: Any, tmp_path: Path, conf: dict[str, str]) -> None:
    """More batches than any log keeps: the source's and the sink's logs compacted, old entries and state purged."""
    inputs = Inputs(spark, tmp_path / "in")
    inputs.feed(24)
    kept = {
        "spark.sql.streaming.minBatchesToRetain": "3",
        "spark.sql.streaming.stateStore.minDeltasForSnapshot": "4",
    }
    healthy(inputs, Golden("files", goldens.display_root, sink="files", conf=kept), tmp_path / "files")
    healthy(
        inputs, Golden("counts", goldens.counted, "complete", "noop", {**conf, **kept}), tmp_path / "counts"
    )


@pytest.mark.long
@pytest.mark.parametrize("source", [goldens.from_rate, goldens.from_clock], ids=["rate-micro-batch", "rate"])
def test_other_sources_leave_healthy_checkpoints(
    spark: Any, inputs: Inputs, tmp_path: Path, source: Any
) -> None:
    query = source(inputs).writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start()
    wait_for(lambda: query.lastProgress and query.lastProgress["batchId"] >= 2)
    assert complaints(tmp_path) == []  # while it runs
    query.stop()
    assert complaints(tmp_path) == []


@pytest.mark.long
def test_a_query_that_has_just_begun_is_healthy(spark: Any, tmp_path: Path) -> None:
    """No input yet: metadata alone, then empty folders."""
    inputs = Inputs(spark, tmp_path / "in")
    writer = goldens.counted(inputs).writeStream.format("noop").outputMode("complete")
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    wait_for(lambda: query.status["message"] == "Waiting for data to arrive")
    assert complaints(tmp_path / "checkpoint") == []
    query.stop()
    assert complaints(tmp_path / "checkpoint") == []


@pytest.mark.long
def test_a_query_that_was_restarted_with_more_input_is_healthy(spark: Any, tmp_path: Path) -> None:
    inputs, golden = (
        Inputs(spark, tmp_path / "in"),
        Golden("counts", goldens.counted, "complete", "noop", CHANGELOG),
    )
    for _ in range(3):
        inputs.feed(2)
        healthy(inputs, replace(golden, conf=CHANGELOG), tmp_path)


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """A driver that is killed in the middle of a batch; what it leaves behind."""
    program = [sys.executable, str(PROGRAMS / "slow_batches.py"), str(tmp_path)]
    driver = subprocess.Popen(
        program, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        wait_for((tmp_path / "in-batch-3").exists, 300)
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    return tmp_path / "checkpoint"


@pytest.mark.long
def test_a_driver_killed_in_a_batch_leaves_a_healthy_checkpoint(killed: Path) -> None:
    """At most in flight: that batch runs again."""
    assert [result.partition(":")[0] for result in complaints(killed)] == ["log.inflight"]
