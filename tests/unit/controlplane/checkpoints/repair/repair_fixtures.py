"""Checkpoints written by real Spark, on disk and in memory, for the tests of rewind, repair and undo."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from controlplane.checkpoints.findings import CheckpointReport
from controlplane.checkpoints.inventory.model import Inventory
from controlplane.checkpoints.reading.versions import parse_version
from controlplane.checkpoints.repair import inspection, rewind_plan
from controlplane.checkpoints.repair.inspection import RepairPlaces
from controlplane.checkpoints.repair.steps import RepairPlan, apply_steps
from controlplane.checkpoints.survey import Survey
from tests.unit.controlplane.checkpoints import goldens
from tests.unit.controlplane.checkpoints.goldens import COLLECTED_AT, GOLDENS, Step, golden

SPARK = parse_version("4.3.0")


def seen(name: str, damage: Sequence[Step] = (), spark: str = "4.3.0") -> Survey:
    """A golden checkpoint as a repair surveys it (every entry of the logs), with damage applied in memory."""
    held, whole = golden(name, spark), _entries(name, spark)
    checkpoint = replace(
        held.checkpoint, contents={**whole.contents, **held.checkpoint.contents}, root_modified=None
    )
    for step in damage:
        checkpoint = step(checkpoint)
    return replace(held, checkpoint=checkpoint)


@lru_cache(maxsize=32)
def _entries(name: str, spark: str) -> Inventory:
    return inspection.inspect(RepairPlaces(golden(name, spark).checkpoint.root), COLLECTED_AT).checkpoint


def judged(held: Survey, plan: RepairPlan) -> CheckpointReport:
    """The verdict on what the plan makes of it."""
    return rewind_plan.analyze_survey(apply_steps(held, plan.steps), SPARK)


def on_disk(name: str, folder: Path) -> Path:
    """A copy of the case behind a golden: `checkpoint/`, and `out/` where it has one."""
    case = goldens._unpacked()[GOLDENS[name]]
    return Path(shutil.copytree(case.folder, folder / name))


def content(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}
