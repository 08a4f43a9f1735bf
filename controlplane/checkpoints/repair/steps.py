"""Steps of a repair plan, and the survey as they would leave it. Pure.

A step names its file by place (the checkpoint, or the output of a file sink) and path. Every file is backed
up before it is removed or overwritten.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from controlplane.checkpoints.inventory.model import FileEntry, Inventory
from controlplane.checkpoints.survey import Survey

CHECKPOINT, OUTPUT = "checkpoint", "output"
#: Checksum files of local Hadoop and Spark beside a file; a leftover would not match a new file.
SIDE_FILES = (".{}.crc.crc", ".{}.crc", "{}.crc")


@dataclass(frozen=True)
class Remove:
    """Remove a file, which is in the backup by then."""

    place: str
    path: str


@dataclass(frozen=True)
class Write:
    """Write a whole file, new or over an old one."""

    place: str
    path: str
    content: bytes


@dataclass(frozen=True)
class Prune:
    """Remove a folder if it is empty."""

    place: str
    path: str


Step = Remove | Write | Prune


@dataclass(frozen=True)
class RepairPlan:
    """Steps and their consequences. `kind`: rewind or repair; `title`: one sentence."""

    kind: str
    title: str
    steps: tuple[Step, ...]
    consequences: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The document that `rewind --json` and `repair --json` print."""
        return {
            "kind": self.kind,
            "title": self.title,
            "consequences": list(self.consequences),
            "steps": [_step_json(step) for step in self.steps],
        }


def _step_json(step: Step) -> dict[str, Any]:
    head = {"place": step.place, "path": step.path}
    if isinstance(step, Write):
        return {"action": "write", **head, "bytes": len(step.content)}
    return {"action": "prune" if isinstance(step, Prune) else "remove", **head}


def removal_steps(inventory: Inventory, place: str, paths: Iterable[str]) -> Iterator[Remove]:
    """Remove files after their checksum files: a file without a checksum is valid, the reverse is not."""
    for path in paths:
        yield from (Remove(place, beside) for beside in side_files(inventory, path))
        yield Remove(place, path)


def write_steps(inventory: Inventory, place: str, path: str, content: bytes) -> Iterator[Step]:
    """Write a file after removing the checksum files of the old one."""
    yield from (Remove(place, beside) for beside in side_files(inventory, path))
    yield Write(place, path, content)


def side_files(inventory: Inventory, path: str) -> list[str]:
    """The existing checksum files of a file."""
    folder, mark, name = path.rpartition("/")
    beside = (f"{folder}{mark}{pattern.format(name)}" for pattern in SIDE_FILES)
    return [path for path in beside if inventory.is_file(path)]


def merge_steps(steps: Iterable[Step]) -> tuple[Step, ...]:
    """Keep the last step per file, in the order of the first."""
    last: dict[tuple[str, str], Step] = {}
    for step in steps:
        last[step.place, step.path] = step
    return tuple(last.values())


def apply_steps(survey: Survey, steps: Iterable[Step]) -> Survey:
    """The survey as the steps would leave it, without the time of the root folder, which they change."""
    chosen = tuple(steps)
    checkpoint = replace(_after(survey.checkpoint, chosen, CHECKPOINT), root_modified=None)
    output = None if survey.output is None else _after(survey.output, chosen, OUTPUT)
    return Survey(checkpoint, output, survey.inputs)


def _after(inventory: Inventory, steps: tuple[Step, ...], place: str) -> Inventory:
    gone = {step.path for step in steps if step.place == place}
    new = {step.path: step.content for step in steps if step.place == place and isinstance(step, Write)}
    entries: Mapping[str, FileEntry] = {p: e for p, e in inventory.entries.items() if p not in gone}
    contents = {p: data for p, data in inventory.contents.items() if p not in gone}
    written = {path: FileEntry(len(data), inventory.collected_at) for path, data in new.items()}
    return replace(inventory, entries={**entries, **written}, contents={**contents, **new})
