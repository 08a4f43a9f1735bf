"""A backup: a folder outside the checkpoint with every file that a repair changes, and a manifest.

`manifest.json` is written before the first change; `files/<place>/<path>` hold the original bytes.
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
    """A file that the repair changes: digests before and after; None where it did not or does not exist."""

    place: str
    path: str
    before: Digest | None
    after: Digest | None
    modified: float | None = None
    access: Access | None = None

    @property
    def backup_path(self) -> str:
        """The path of its original bytes in the backup."""
        return f"files/{self.place}/{self.path}"


@dataclass(frozen=True)
class WatchedFolder:
    """The file names in a folder before and after the repair; a later writer adds or removes names."""

    place: str
    folder: str
    before: tuple[str, ...]
    after: tuple[str, ...]


@dataclass(frozen=True)
class AnalysisOptions:
    """Options of the analysis of the outcome, also for a later undo. `target`: the Spark that will start, as text."""

    inputs: tuple[str, ...] = ()
    relocations: tuple[tuple[str, str], ...] = ()
    target: str | None = None


@dataclass(frozen=True)
class BackupManifest:
    """The manifest of a backup. `made_at`: Unix seconds. `places`: place → path or URL. `state`: saved, done, undone."""

    kind: str
    title: str
    made_at: float
    state: str
    places: Mapping[str, str]
    files: tuple[ChangedFile, ...]
    watched: tuple[WatchedFolder, ...]
    judged: AnalysisOptions = field(default_factory=AnalysisOptions)

    def of(self, place: str, path: str) -> ChangedFile | None:
        """The record of a changed file; None where the repair does not change it."""
        return self._by_path.get((place, path))

    @cached_property
    def _by_path(self) -> Mapping[tuple[str, str], ChangedFile]:
        return {(file.place, file.path): file for file in self.files}

    def as_json(self) -> dict[str, Any]:
        """The document that `from_json` reads."""
        return {"format": FORMAT, "version": 1, **asdict(self)}


def from_json(document: Any) -> BackupManifest:
    """Parse a manifest. Raises NotABackup for any other document or a newer version."""
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise NotABackup(f'its manifest has another format (no "format": "{FORMAT}")')
    if document.get("version") != 1:
        raise NotABackup(
            f"its manifest has version {document.get('version')}, but this program reads version 1"
        )
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
        raise NotABackup(f"a part of its manifest is missing or has the wrong type: {error}") from None


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
    """Validate that a path of an untrusted manifest stays below its place. Raises ValueError."""
    text = str(path)
    if text.startswith("/") or ".." in text.split("/") or "\0" in text:
        raise ValueError(f"the path {text!r} leads out of the checkpoint")
    return text


def _digest(held: Any) -> Digest | None:
    return None if held is None else Digest(str(held["sha256"]), int(held["size"]))


def read_manifest(folder: CheckpointFolder) -> BackupManifest:
    """Read the manifest of a backup. Raises NotABackup."""
    try:
        data = folder.read(MANIFEST)
    except OSError as error:
        raise NotABackup(f"{folder}: it cannot be read ({error.strerror or error})") from None
    if data is None:
        raise NotABackup(
            f"{folder}: it has no {MANIFEST}; give the backup folder that rewind or repair printed"
        )
    try:
        return from_json(json.loads(data))
    except NotABackup as error:
        raise NotABackup(f"{folder}: {error}") from None
    except (ValueError, RecursionError):
        raise NotABackup(f"{folder}: its {MANIFEST} is not JSON") from None


def write_manifest(folder: CheckpointFolder, manifest: BackupManifest) -> None:
    """Write `manifest.json` into a backup."""
    folder.write(MANIFEST, json.dumps(manifest.as_json(), indent=1).encode())
