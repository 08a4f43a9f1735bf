"""A survey: the inventory of a checkpoint with those of its output and input folders, storable in one file.

Input folders that the user does not name are derived from the logs of file sources, where they can be
reached.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from posixpath import basename, commonpath, dirname
from typing import Any

from controlplane.checkpoints.inventory.collector import CannotOpen, collect
from controlplane.checkpoints.inventory.model import FORMAT, Inventory, NotAnInventory, from_json, to_json
from controlplane.checkpoints.inventory.relocation import below, plain_path, relocated
from controlplane.checkpoints.reading.file_logs import file_log

SURVEY = "spark-checkpoint-survey"
#: Input folders that are listed without being named.
MAX_INPUTS = 5


@dataclass(frozen=True)
class Survey:
    """Everything that the analyzer needs of one checkpoint."""

    checkpoint: Inventory
    output: Inventory | None = None
    inputs: tuple[Inventory, ...] = ()


def collect_survey(
    url: str,
    now: float,
    *,
    output: str | None = None,
    inputs: Iterable[str] = (),
    relocations: Iterable[tuple[str, str]] = (),
) -> Survey:
    """Collect a checkpoint, its output and its input. Raises CannotOpen for a given URL that cannot be opened."""
    pairs = tuple(relocations)
    checkpoint = collect(url, now, relocations=pairs)
    listed = [_named(place, now, pairs, contents=False) for place in inputs]
    known = [plain_path(place.root) for place in listed]
    for folder in input_folders(checkpoint):
        if not any(folder == root or below(folder, root) is not None for root in known):
            listed += _reachable(folder, now, pairs)
    sink = _named(output, now, pairs, contents=True) if output is not None else None
    return Survey(checkpoint, sink, tuple(listed))


def _named(place: str, now: float, pairs: tuple[tuple[str, str], ...], *, contents: bool) -> Inventory:
    """List a named place; where it does not exist, try its path after relocation."""
    held = collect(place, now, relocations=pairs, contents=contents)
    moved = relocated(place, pairs)
    if held.exists or moved == plain_path(place):
        return held
    return collect(moved, now, relocations=pairs, contents=contents)


def input_folders(checkpoint: Inventory) -> list[str]:
    """For each file source, the folder common to all files that it last read, after relocation."""
    names = [name for name in checkpoint.names("sources") if checkpoint.is_folder(f"sources/{name}")]
    found: dict[str, None] = {}
    for log in (file_log(checkpoint, f"sources/{name}") for name in names[:MAX_INPUTS]):
        folders = [dirname(relocated(path, checkpoint.relocations)) for path in log.known]
        if folders and all(folder.startswith("/") for folder in folders):
            found.setdefault(_without_partitions(commonpath(folders)))
    return list(found)


def _without_partitions(folder: str) -> str:
    """`/in/day=1/hour=2` → `/in`, because partition folders come and go."""
    while "=" in basename(folder):
        folder = dirname(folder)
    return folder


def _reachable(folder: str, now: float, pairs: tuple[tuple[str, str], ...]) -> list[Inventory]:
    """The listing of a local folder that exists, or that is missing from its existing parent; else empty."""
    if folder == "/":
        return []
    try:
        listed = collect(folder, now, relocations=pairs, contents=False)
        if listed.errors or (not listed.exists and not collect(dirname(folder), now, contents=False).exists):
            return []
    except CannotOpen:
        return []
    relocated_by_user = any(below(f"{folder}/", target) is not None for _, target in pairs)
    return [replace(listed, guessed=not relocated_by_user)]


def survey_to_json(held: Survey) -> dict[str, Any]:
    """A document that `survey_from_json` turns back into an equal survey."""
    return {
        "format": SURVEY,
        "version": 1,
        "checkpoint": to_json(held.checkpoint),
        "output": held.output and to_json(held.output),
        "inputs": [to_json(listed) for listed in held.inputs],
    }


def survey_from_json(document: Any) -> Survey:
    """Parse a survey, or an inventory alone. Raises NotAnInventory."""
    if isinstance(document, dict) and document.get("format") == FORMAT:
        return Survey(from_json(document))
    if not isinstance(document, dict) or document.get("format") != SURVEY:
        raise NotAnInventory("it is neither an inventory nor a survey")
    output, inputs = document.get("output"), document.get("inputs")
    if not isinstance(inputs, list):
        raise NotAnInventory("its inputs are not a list")
    return Survey(
        from_json(document.get("checkpoint")),
        None if output is None else from_json(output),
        tuple(from_json(listed) for listed in inputs),
    )
