"""Undo: the checkpoint byte for byte as it was before the surgery, if nobody has written to it since.

A surgery that stopped in the middle is put back the same way: each file is then as before, or as it was to become.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from controlplane.checkpoints.findings import plural
from controlplane.checkpoints.lock import LOCK, METADATA
from controlplane.checkpoints.reading.checkpoint import SINK_LOG
from controlplane.checkpoints.repair.backup import UNDONE, BackupManifest, ChangedFile, write_manifest
from controlplane.checkpoints.repair.errors import CheckpointChanged, Impossible, InUse, NotABackup
from controlplane.checkpoints.repair.execution import Folders, interrupted, lock
from controlplane.checkpoints.repair.folders import CheckpointFolder, Digest
from controlplane.checkpoints.repair.steps import CHECKPOINT

#: (place, folder) → the names of the files in it.
Names = Mapping[tuple[str, str], Sequence[str]]


class FileStatus(StrEnum):
    """How a file stands to what the manifest says of it."""

    BEFORE = "as before"
    AFTER = "as the surgery left it"
    OTHER = "changed since"


@dataclass(frozen=True)
class Difference:
    """A file that is not as the surgery left it. `how`: what is the matter with it, in words."""

    place: str
    path: str
    how: str

    def __str__(self) -> str:
        return f"{self.path} is {self.how}"


@dataclass(frozen=True)
class UndoPlan:
    """What undo will do: files that come back, files that go, and what speaks against it.

    `lost`: files of before that are neither there nor in the backup, so that what was cannot come back.
    """

    restore: tuple[ChangedFile, ...]
    remove: tuple[tuple[str, str], ...]
    changed: tuple[Difference, ...]
    lost: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.restore or self.remove or self.lost)


def file_status(file: ChangedFile, now: Digest | None) -> FileStatus:
    if now == file.before:
        return FileStatus.BEFORE
    return FileStatus.AFTER if now == file.after else FileStatus.OTHER


def plan_undo(manifest: BackupManifest, folders: Folders) -> UndoPlan:
    """Compare the checkpoint with the manifest."""
    restore: list[ChangedFile] = []
    remove: list[tuple[str, str]] = []
    changed: list[Difference] = []
    for file in manifest.files:
        how = _stand_now(file, folders[file.place])
        if how is FileStatus.BEFORE:
            continue
        if how is FileStatus.OTHER:
            changed.append(Difference(file.place, file.path, how))
        if file.before is not None:
            restore.append(file)
        else:
            remove.append((file.place, file.path))
    names = _names_now(manifest, folders)
    strange = list(_strangers(manifest, names))
    changed += [Difference(place, path, "new") for place, path in strange]
    return UndoPlan(tuple(restore), (*remove, *strange), tuple(changed), tuple(_lost(manifest, names)))


def _stand_now(file: ChangedFile, folder: CheckpointFolder) -> FileStatus:
    how = file_status(file, folder.digest(file.path))
    is_lock = (file.place, file.path) == (CHECKPOINT, METADATA)
    if how is FileStatus.OTHER and is_lock and (folder.read(METADATA) or b"").startswith(LOCK.encode()):
        return FileStatus.AFTER
    return how


def _names_now(manifest: BackupManifest, folders: Folders) -> Names:
    """The names there are now: everywhere in the checkpoint, in the output where it was touched."""
    names = {(CHECKPOINT, folder): held for folder, held in folders[CHECKPOINT].tree().items()}
    for watched in manifest.watched:
        if watched.place != CHECKPOINT:
            names[watched.place, watched.folder] = folders[watched.place].names(watched.folder)
    return names


def _strangers(manifest: BackupManifest, names: Names) -> Iterator[tuple[str, str]]:
    """Files that were there neither before nor after."""
    touched = {(file.place, file.path) for file in manifest.files}
    known = {(w.place, w.folder): {*w.before, *w.after} for w in manifest.watched}
    for (place, folder), held in names.items():
        for name in held:
            path = f"{folder}/{name}".lstrip("/")
            if name in known.get((place, folder), ()) or name.endswith((".tmp", ".tmp.crc")):
                continue
            if (place, path) not in touched:
                yield place, path


def _lost(manifest: BackupManifest, names: Names) -> Iterator[str]:
    """Files that Spark read before the surgery, that went since, and that no backup has.

    Data files of an output are not the undo's: they are lost with it and without it.
    """
    for watched in manifest.watched:
        if watched.place != CHECKPOINT and not watched.folder.startswith(SINK_LOG):
            continue
        here = names.get((watched.place, watched.folder), ())
        for name in sorted({*watched.before}.difference(here)):
            path = f"{watched.folder}/{name}".lstrip("/")
            if manifest.of(watched.place, path) is None and not name.endswith((".tmp", ".crc")):
                yield path


def execute_undo(
    manifest: BackupManifest,
    folders: Folders,
    backup: CheckpointFolder,
    aside: CheckpointFolder,
    *,
    force: bool = False,
) -> UndoPlan:
    """Put everything back. Moved where files changed since, unless forced; those then go to `aside` first.

    Impossible: files of before are gone and not in the backup; nothing is done then, forced or not. InUse: somebody
    writes there. NotABackup: a saved file is not what the manifest says. Stopped: begun and not ended; the same undo
    goes on.
    """
    plan = plan_undo(manifest, folders)
    if plan.lost:
        raise Impossible(_lost_words(plan, manifest))
    if plan.changed and not force:
        raise CheckpointChanged(_words(plan))
    if plan.is_empty:
        return plan
    _intact(plan, manifest, backup)
    _set_aside(plan, folders, aside)
    checkpoint = folders[CHECKPOINT]
    root = checkpoint.modified("")
    lock(checkpoint, backup)
    try:
        for place, path in plan.remove:
            if (place, path) != (CHECKPOINT, METADATA):
                folders[place].remove(path)
        for file in plan.restore:
            if (file.place, file.path) != (CHECKPOINT, METADATA):
                folders[file.place].copy_from(
                    backup, file.backup_path, file.path, file.modified, access=file.access
                )
        _pruned(plan, manifest, folders)
        _unlock(manifest, checkpoint, backup)
        checkpoint.set_modified("", root)
        write_manifest(backup, replace(manifest, state=UNDONE))
    except (Exception, KeyboardInterrupt) as error:  # whatever it is, the way back must be named
        raise interrupted(error, backup) from error
    return plan


def _words(plan: UndoPlan) -> str:
    shown = "; ".join(map(str, plan.changed[:5]))
    more = f" and {len(plan.changed) - 5} more" if len(plan.changed) > 5 else ""
    return (
        f"the checkpoint is not as the surgery left it, the query has probably run since: {shown}{more}. "
        "Nothing was changed. --force puts the old files back all the same, and keeps the new ones in the backup"
    )


def _lost_words(plan: UndoPlan, manifest: BackupManifest) -> str:
    more = f" and {len(plan.lost) - 1} more" if len(plan.lost) > 1 else ""
    return (
        f"{plan.lost[0]}{more} went since the surgery, not into the backup: Spark purges what it no longer needs, so "
        "the checkpoint of before cannot come back, and half of it would not start. Nothing was changed. To go "
        f"back: {shlex.join(['controlplane', 'rewind', manifest.places[CHECKPOINT], '--list'])}"
    )


def _intact(plan: UndoPlan, manifest: BackupManifest, backup: CheckpointFolder) -> None:
    lock = manifest.of(CHECKPOINT, METADATA)
    for file in (*plan.restore, *([lock] if lock and lock.before else [])):
        if backup.digest(file.backup_path) != file.before:
            raise NotABackup(f"{backup}: {file.backup_path} is not what was saved; nothing was changed")


def _set_aside(plan: UndoPlan, folders: Folders, aside: CheckpointFolder) -> None:
    """Keep what the undo would destroy: files that nobody else has."""
    for file in plan.changed:
        source = folders[file.place]
        now = source.digest(file.path)
        if now is None:
            continue
        access, kept = source.access(file.path), f"{file.place}/{file.path}"
        if aside.copy_from(source, file.path, kept, access=access) != now or aside.digest(kept) != now:
            raise InUse(f"{file.path} changed while it was set aside; nothing was changed")


def _pruned(plan: UndoPlan, manifest: BackupManifest, folders: Folders) -> None:
    """Folders that the query made since, once they are empty: Spark wants none of state/ at batch 0."""
    before = {watched.folder for watched in manifest.watched if watched.place == CHECKPOINT}
    now = {path.rpartition("/")[0] for place, path in plan.remove if place == CHECKPOINT}
    since = {"/".join(parts[:n]) for parts in (f.split("/") for f in now) for n in range(1, len(parts) + 1)}
    for folder in sorted(since - before, key=len, reverse=True):
        if folder:
            folders[CHECKPOINT].remove_empty(folder)


def _unlock(manifest: BackupManifest, checkpoint: CheckpointFolder, backup: CheckpointFolder) -> None:
    file = manifest.of(CHECKPOINT, METADATA)
    if file is None or file.before is None:
        checkpoint.remove(METADATA)
    else:
        checkpoint.copy_from(backup, file.backup_path, METADATA, file.modified, access=file.access)


def summary(plan: UndoPlan) -> str:
    if plan.is_empty:
        return "nothing to do: every file is as it was before"
    return f"{plural(len(plan.restore), 'file')} put back, {len(plan.remove)} taken away"
