"""Surveys for a repair: with every entry of the logs, before and after the planned steps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from controlplane.checkpoints.inventory import selection
from controlplane.checkpoints.inventory.collector import with_contents
from controlplane.checkpoints.inventory.model import Inventory
from controlplane.checkpoints.repair.steps import Step, apply_steps
from controlplane.checkpoints.survey import Survey, collect_survey

#: The newest entries of offsets/ and commits/ that are read; Spark keeps 101 by default.
MAX_LOG_ENTRIES = 250


@dataclass(frozen=True)
class RepairPlaces:
    """Paths or URLs of a checkpoint, of its file sink's output and of its inputs, and the relocations of a copy."""

    checkpoint: str
    output: str | None = None
    inputs: tuple[str, ...] = ()
    relocations: tuple[tuple[str, str], ...] = ()


def inspect(places: RepairPlaces, now: float) -> Survey:
    """Survey the places as of `now` (Unix seconds). Raises CannotOpen."""
    survey = collect_survey(
        places.checkpoint,
        now,
        output=places.output,
        inputs=places.inputs,
        relocations=places.relocations,
    )
    return replace(survey, checkpoint=with_log_entries(survey.checkpoint, places.checkpoint))


def with_log_entries(checkpoint: Inventory, place: str) -> Inventory:
    """The inventory of the checkpoint at `place` with the newest entries of both logs, which a rewind goes back to."""
    return with_contents(checkpoint, place, _entries(checkpoint))


def _entries(inventory: Inventory) -> Iterable[str]:
    for folder in ("offsets", "commits"):
        numbers = sorted(int(name) for name in inventory.names(folder) if name.isascii() and name.isdigit())
        yield from (f"{folder}/{number}" for number in numbers[-MAX_LOG_ENTRIES:])


def survey_after(survey: Survey, steps: Iterable[Step], places: RepairPlaces) -> Survey:
    """The survey as the steps would leave it, with the contents that the analyzer then reads."""
    then = apply_steps(survey, steps)
    wanted = selection.select_files(then.checkpoint.entries)
    return replace(then, checkpoint=with_contents(then.checkpoint, places.checkpoint, wanted))
