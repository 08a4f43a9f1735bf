"""Undo a repair: restore the checkpoint byte for byte, if it has not changed since.

An interrupted repair is undone the same way: each of its files is then either as before or as planned.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from controlplane.checkpoints.findings import plural
from controlplane.checkpoints.lock import METADATA
from controlplane.checkpoints.lock import is_lock as has_lock
from controlplane.checkpoints.reading.checkpoint import SINK_LOG
from controlplane.checkpoints.repair.backup import UNDONE, BackupManifest, ChangedFile, write_manifest
from controlplane.checkpoints.repair.errors import CheckpointChanged, Impossible, InUse, NotABackup
from controlplane.checkpoints.repair.execution import Folders, interrupted, lock
from controlplane.checkpoints.repair.folders import CheckpointFolder, Digest
from controlplane.checkpoints.repair.steps import CHECKPOINT

#: (place, folder) → the names of the files in it.
Names = Mapping[tuple[str, str], Sequence[str]]


class FileStatus(StrEnum):
    """The present state of a file against the manifest."""

    BEFORE = "as before"
    AFTER = "as the repair left it"
    OTHER = "changed since"


@dataclass(frozen=True)
class Difference:
    """A file that has changed since the repair. `how`: new, or changed since."""

    place: str
    path: str
    how: str

    def __str__(self) -> str:
        return f"{self.path} is {self.how}"


@dataclass(frozen=True)
class UndoPlan:
    """The plan of an undo: files to restore and to remove, and the obstacles.

    `changed`: files changed since the repair. `lost`: files of before that exist neither here nor in the
    backup, so that the former checkpoint cannot be restored.
    """

    restore: tuple[ChangedFile, ...]
    remove: tuple[tuple[str, str], ...]
    changed: tuple[Difference, ...]
    lost: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to undo."""
        return not (self.restore or self.remove or self.lost)


def file_status(file: ChangedFile, now: Digest | None) -> FileStatus:
    """The status of a file whose present digest is `now`."""
    if now == file.before:
        return FileStatus.BEFORE
    return FileStatus.AFTER if now == file.after else FileStatus.OTHER


def plan_undo(manifest: BackupManifest, folders: Folders) -> UndoPlan:
    """Compare the checkpoint with the manifest."""
    restore: list[ChangedFile] = []
    remove: list[tuple[str, str]] = []
    changed: list[Difference] = []
    for file in manifest.files:
        how = _status_now(file, folders[file.place])
        if how is FileStatus.BEFORE:
            continue
        if how is FileStatus.OTHER:
            changed.append(Difference(file.place, file.path, how))
        if file.before is not None:
            restore.append(file)
        else:
            remove.append((file.place, file.path))
    names = _names_now(manifest, folders)
    new_files = list(_new_files(manifest, names))
    changed += [Difference(place, path, "new") for place, path in new_files]
    return UndoPlan(tuple(restore), (*remove, *new_files), tuple(changed), tuple(_lost(manifest, names)))


def _status_now(file: ChangedFile, folder: CheckpointFolder) -> FileStatus:
    how = file_status(file, folder.digest(file.path))
    is_lock = (file.place, file.path) == (CHECKPOINT, METADATA)
    if how is FileStatus.OTHER and is_lock and has_lock(folder.read(METADATA) or b""):
        return FileStatus.AFTER
    return how


def _names_now(manifest: BackupManifest, folders: Folders) -> Names:
    """The present file names: of the whole checkpoint, and of the watched folders of the output."""
    names = {(CHECKPOINT, folder): held for folder, held in folders[CHECKPOINT].tree().items()}
    for watched in manifest.watched:
        if watched.place != CHECKPOINT:
            names[watched.place, watched.folder] = folders[watched.place].names(watched.folder)
    return names


def _new_files(manifest: BackupManifest, names: Names) -> Iterator[tuple[str, str]]:
    """Files that existed neither before nor after the repair."""
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
    """Files that existed before the repair, were deleted since, and are not in the backup.

    Data files of an output do not count: an undo does not restore them.
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
    """Restore everything. Raises CheckpointChanged where files changed since; `force` moves those to `aside` first.

    Raises Impossible, forced or not, where files of before are in neither place; InUse where another process
    writes; NotABackup where a saved file does not match the manifest; RepairInterrupted where a repeated undo
    must finish.
    """
    plan = plan_undo(manifest, folders)
    if plan.lost:
        raise Impossible(_lost_message(plan, manifest))
    if plan.changed and not force:
        raise CheckpointChanged(_changed_message(plan))
    if plan.is_empty:
        return plan
    _verify_backup(plan, manifest, backup)
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
        _remove_new_folders(plan, manifest, folders)
        _unlock(manifest, checkpoint, backup)
        checkpoint.set_modified("", root)
        write_manifest(backup, replace(manifest, state=UNDONE))
    except (Exception, KeyboardInterrupt) as error:  # every error must name the undo command
        raise interrupted(error, backup) from error
    return plan


def _changed_message(plan: UndoPlan) -> str:
    shown = "; ".join(map(str, plan.changed[:5]))
    more = f" and {len(plan.changed) - 5} more" if len(plan.changed) > 5 else ""
    return (
        f"the checkpoint has changed since the repair, probably because the query ran: {shown}{more}. "
        "Nothing was changed. --force restores the old files anyway and keeps the new ones in the backup"
    )


def _lost_message(plan: UndoPlan, manifest: BackupManifest) -> str:
    more = f" and {len(plan.lost) - 1} more" if len(plan.lost) > 1 else ""
    return (
        f"{plan.lost[0]}{more} were deleted since the repair and are not in the backup, probably because Spark purged "
        "them. The former checkpoint cannot be restored completely. Nothing was changed. To list rewinds instead: "
        f"{shlex.join(['controlplane', 'rewind', manifest.places[CHECKPOINT], '--list'])}"
    )


def _verify_backup(plan: UndoPlan, manifest: BackupManifest, backup: CheckpointFolder) -> None:
    lock = manifest.of(CHECKPOINT, METADATA)
    for file in (*plan.restore, *([lock] if lock and lock.before else [])):
        if backup.digest(file.backup_path) != file.before:
            raise NotABackup(f"{backup}: {file.backup_path} does not match the manifest; nothing was changed")


def _set_aside(plan: UndoPlan, folders: Folders, aside: CheckpointFolder) -> None:
    """Copy the changed files aside before the undo overwrites or removes them."""
    for file in plan.changed:
        source = folders[file.place]
        now = source.digest(file.path)
        if now is None:
            continue
        access, kept = source.access(file.path), f"{file.place}/{file.path}"
        if aside.copy_from(source, file.path, kept, access=access) != now or aside.digest(kept) != now:
            raise InUse(f"{file.path} changed while it was copied aside; nothing was changed")


def _remove_new_folders(plan: UndoPlan, manifest: BackupManifest, folders: Folders) -> None:
    """Remove empty folders that the query made since: Spark needs state/ empty at batch 0."""
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
    """What the undo restores and removes, in one clause."""
    if plan.is_empty:
        return "nothing to undo: every file is as before"
    return f"{plural(len(plan.restore), 'file')} restored, {len(plan.remove)} removed"
