"""What surgery looks at: a survey with every entry of the logs, and what the judge reads of the outcome."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from controlplane.checkpoints.inventory import selection
from controlplane.checkpoints.inventory.collector import with_contents
from controlplane.checkpoints.inventory.model import Inventory
from controlplane.checkpoints.repair.steps import Step, after
from controlplane.checkpoints.survey import Survey, survey

#: Entries of offsets/ and commits/ that are read, the newest; Spark keeps 101 by default.
MOST_ENTRIES = 250


@dataclass(frozen=True)
class Places:
    """Where the checkpoint is, and the output of its file sink. Paths or URLs."""

    checkpoint: str
    output: str | None = None
    inputs: tuple[str, ...] = ()
    relocations: tuple[tuple[str, str], ...] = ()


def look(places: Places, now: float) -> Survey:
    """What is there as of `now`. CannotOpen where a URL cannot be opened."""
    held = survey(
        places.checkpoint,
        now,
        output=places.output,
        inputs=places.inputs,
        relocations=places.relocations,
    )
    return replace(
        held, checkpoint=with_contents(held.checkpoint, places.checkpoint, _entries(held.checkpoint))
    )


def _entries(inventory: Inventory) -> Iterable[str]:
    for folder in ("offsets", "commits"):
        numbers = sorted(int(name) for name in inventory.names(folder) if name.isascii() and name.isdigit())
        yield from (f"{folder}/{number}" for number in numbers[-MOST_ENTRIES:])


def outcome(held: Survey, steps: Iterable[Step], places: Places) -> Survey:
    """The survey once the steps are done, with the contents that count then."""
    then = after(held, steps)
    wanted = selection.chosen(then.checkpoint.entries)
    return replace(then, checkpoint=with_contents(then.checkpoint, places.checkpoint, wanted))
