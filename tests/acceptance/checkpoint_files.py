"""Handwritten checkpoints in Spark's format, and the inventories that an agent sends of them."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from controlplane.checkpoints.inventory.collector import collect
from controlplane.checkpoints.inventory.model import to_json
from tests.acceptance.simulated import SimulatedQuery

Json = dict[str, Any]
CONF = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.stateStore.providerClass": "x.HDFSBackedStateStoreProvider",
}


def write(
    root: Path, query_id: str, committed: int, planned: int | None = None, offset: int | None = None
) -> Path:
    """A stateless query's checkpoint: batches 0…planned, committed up to `committed`."""
    for folder in ("offsets", "commits"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    (root / "metadata").write_text(json.dumps({"id": query_id}))
    for batch in range((committed if planned is None else planned) + 1):
        end = (batch + 1) * 100 if offset is None else offset
        head = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 1, "conf": CONF})
        (root / f"offsets/{batch}").write_text(f'v1\n{head}\n{{"orders":{{"0":{end}}}}}')
    for batch in range(committed + 1):
        (root / f"commits/{batch}").write_text('v1\n{"nextBatchWatermarkMs":0}')
    return root


def inventory(query: SimulatedQuery, root: Path, why: str = "asked") -> tuple[str, Json]:
    """The inventory event of an agent for the checkpoint in `root`: type and data."""
    document = to_json(collect(str(root), time.time()))
    ids = {"id": query.query_id, "runId": query.run_id, "name": query.name}
    output = {"why": why, "sparkVersion": "4.3.0", "seconds": 0.0, "inventory": document, "output": None}
    return "inventory", {**ids, **output}
