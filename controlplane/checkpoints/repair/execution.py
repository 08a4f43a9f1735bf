"""Does a plan: back up, lock, act, unlock. The only place where surgery changes anything.

The lock is the checkpoint's own `metadata`: while it names the backup instead of an id, every Spark refuses to
start before it touches a file, and everybody who looks sees what happened.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from controlplane.checkpoints.lock import LOCK, METADATA
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
    judged: AnalysisOptions | None = None,
) -> BackupManifest:
    """Do it. InUse, Impossible, OSError: nothing was changed. Stopped: it was begun, and `undo` heals it.

    judged: how the outcome is judged, noted for the undo.
    """
    manifest = _saved(plan, folders, backup, now, judged or AnalysisOptions())
    root = folders[CHECKPOINT].modified("")
    lock(folders[CHECKPOINT], backup)
    try:
        for step in plan.steps:
            _do(step, folders[step.place], manifest)
        _unlock(manifest, folders[CHECKPOINT], plan.steps, backup)
        manifest = replace(manifest, state=DONE, watched=_watch(manifest, folders))
        write_manifest(backup, manifest)
        folders[CHECKPOINT].set_modified("", root)
    except (Exception, KeyboardInterrupt) as error:  # whatever it is, the way back must be named
        raise interrupted(error, backup) from error
    return manifest


def lock(checkpoint: CheckpointFolder, backup: CheckpointFolder) -> None:
    """Mark the checkpoint. Stopped where the mark is there in spite of an error, or may be; else the error as it is."""
    try:
        checkpoint.write(METADATA, f"{LOCK}{backup}".encode())
    except BaseException as error:
        if _may_be_locked(checkpoint):
            raise interrupted(error, backup) from error
        raise


def _may_be_locked(checkpoint: CheckpointFolder) -> bool:
    try:
        return (checkpoint.read(METADATA) or b"").startswith(LOCK.encode())
    except OSError:
        return True


def interrupted(error: BaseException, backup: CheckpointFolder) -> RepairInterrupted:
    """What ended the act, in words, with the way back."""
    said = (
        getattr(error, "strerror", None)
        or str(error)
        or ("interrupted" if isinstance(error, KeyboardInterrupt) else type(error).__name__)
    )
    return RepairInterrupted(str(said), str(backup))


def _saved(
    plan: RepairPlan, folders: Folders, backup: CheckpointFolder, now: float, judged: AnalysisOptions
) -> BackupManifest:
    """Copy what will be touched, and write down what it is. InUse where a file changed under our hands."""
    _apart(folders, backup)
    files = [_touched(folders, place, path, content) for place, path, content in _targets(plan.steps)]
    for file in files:
        if file.before is not None:
            _copied(folders[file.place], backup, file)
    backup.sync()
    manifest = BackupManifest(
        kind=plan.kind,
        title=plan.title,
        made_at=now,
        state=SAVED,
        places={place: str(folder) for place, folder in folders.items()},
        files=tuple(files),
        watched=tuple(_folders_of(files, folders)),
        judged=judged,
    )
    write_manifest(backup, manifest)
    return manifest


def _targets(steps: Iterable[Step]) -> Iterable[tuple[str, str, bytes | None]]:
    """Every file touched with what it will hold; `metadata` always, since it is the lock."""
    files = (step for step in steps if not isinstance(step, Prune))
    targets = {(step.place, step.path): step.content if isinstance(step, Write) else None for step in files}
    for (place, path), content in targets.items():
        yield place, path, content
    if (CHECKPOINT, METADATA) not in targets:
        yield CHECKPOINT, METADATA, b""


def _touched(folders: Folders, place: str, path: str, content: bytes | None) -> ChangedFile:
    folder = folders[place]
    before = folder.digest(path)
    after = None if content is None else digest_of(content)
    if (place, path) == (CHECKPOINT, METADATA) and content == b"":
        after = before
    return ChangedFile(place, path, before, after, folder.modified(path), folder.access(path))


def _copied(source: CheckpointFolder, backup: CheckpointFolder, file: ChangedFile) -> None:
    copied = backup.copy_from(
        source, file.path, file.backup_path, file.modified, access=file.access, durable=False
    )
    if copied != file.before or backup.digest(file.backup_path) != copied:
        raise InUse(f"{file.path} changed while it was copied into the backup; nothing was changed")


def _apart(folders: Folders, backup: CheckpointFolder) -> None:
    for folder in folders.values():
        if f"{backup}/".startswith(f"{folder}/"):
            raise Impossible(f"the backup {backup} would lie inside {folder}; give --backup-dir elsewhere")
    if not backup.is_empty():
        raise Impossible(f"the backup folder {backup} is not empty; give --backup-dir another one")


def _folders_of(files: Sequence[ChangedFile], folders: Folders) -> Iterable[WatchedFolder]:
    """All of the checkpoint, for the query writes everywhere in it; of an output the folders that are touched."""
    for folder, names in sorted(folders[CHECKPOINT].tree().items()):
        yield WatchedFolder(CHECKPOINT, folder, tuple(names), ())
    named = {(file.place, file.path.rpartition("/")[0]) for file in files if file.place != CHECKPOINT}
    for place, folder in sorted(named):
        yield WatchedFolder(place, folder, tuple(folders[place].names(folder)), ())


def _watch(manifest: BackupManifest, folders: Folders) -> tuple[WatchedFolder, ...]:
    """The same, with the names there are now; new folders have new files only, and these are among those touched."""
    tree = folders[CHECKPOINT].tree()

    def now(watched: WatchedFolder) -> Iterable[str]:
        if watched.place == CHECKPOINT:
            return tree.get(watched.folder, ())
        return folders[watched.place].names(watched.folder)

    return tuple(replace(watched, after=tuple(now(watched))) for watched in manifest.watched)


def _do(step: Step, folder: CheckpointFolder, manifest: BackupManifest) -> None:
    """One step, if the file is still what the backup holds. `metadata` is the lock and comes last."""
    if isinstance(step, Prune):
        folder.remove_empty(step.path)
        return
    file = manifest.of(step.place, step.path)
    if file is None or (step.place, step.path) == (CHECKPOINT, METADATA):
        return
    now = folder.digest(step.path)
    if now != file.before:
        raise CheckpointChanged(f"{step.path} changed under our hands: somebody writes to this checkpoint")
    if isinstance(step, Write):
        folder.write(step.path, step.content)
    elif now is not None:
        folder.remove(step.path)


def _unlock(
    manifest: BackupManifest, folder: CheckpointFolder, steps: Sequence[Step], backup: CheckpointFolder
) -> None:
    """The id comes back, or the one that the plan writes."""
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
