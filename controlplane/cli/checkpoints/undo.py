"""`controlplane undo`: put a checkpoint back as it was before rewind or repair, and judge it.

Exit codes as `controlplane.cli.checkpoints.repair` has them.
"""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import click

from controlplane.checkpoints.analyzer import writer_version
from controlplane.checkpoints.findings import CheckpointReport
from controlplane.checkpoints.reading.versions import LATEST, parse_version
from controlplane.checkpoints.repair import rewind_plan, writer_detection
from controlplane.checkpoints.repair import undo as undoing
from controlplane.checkpoints.repair.backup import BackupManifest, read_manifest
from controlplane.checkpoints.repair.folders import CheckpointFolder
from controlplane.checkpoints.repair.inspection import RepairPlaces
from controlplane.checkpoints.repair.steps import CHECKPOINT, OUTPUT
from controlplane.checkpoints.repair.undo import UndoPlan
from controlplane.cli.checkpoints import writer_check
from controlplane.cli.checkpoints.doctor import report_lines
from controlplane.cli.checkpoints.repair import (
    after_change,
    errors_in_one_line,
    exit_code_of,
    inspect_now,
    stopped_option,
    utc_stamp,
)
from controlplane.cli.options import client_options, json_option
from controlplane.console.tables import plain


@click.command(short_help="Put a checkpoint back as it was before rewind or repair.")
@click.argument("backup")
@click.option("--force", is_flag=True, help="Even if the query has run since: what it wrote is set aside.")
@click.option("--dry-run", is_flag=True, help="Show what would be done, change nothing.")
@stopped_option
@json_option
@client_options
def undo(
    backup: str,
    force: bool,
    dry_run: bool,
    assume_stopped: bool,
    as_json: bool,
    url: str | None,
    data_dir: Path | None,
) -> int:
    """Put everything back from the backup that rewind or repair named, byte for byte, and judge the outcome.

    Refused, with the names of the files, where the checkpoint is not as the surgery left it.
    """
    return errors_in_one_line(_undo)(backup, force, dry_run, assume_stopped, as_json, url, data_dir)


def _undo(
    backup: str,
    force: bool,
    dry_run: bool,
    assume_stopped: bool,
    as_json: bool,
    url: str | None,
    data_dir: Path | None,
) -> int:
    place = CheckpointFolder(backup)
    manifest = read_manifest(place)
    folders = {name: CheckpointFolder(where) for name, where in manifest.places.items()}
    plan = undoing.plan_undo(manifest, folders)
    if dry_run or plan.is_empty:
        return _undone(manifest, plan, None, dry_run, as_json)
    told = _alone(manifest, assume_stopped, url, data_dir)
    aside = CheckpointFolder(f"{place}/set-aside-{utc_stamp(time.time())}")
    plan = undoing.execute_undo(manifest, folders, place, aside, force=force)
    with after_change(f"{manifest.places[CHECKPOINT]} was put back"):
        writer_check.request_check(told, url, data_dir)
        return _undone(manifest, plan, _outcome(manifest), dry_run, as_json)


def _outcome(manifest: BackupManifest) -> CheckpointReport:
    """The verdict on what was put back, judged as the surgery was."""
    asked, checkpoint = manifest.judged, manifest.places[CHECKPOINT]
    held = inspect_now(RepairPlaces(checkpoint, manifest.places.get(OUTPUT), asked.inputs, asked.relocations))
    target = parse_version(asked.target) if asked.target else writer_version(held.checkpoint) or LATEST
    return replace(rewind_plan.analyze_survey(held, target), checkpoint=checkpoint)


def _undone(
    manifest: BackupManifest, plan: UndoPlan, verdict: CheckpointReport | None, dry_run: bool, as_json: bool
) -> int:
    """Say what was put back and what became of it. The exit code."""
    checkpoint, said = manifest.places[CHECKPOINT], undoing.summary(plan)
    if as_json:
        report = {
            "undone": not dry_run,
            "summary": said,
            "checkpoint": checkpoint,
            "changed": [str(file) for file in plan.changed],
            "lost": list(plan.lost),
            "verdict": verdict and verdict.as_json(),
        }
        click.echo(json.dumps(report, indent=2))
    else:
        lines = [plain(f"  {file}") for file in plan.changed[:10]]
        lines += [plain(f"  {path} is gone, and not in the backup") for path in plan.lost[:10]]
        lines += ["", *report_lines(verdict)] if verdict else []
        click.echo(f"{checkpoint}: {said}" + (" (dry run, nothing was done)" if dry_run else ""))
        click.echo("\n".join(lines), nl=bool(lines))
    return exit_code_of(verdict) if verdict else 0


def _alone(
    manifest: BackupManifest, assume_stopped: bool, url: str | None, data_dir: Path | None
) -> writer_check.KnownQuery:
    """Nobody writes to the checkpoint that is to be put back. What the server knows of its query."""
    checkpoint = manifest.places[CHECKPOINT]
    held = inspect_now(RepairPlaces(checkpoint))
    verdict = rewind_plan.analyze_survey(held, LATEST)
    is_copy = bool(manifest.judged.relocations)
    told = writer_check.find_known_query(url, data_dir, checkpoint, verdict.query_id, is_copy=is_copy)
    writer_check.refuse_running(told, manifest.places.get(OUTPUT))
    if not assume_stopped and verdict.query_id is not None:
        writer_check.check_for_writers(
            checkpoint, held.checkpoint, writer_detection.pause_seconds(rewind_plan.view_of(held, LATEST))
        )
    return told
