"""A backup: a folder outside the checkpoint with every file that surgery touches, and a manifest of what was done.

`manifest.json` is written before the first change; `files/<place>/<path>` are the bytes as they were.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from controlplane.checkpoints.reading.versions import parse_version
from controlplane.checkpoints.repair.errors import NotABackup
from controlplane.checkpoints.repair.folders import Access, CheckpointFolder, Digest

MANIFEST = "manifest.json"
FORMAT = "spark-checkpoint-backup"
SAVED, DONE, UNDONE = "saved", "done", "undone"


@dataclass(frozen=True)
class ChangedFile:
    """One file: what it held before, what after; None where it was not, or is no more."""

    place: str
    path: str
    before: Digest | None
    after: Digest | None
    modified: float | None = None
    access: Access | None = None

    @property
    def backup_path(self) -> str:
        """Where its bytes are in the backup."""
        return f"files/{self.place}/{self.path}"


@dataclass(frozen=True)
class WatchedFolder:
    """The names of the files in a folder: who writes there later leaves another name, or takes one away."""

    place: str
    folder: str
    before: tuple[str, ...]
    after: tuple[str, ...]


@dataclass(frozen=True)
class AnalysisOptions:
    """How the outcome is judged: so is that of the undo. `target`: the Spark that will start, as text."""

    inputs: tuple[str, ...] = ()
    relocations: tuple[tuple[str, str], ...] = ()
    target: str | None = None


@dataclass(frozen=True)
class BackupManifest:
    """What a backup is of. `made_at`: seconds since 1970. `places`: place → path or URL."""

    kind: str
    title: str
    made_at: float
    state: str
    places: Mapping[str, str]
    files: tuple[ChangedFile, ...]
    watched: tuple[WatchedFolder, ...]
    judged: AnalysisOptions = field(default_factory=AnalysisOptions)

    def of(self, place: str, path: str) -> ChangedFile | None:
        return self._by_path.get((place, path))

    @cached_property
    def _by_path(self) -> Mapping[tuple[str, str], ChangedFile]:
        return {(file.place, file.path): file for file in self.files}

    def as_json(self) -> dict[str, Any]:
        return {"format": FORMAT, "version": 1, **asdict(self)}


def from_json(document: Any) -> BackupManifest:
    """NotABackup where the document is none, or one of a newer version."""
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise NotABackup(f'its manifest is none of ours (no "format": "{FORMAT}")')
    if document.get("version") != 1:
        raise NotABackup(f"its manifest has version {document.get('version')}, this program reads 1")
    try:
        return BackupManifest(
            kind=str(document["kind"]),
            title=str(document["title"]),
            made_at=float(document["made_at"]),
            state=str(document["state"]),
            places={str(place): str(url) for place, url in document["places"].items()},
            files=tuple(map(_touched, document["files"])),
            watched=tuple(map(_watched, document["watched"])),
            judged=_judged(document["judged"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise NotABackup(f"a part of its manifest is missing or of the wrong kind: {error}") from None


def _touched(held: dict[str, Any]) -> ChangedFile:
    modified = held.get("modified")
    return ChangedFile(
        str(held["place"]),
        _inside(held["path"]),
        _digest(held["before"]),
        _digest(held["after"]),
        None if modified is None else float(modified),
        _access(held["access"]),
    )


def _access(held: Any) -> Access | None:
    return None if held is None else Access(int(held["mode"]) & 0o777, int(held["uid"]), int(held["gid"]))


def _judged(held: dict[str, Any]) -> AnalysisOptions:
    target = held["target"]
    return AnalysisOptions(
        tuple(map(str, held["inputs"])),
        tuple((str(source), str(to)) for source, to in held["relocations"]),
        None if target is None else str(parse_version(str(target))),
    )


def _watched(held: dict[str, Any]) -> WatchedFolder:
    return WatchedFolder(
        str(held["place"]),
        _inside(held["folder"]),
        tuple(map(str, held["before"])),
        tuple(map(str, held["after"])),
    )


def _inside(path: object) -> str:
    """A path that stays below its place, whoever wrote the manifest."""
    text = str(path)
    if text.startswith("/") or ".." in text.split("/") or "\0" in text:
        raise ValueError(f"the path {text!r} leads out of the checkpoint")
    return text


def _digest(held: Any) -> Digest | None:
    return None if held is None else Digest(str(held["sha256"]), int(held["size"]))


def read_manifest(folder: CheckpointFolder) -> BackupManifest:
    """The manifest of a backup. NotABackup where there is none."""
    try:
        data = folder.read(MANIFEST)
    except OSError as error:
        raise NotABackup(f"{folder}: it cannot be read ({error.strerror or error})") from None
    if data is None:
        raise NotABackup(
            f"{folder}: there is no {MANIFEST} in it; give the folder that rewind or repair named"
        )
    try:
        return from_json(json.loads(data))
    except NotABackup as error:
        raise NotABackup(f"{folder}: {error}") from None
    except (ValueError, RecursionError):
        raise NotABackup(f"{folder}: its {MANIFEST} is no JSON document") from None


def write_manifest(folder: CheckpointFolder, manifest: BackupManifest) -> None:
    folder.write(MANIFEST, json.dumps(manifest.as_json(), indent=1).encode())
