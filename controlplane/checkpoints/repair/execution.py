"""Execute a repair plan: back up, lock, change, unlock.

The lock is the checkpoint's own `metadata`: while it names the backup instead of an id, every Spark refuses
to start before it touches a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from controlplane.checkpoints.lock import LOCK, METADATA, is_lock
from controlplane.checkpoints.repair.backup import (
    DONE,
    SAVED,
    AnalysisOptions,
    BackupManifest,
    ChangedFile,
    WatchedFolder,
    write_manifest,
)
from controlplane.checkpoints.repair.errors import CheckpointChanged, Impossible, InUse, RepairInterrupted
from controlplane.checkpoints.repair.folders import CheckpointFolder, digest_of
from controlplane.checkpoints.repair.steps import CHECKPOINT, Prune, RepairPlan, Step, Write

Folders = Mapping[str, CheckpointFolder]


def execute_plan(
    plan: RepairPlan,
    folders: Folders,
    backup: CheckpointFolder,
    now: float,
    options: AnalysisOptions | None = None,
) -> BackupManifest:
    """Execute a plan and return the manifest of its backup.

    Raises InUse, Impossible or OSError where nothing was changed, RepairInterrupted where `undo` must
    restore. options: options of the analysis, recorded for the undo.
    """
    manifest = _back_up(plan, folders, backup, now, options or AnalysisOptions())
    root = folders[CHECKPOINT].modified("")
    lock(folders[CHECKPOINT], backup)
    try:
        for step in plan.steps:
            _execute_step(step, folders[step.place], manifest)
        _unlock(manifest, folders[CHECKPOINT], plan.steps, backup)
        manifest = replace(manifest, state=DONE, watched=_names_after(manifest, folders))
        write_manifest(backup, manifest)
        folders[CHECKPOINT].set_modified("", root)
    except (Exception, KeyboardInterrupt) as error:  # every error must name the undo command
        raise interrupted(error, backup) from error
    return manifest


def lock(checkpoint: CheckpointFolder, backup: CheckpointFolder) -> None:
    """Lock the checkpoint. After an error, raises RepairInterrupted if the lock may be in place, else the error."""
    try:
        checkpoint.write(METADATA, f"{LOCK}{backup}".encode())
    except BaseException as error:
        if _may_be_locked(checkpoint):
            raise interrupted(error, backup) from error
        raise


def _may_be_locked(checkpoint: CheckpointFolder) -> bool:
    try:
        return is_lock(checkpoint.read(METADATA) or b"")
    except OSError:
        return True


def interrupted(error: BaseException, backup: CheckpointFolder) -> RepairInterrupted:
    """The RepairInterrupted for an error, with its text and the backup."""
    reason = (
        getattr(error, "strerror", None)
        or str(error)
        or ("interrupted" if isinstance(error, KeyboardInterrupt) else type(error).__name__)
    )
    return RepairInterrupted(str(reason), str(backup))


def _back_up(
    plan: RepairPlan, folders: Folders, backup: CheckpointFolder, now: float, options: AnalysisOptions
) -> BackupManifest:
    """Copy every file that will change and write the manifest. Raises InUse where a file changes meanwhile."""
    _check_backup_place(folders, backup)
    files = [_changed_file(folders, place, path, content) for place, path, content in _targets(plan.steps)]
    for file in files:
        if file.before is not None:
            _copy_to_backup(folders[file.place], backup, file)
    backup.sync()
    manifest = BackupManifest(
        kind=plan.kind,
        title=plan.title,
        made_at=now,
        state=SAVED,
        places={place: str(folder) for place, folder in folders.items()},
        files=tuple(files),
        watched=tuple(_watched_folders(files, folders)),
        judged=options,
    )
    write_manifest(backup, manifest)
    return manifest


def _targets(steps: Iterable[Step]) -> Iterable[tuple[str, str, bytes | None]]:
    """Every changed file with its new content (None: removed). Always includes `metadata`, the lock."""
    files = (step for step in steps if not isinstance(step, Prune))
    targets = {(step.place, step.path): step.content if isinstance(step, Write) else None for step in files}
    for (place, path), content in targets.items():
        yield place, path, content
    if (CHECKPOINT, METADATA) not in targets:
        yield CHECKPOINT, METADATA, b""


def _changed_file(folders: Folders, place: str, path: str, content: bytes | None) -> ChangedFile:
    folder = folders[place]
    before = folder.digest(path)
    after = None if content is None else digest_of(content)
    if (place, path) == (CHECKPOINT, METADATA) and content == b"":
        after = before
    return ChangedFile(place, path, before, after, folder.modified(path), folder.access(path))


def _copy_to_backup(source: CheckpointFolder, backup: CheckpointFolder, file: ChangedFile) -> None:
    copied = backup.copy_from(
        source, file.path, file.backup_path, file.modified, access=file.access, durable=False
    )
    if copied != file.before or backup.digest(file.backup_path) != copied:
        raise InUse(f"{file.path} changed while it was copied into the backup; nothing was changed")


def _check_backup_place(folders: Folders, backup: CheckpointFolder) -> None:
    for folder in folders.values():
        if f"{backup}/".startswith(f"{folder}/"):
            raise Impossible(
                f"the backup {backup} would lie inside {folder}; give --backup-dir a path outside"
            )
    if not backup.is_empty():
        raise Impossible(f"the backup folder {backup} is not empty; give --backup-dir another path")


def _watched_folders(files: Sequence[ChangedFile], folders: Folders) -> Iterable[WatchedFolder]:
    """All folders of the checkpoint, as the query writes everywhere in it; of an output, the changed folders."""
    for folder, names in sorted(folders[CHECKPOINT].tree().items()):
        yield WatchedFolder(CHECKPOINT, folder, tuple(names), ())
    named = {(file.place, file.path.rpartition("/")[0]) for file in files if file.place != CHECKPOINT}
    for place, folder in sorted(named):
        yield WatchedFolder(place, folder, tuple(folders[place].names(folder)), ())


def _names_after(manifest: BackupManifest, folders: Folders) -> tuple[WatchedFolder, ...]:
    """The watched folders with their present names; new folders hold only files that are in the manifest."""
    tree = folders[CHECKPOINT].tree()

    def now(watched: WatchedFolder) -> Iterable[str]:
        if watched.place == CHECKPOINT:
            return tree.get(watched.folder, ())
        return folders[watched.place].names(watched.folder)

    return tuple(replace(watched, after=tuple(now(watched))) for watched in manifest.watched)


def _execute_step(step: Step, folder: CheckpointFolder, manifest: BackupManifest) -> None:
    """Execute a step, if the file still matches the backup. `metadata` is the lock and is written last."""
    if isinstance(step, Prune):
        folder.remove_empty(step.path)
        return
    file = manifest.of(step.place, step.path)
    if file is None or (step.place, step.path) == (CHECKPOINT, METADATA):
        return
    now = folder.digest(step.path)
    if now != file.before:
        raise CheckpointChanged(
            f"{step.path} changed during the repair: another process writes to this checkpoint"
        )
    if isinstance(step, Write):
        folder.write(step.path, step.content)
    elif now is not None:
        folder.remove(step.path)


def _unlock(
    manifest: BackupManifest, folder: CheckpointFolder, steps: Sequence[Step], backup: CheckpointFolder
) -> None:
    """Restore `metadata`, or write the one in the plan."""
    file = manifest.of(CHECKPOINT, METADATA)
    new = next(
        (s for s in steps if isinstance(s, Write) and (s.place, s.path) == (CHECKPOINT, METADATA)), None
    )
    if new is not None:
        folder.write(METADATA, new.content)
    elif file is None or file.before is None:
        folder.remove(METADATA)
    else:
        folder.copy_from(backup, file.backup_path, METADATA, file.modified, access=file.access)
