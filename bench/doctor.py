"""Cost of the checkpoint doctor: list, read and analyze 100 000 files; floor: the bare listing.

A stateful query with 200 partitions on the HDFS-backed store and the full retention of both logs, written here in
Spark's formats. The fastest of several tries counts.

    python bench/doctor.py [--quick]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from controlplane.checkpoints.analyzer import analyze  # noqa: E402
from controlplane.checkpoints.decoding import lz4  # noqa: E402
from controlplane.checkpoints.inventory.collector import collect  # noqa: E402
from controlplane.checkpoints.inventory.model import to_json  # noqa: E402
from controlplane.checkpoints.reading import logs  # noqa: E402
from controlplane.checkpoints.reading.versions import SparkVersion  # noqa: E402

BATCHES, RETAINED, TRIES = 1_000, 100, 3
CONF = {
    logs.PROVIDER: "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
    logs.CODEC: "lz4",
}


def delta(records: int, key: int) -> bytes:
    """A delta of so many records of 16 + 24 bytes, as one raw LZ4 block."""
    record = (16).to_bytes(4, "big") + key.to_bytes(16, "big") + (24).to_bytes(4, "big") + bytes(24)
    plain = record * records + b"\xff\xff\xff\xff"
    head = (lz4.MAGIC, 0x15, len(plain), len(plain), lz4.block_checksum(plain))
    return lz4.HEADER.pack(*head) + plain


def built(root: Path, files: int) -> None:
    """A checkpoint of about so many files."""
    partitions = 200
    versions = max(2, (files - 400) // partitions)
    newest = BATCHES
    for batch in range(newest - RETAINED, newest + 1):
        write(root / f"commits/{batch}", 'v1\n{"nextBatchWatermarkMs":0}')
        conf = {**CONF, logs.PARTITIONS: str(partitions)}
        metadata = {"batchWatermarkMs": 0, "batchTimestampMs": 1_795_000_000_000 + batch, "conf": conf}
        write(root / f"offsets/{batch}", f'v1\n{json.dumps(metadata)}\n{{"orders":{{"0":{batch}}}}}')
    write(root / "metadata", '{"id":"3f1c3c5e-7d0f-4a55-9a63-0a1f5d0f6a10"}')
    for partition in range(partitions):
        content = delta(40, partition)
        folder = root / f"state/0/{partition}"
        folder.mkdir(parents=True)
        for version in range(newest + 2 - versions, newest + 2):
            (folder / f"{version}.delta").write_bytes(content)
        (folder / f"{newest - 5}.snapshot").write_bytes(content)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def fastest(act: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of the fastest try, and what the last one gave."""
    best, answer = float("inf"), None
    for _ in range(TRIES):
        began = time.perf_counter()
        answer = act()
        best = min(best, time.perf_counter() - began)
    return best, answer


def listed(root: Path) -> int:
    return sum(len(names) for _, _, names in os.walk(root))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the files")
    files = 10_000 if parser.parse_args().quick else 100_000
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "checkpoint"
        built(root, files)
        floor, count = fastest(lambda: listed(root))
        collecting, inventory = fastest(lambda: collect(str(root), time.time()))
        judging, verdict = fastest(lambda: analyze(inventory, SparkVersion(4, 3, 0)))
    figures = {
        "files": count,
        "listing_seconds": round(floor, 3),
        "collect_seconds": round(collecting, 3),
        "judge_seconds": round(judging, 3),
        "contents_bytes": sum(map(len, inventory.contents.values())),
        "inventory_json_bytes": len(json.dumps(to_json(inventory))),
        "findings": len(verdict.findings),
    }
    ratios = {"collect_over_floor_seconds": round(collecting / floor, 1)}
    machine = {"python": platform.python_version(), "cpus": os.cpu_count(), "machine": platform.machine()}
    print(json.dumps({"bench": "doctor", "machine": machine, "figures": figures, "ratios": ratios}))


if __name__ == "__main__":
    main()
