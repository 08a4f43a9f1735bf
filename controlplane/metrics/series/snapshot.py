"""Save and load the grid, so that rules have the last hours after a restart.

If the file cannot be used, the grid is filled from stored events instead. The file holds only numbers and
JSON; loading it never runs code.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from alerts.promql.label_sets import LabelSets
from controlplane.metrics.series.blocks import Block
from controlplane.metrics.series.grid import Grid

log = logging.getLogger(__name__)
FORMAT = 1


def save(grid: Grid, path: Path) -> None:
    """Write the grid to `path` atomically. Raises OSError."""
    arrays: dict[str, Any] = {}
    entries = []
    for number, (name, slots, (labels, ticks, values)) in enumerate(grid.contents()):
        entries.append({"name": name, "slots": slots, "labels": labels})
        arrays[f"ticks{number}"], arrays[f"values{number}"] = ticks, values
    head = json.dumps({"format": FORMAT, "step": grid.step, "blocks": entries})
    arrays["head"] = np.frombuffer(head.encode(), np.uint8)
    temporary = path.with_name(path.name + ".new")
    with temporary.open("wb") as file:
        np.savez(file, **arrays)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def load(grid: Grid, path: Path, now: float) -> float | None:
    """Load the saved samples of the metrics that the grid keeps; returns the time of the newest slot.

    Returns None if there is no usable file; the log names the reason.
    """
    if not path.exists():
        return None
    try:
        blocks = list(_blocks(path, grid.step, int(now // grid.step), grid.label_sets))
    except Exception as error:
        # The file may be truncated or modified in any way; every error means that it is unusable.
        log.warning("cannot use the saved series; rebuilding them from events: %s (%r)", path, error)
        return None
    grid.take_over(blocks)
    newest = max((block.newest for block in blocks if len(block.sampled())), default=None)
    return None if newest is None else newest * grid.step


def _blocks(path: Path, step: float, last: int, sets: LabelSets) -> Iterator[Block]:
    with np.load(path, allow_pickle=False) as arrays:
        head = json.loads(bytes(arrays["head"]))
        if (head["format"], head["step"]) != (FORMAT, step):
            raise ValueError(f"format {head['format']}, step {head['step']} s")
        for number, entry in enumerate(head["blocks"]):
            ticks, values = arrays[f"ticks{number}"], arrays[f"values{number}"]
            if values.shape != (len(entry["labels"]), len(ticks)) or values.dtype != np.float64:
                raise ValueError(f"{entry['name']} has the shape {values.shape}")
            past = ticks <= last  # drops samples from the future after the clock was set back
            block = Block(str(entry["name"]), int(entry["slots"]), sets)
            block.fill(entry["labels"], ticks[past], values[:, past])
            yield block
