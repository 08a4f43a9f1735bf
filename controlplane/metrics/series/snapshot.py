"""The grid in a file, so that rules know the last hours after a restart.

A file that cannot be used is as good as none: the grid is filled from stored events instead. Only numbers and
JSON are in it; reading one never runs code.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from controlplane.metrics.series.blocks import Block
from controlplane.metrics.series.grid import Grid

log = logging.getLogger(__name__)
FORMAT = 1


def save(grid: Grid, path: Path) -> None:
    """Write the grid to `path`, whole or not at all. OSError where the disk does not take it."""
    arrays: dict[str, Any] = {}
    heads = []
    for number, (name, slots, (labels, ticks, values)) in enumerate(grid.contents()):
        heads.append({"name": name, "slots": slots, "labels": labels})
        arrays[f"ticks{number}"], arrays[f"values{number}"] = ticks, values
    head = json.dumps({"format": FORMAT, "step": grid.step, "blocks": heads})
    arrays["head"] = np.frombuffer(head.encode(), np.uint8)
    beside = path.with_name(path.name + ".new")
    with beside.open("wb") as file:
        np.savez(file, **arrays)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def load(grid: Grid, path: Path, now: float) -> float | None:
    """Put into the grid what was saved of the metrics it keeps; the time of the newest slot.

    None, and a line in the log, where there is nothing that can be used.
    """
    if not path.exists():
        return None
    try:
        blocks = list(_blocks(path, grid.step, int(now // grid.step)))
    except Exception as error:
        # Whatever is wrong with a file that somebody may have cut short or changed: it is of no use.
        log.warning("the saved series cannot be used, they are made from events anew: %s (%r)", path, error)
        return None
    grid.take_over(blocks)
    newest = max((block.newest for block in blocks if len(block.sampled())), default=None)
    return None if newest is None else newest * grid.step


def _blocks(path: Path, step: float, last: int) -> Iterator[Block]:
    with np.load(path, allow_pickle=False) as arrays:
        head = json.loads(bytes(arrays["head"]))
        if (head["format"], head["step"]) != (FORMAT, step):
            raise ValueError(f"format {head['format']}, step {head['step']} s")
        for number, one in enumerate(head["blocks"]):
            ticks, values = arrays[f"ticks{number}"], arrays[f"values{number}"]
            if values.shape != (len(one["labels"]), len(ticks)) or values.dtype != np.float64:
                raise ValueError(f"{one['name']} has the shape {values.shape}")
            past = ticks <= last  # a clock that was set back makes no future
            block = Block(str(one["name"]), int(one["slots"]))
            block.fill(one["labels"], ticks[past], values[:, past])
            yield block
