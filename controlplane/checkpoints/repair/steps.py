"""The steps of surgery, small and frozen, and what a survey looks like once they are done. Pure.

A step names its file by place (the checkpoint, or the output of a file sink) and path. Removing is moving: the
file goes into the backup first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from controlplane.checkpoints.inventory.model import FileEntry, Inventory
from controlplane.checkpoints.survey import Survey

CHECKPOINT, OUTPUT = "checkpoint", "output"
#: Side files by which local Hadoop and Spark check a file; one that stays behind would contradict what comes after.
SIDE_FILES = (".{}.crc.crc", ".{}.crc", "{}.crc")


@dataclass(frozen=True)
class Remove:
    """The file goes (it is in the backup by then)."""

    place: str
    path: str


@dataclass(frozen=True)
class Write:
    """The file is written whole, new or over the old one."""

    place: str
    path: str
    content: bytes


@dataclass(frozen=True)
class Prune:
    """The folder goes, if nothing is left in it."""

    place: str
    path: str


Step = Remove | Write | Prune


@dataclass(frozen=True)
class RepairPlan:
    """What will be done and what comes of it. `kind`: rewind or repair; `title`: one sentence."""

    kind: str
    title: str
    steps: tuple[Step, ...]
    consequences: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
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
    """Files with their side files, these first: a file without them is whole, a checksum without its file is not."""
    for path in paths:
        yield from (Remove(place, beside) for beside in side_files(inventory, path))
        yield Remove(place, path)


def write_steps(inventory: Inventory, place: str, path: str, content: bytes) -> Iterator[Step]:
    """A file written anew, after the side files of the old one are gone."""
    yield from (Remove(place, beside) for beside in side_files(inventory, path))
    yield Write(place, path, content)


def side_files(inventory: Inventory, path: str) -> list[str]:
    folder, mark, name = path.rpartition("/")
    beside = (f"{folder}{mark}{pattern.format(name)}" for pattern in SIDE_FILES)
    return [path for path in beside if inventory.is_file(path)]


def merge_steps(steps: Iterable[Step]) -> tuple[Step, ...]:
    """One step a file, the last that was said of it, in the order of the first."""
    last: dict[tuple[str, str], Step] = {}
    for step in steps:
        last[step.place, step.path] = step
    return tuple(last.values())


def apply_steps(survey: Survey, steps: Iterable[Step]) -> Survey:
    """The survey as it will be; the time of the root tells nothing any more."""
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
