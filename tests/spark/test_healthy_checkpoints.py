"""Checkpoints that real queries have just written: the doctor finds nothing to say against them."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from controlplane.checkpoints.findings import Severity
from controlplane.checkpoints.judge import judge
from controlplane.checkpoints.survey import survey

pytestmark = pytest.mark.spark

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
STORE = "spark.sql.streaming.stateStore."


@pytest.fixture
def rows(spark: Any, tmp_path: Path) -> Any:
    folder = tmp_path / "in put"
    folder.mkdir()
    for minute in range(3):
        lines = [{"k": f"k{n % 4}", "v": n, "ts": f"2026-01-01T00:{minute:02d}:{n:02d}"} for n in range(12)]
        (folder / f"{minute}.json").write_text("\n".join(map(json.dumps, lines)))
    reader = spark.readStream.schema("k STRING, v BIGINT, ts TIMESTAMP").option("maxFilesPerTrigger", 1)
    return reader.json(str(folder))


def run(frame: Any, checkpoint: Path, form: str, mode: str, **options: str) -> None:
    writer = frame.writeStream.format(form).outputMode(mode).options(**options)
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()


def test_a_file_sink_an_aggregation_without_a_key_and_state_by_ids_are_healthy(
    spark: Any, rows: Any, tmp_path: Path
) -> None:
    run(rows, tmp_path / "files", "parquet", "append", path=str(tmp_path / "out"))
    run(rows.groupBy().count(), tmp_path / "keyless", "noop", "complete")
    conf = {
        f"{STORE}providerClass": ROCKSDB,
        f"{STORE}checkpointFormatVersion": "2",
        f"{STORE}rocksdb.changelogCheckpointing.enabled": "true",
    }
    for key, value in conf.items():
        spark.conf.set(key, value)
    try:
        run(
            rows.withWatermark("ts", "1 minute").groupBy("k", "ts").count(),
            tmp_path / "ids",
            "noop",
            "append",
        )
    finally:
        for key in conf:
            spark.conf.unset(key)
    for name in ("files", "keyless", "ids"):
        held = survey(
            str(tmp_path / name), time.time(), output=str(tmp_path / "out") if name == "files" else None
        )
        verdict = judge(held.checkpoint, output=held.output, inputs=held.inputs)
        grave = [finding for finding in verdict.findings if finding.severity is not Severity.INFO]
        assert (verdict.verdict, grave) == ("ok", []), name
        assert verdict.spark_version == "4.3"
        assert verdict.last_committed_batch is not None and verdict.last_committed_batch >= 2
