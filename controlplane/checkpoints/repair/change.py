"""A rewind, a repair or an undo that the server carries out itself, below its checkpoint roots.

The same plans, backups and checks as on the command line. Called by `controlplane.checkpoints.changes` on a
thread of its own; every error is one of `errors`, or OSError where nothing was changed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from controlplane.checkpoints.findings import CheckpointReport
from controlplane.checkpoints.inventory import roots
from controlplane.checkpoints.inventory.collector import CannotOpen, collect
from controlplane.checkpoints.inventory.model import Inventory
from controlplane.checkpoints.lock import METADATA, is_lock
from controlplane.checkpoints.repair import execution, rewind_plan, undo, writer_detection
from controlplane.checkpoints.repair.backup import MANIFEST, BackupManifest, read_manifest
from controlplane.checkpoints.repair.errors import Impossible, InUse, NotABackup, RepairError
from controlplane.checkpoints.repair.folders import CheckpointFolder
from controlplane.checkpoints.repair.inspection import RepairPlaces
from controlplane.checkpoints.repair.rooted_survey import QueryPlaces, RootedSurvey, survey_below_roots
from controlplane.checkpoints.repair.steps import CHECKPOINT, OUTPUT, RepairPlan


@dataclass(frozen=True)
class WantedChange:
    """A change of a checkpoint. `kind`: rewind (to `resume_at`), repair (with the `confirmed` ids) or undo (of `backup`)."""

    kind: str
    query_id: str
    resume_at: int = 0
    confirmed: tuple[str, ...] = ()
    backup: str = ""


@dataclass(frozen=True)
class ChangeDone:
    """What was done, in one clause, and where the backup is.

    `report`: on the checkpoint as it is now; None where it could not be checked, for the reason `unchecked`.
    """

    title: str
    backup: str
    report: CheckpointReport | None
    unchecked: str = ""


@dataclass(frozen=True)
class ChangeControl:
    """How a change sees time and the query. `note`: a sentence about the present step, and evidence of it.

    `refuse_running`: raises InUse where the query runs, or may run, now.
    """

    clock: Callable[[], float]
    pause: Callable[[float], None]
    refuse_running: Callable[[], None]
    note: Callable[[str, Mapping[str, Any]], None]


def carry_out(wanted: WantedChange, of: QueryPlaces, control: ChangeControl) -> ChangeDone:
    """Read the checkpoint, plan, make sure that no process writes to it, change it and check the outcome.

    Raises RepairInterrupted where `undo` must restore the checkpoint; after any other error nothing was changed.
    """
    return _undo(wanted.backup, of, control) if wanted.kind == "undo" else _apply(wanted, of, control)


def _apply(wanted: WantedChange, of: QueryPlaces, control: ChangeControl) -> ChangeDone:
    found = survey_below_roots(of, control.clock())
    plan = _planned(found, wanted)
    _refuse_writers(found.survey.checkpoint, found.places.checkpoint, _pause_seconds(found), control)
    found.refuse_outside()
    folders = _folders(found.places)
    backup = _backup_place(folders[CHECKPOINT], of.allowed, control.clock())
    control.note(f"changing files; the backup is {backup}", {"backup": str(backup)})
    execution.execute_plan(plan, folders, backup, control.clock())
    return _checked(plan.title, str(backup), of, control)


def _planned(found: RootedSurvey, wanted: WantedChange) -> RepairPlan:
    if wanted.kind == "rewind":
        return found.rewind_to(wanted.resume_at)
    diagnosis = found.diagnose(wanted.query_id, wanted.confirmed)
    if diagnosis.plan is None:
        raise Impossible("there is nothing to repair" if not diagnosis.offers else _needed(diagnosis.offers))
    return diagnosis.plan


def _needed(offers: tuple[Any, ...]) -> str:
    waiting = [offer.id for offer in offers if offer.steps]
    return (
        f"confirm {' or '.join(waiting)} first" if waiting else f"no repair is possible: {offers[0].blocked}"
    )


def _undo(backup: str, of: QueryPlaces, control: ChangeControl) -> ChangeDone:
    place = CheckpointFolder(backup)
    if refusal := roots.refusal(roots.resolved(backup), of.allowed):
        raise Impossible(f"the backup: {refusal} ({backup})")
    manifest = _manifest(place, CheckpointFolder(roots.resolved(of.checkpoint)))
    folders = {name: CheckpointFolder(where) for name, where in manifest.places.items()}
    if str(folders[CHECKPOINT]) != str(CheckpointFolder(roots.resolved(of.checkpoint))):
        raise Impossible(f"the backup is of {folders[CHECKPOINT]}, the query uses {of.checkpoint}")
    for folder in folders.values():
        if refusal := roots.refusal(str(folder), of.allowed):
            raise Impossible(f"{refusal} ({folder})")
    first = _listed(str(folders[CHECKPOINT]), control)
    _refuse_writers(first, str(folders[CHECKPOINT]), writer_detection.MIN_PAUSE_SECONDS, control)
    aside = CheckpointFolder(f"{place}/set-aside-{_stamp(control.clock())}")
    control.note(f"restoring files from {backup}", {"restored_from": backup})
    done = undo.execute_undo(manifest, folders, place, aside)
    return _checked(undo.summary(done), backup, of, control)


def _manifest(backup: CheckpointFolder, checkpoint: CheckpointFolder) -> BackupManifest:
    """The manifest of a backup. It is written before the lock, and the lock before the first change."""
    try:
        return read_manifest(backup)
    except NotABackup:
        if backup.read(MANIFEST) is not None or is_lock(checkpoint.read(METADATA) or b""):
            raise
    raise Impossible(
        f"there is nothing to restore: {backup} has no {MANIFEST}, so the change stopped before it began, "
        "or that file was removed since"
    )


def _refuse_writers(first: Inventory, checkpoint: str, seconds: float, control: ChangeControl) -> None:
    """Compare two listings that lie `seconds` apart. Raises InUse where they differ or the query runs."""
    control.refuse_running()
    control.note(f"checking for {seconds:.0f} s that no process writes to the checkpoint", {})
    control.pause(seconds)
    control.refuse_running()
    signs = writer_detection.writer_signs(first, _listed(checkpoint, control))
    if signs:
        raise InUse(f"another process writes to this checkpoint: {signs[0]}; stop the query first")


def _listed(checkpoint: str, control: ChangeControl) -> Inventory:
    return collect(checkpoint, control.clock(), contents=False, links=False)


def _pause_seconds(found: RootedSurvey) -> float:
    return writer_detection.pause_seconds(rewind_plan.view_of(found.survey, found.target))


def _folders(places: RepairPlaces) -> dict[str, CheckpointFolder]:
    folders = {CHECKPOINT: CheckpointFolder(places.checkpoint)}
    return folders if places.output is None else {**folders, OUTPUT: CheckpointFolder(places.output)}


def _backup_place(checkpoint: CheckpointFolder, allowed: tuple[str, ...], now: float) -> CheckpointFolder:
    place = f"{str(checkpoint).rstrip('/')}.backup-{_stamp(now)}"
    if refusal := roots.refusal(place, allowed):
        raise Impossible(f"the backup would lie at {place}: {refusal}")
    return CheckpointFolder(place)


def _stamp(now: float) -> str:
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))


def _checked(title: str, backup: str, of: QueryPlaces, control: ChangeControl) -> ChangeDone:
    """The change that was made, with the report on what it has left."""
    try:
        return ChangeDone(title, backup, survey_below_roots(of, control.clock()).report)
    except (RepairError, CannotOpen, OSError) as error:
        return ChangeDone(title, backup, None, str(error))
