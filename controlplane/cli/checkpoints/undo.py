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
from controlplane.checkpoints.repair.backup import BackupManifest, opened_backup
from controlplane.checkpoints.repair.folders import CheckpointFolder
from controlplane.checkpoints.repair.inspection import Places
from controlplane.checkpoints.repair.steps import CHECKPOINT, OUTPUT
from controlplane.checkpoints.repair.undo import UndoPlan
from controlplane.cli.checkpoints import writer_check
from controlplane.cli.checkpoints.doctor import in_words
from controlplane.cli.checkpoints.repair import code_of, done, look, one_line, stamp, stopped_option
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
    return one_line(_undo)(backup, force, dry_run, assume_stopped, as_json, url, data_dir)


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
    manifest = opened_backup(place)
    folders = {name: CheckpointFolder(where) for name, where in manifest.places.items()}
    way = undoing.look(manifest, folders)
    if dry_run or way.nothing:
        return _undone(manifest, way, None, dry_run, as_json)
    told = _alone(manifest, assume_stopped, url, data_dir)
    aside = CheckpointFolder(f"{place}/set-aside-{stamp(time.time())}")
    way = undoing.undo(manifest, folders, place, aside, force=force)
    with done(f"{manifest.places[CHECKPOINT]} was put back"):
        writer_check.ask_for_a_look(told, url, data_dir)
        return _undone(manifest, way, _outcome(manifest), dry_run, as_json)


def _outcome(manifest: BackupManifest) -> CheckpointReport:
    """The verdict on what was put back, judged as the surgery was."""
    asked, checkpoint = manifest.judged, manifest.places[CHECKPOINT]
    held = look(Places(checkpoint, manifest.places.get(OUTPUT), asked.inputs, asked.relocations))
    target = parse_version(asked.target) if asked.target else writer_version(held.checkpoint) or LATEST
    return replace(rewind_plan.judged(held, target), checkpoint=checkpoint)


def _undone(
    manifest: BackupManifest, way: UndoPlan, verdict: CheckpointReport | None, dry_run: bool, as_json: bool
) -> int:
    """Say what was put back and what became of it. The exit code."""
    checkpoint, said = manifest.places[CHECKPOINT], undoing.summary(way)
    if as_json:
        report = {
            "undone": not dry_run,
            "summary": said,
            "checkpoint": checkpoint,
            "changed": [str(file) for file in way.moved],
            "lost": list(way.lost),
            "verdict": verdict and verdict.as_json(),
        }
        click.echo(json.dumps(report, indent=2))
    else:
        lines = [plain(f"  {file}") for file in way.moved[:10]]
        lines += [plain(f"  {path} is gone, and not in the backup") for path in way.lost[:10]]
        lines += ["", *in_words(verdict)] if verdict else []
        click.echo(f"{checkpoint}: {said}" + (" (dry run, nothing was done)" if dry_run else ""))
        click.echo("\n".join(lines), nl=bool(lines))
    return code_of(verdict) if verdict else 0


def _alone(
    manifest: BackupManifest, assume_stopped: bool, url: str | None, data_dir: Path | None
) -> writer_check.Known:
    """Nobody writes to the checkpoint that is to be put back. What the server knows of its query."""
    checkpoint = manifest.places[CHECKPOINT]
    held = look(Places(checkpoint))
    verdict = rewind_plan.judged(held, LATEST)
    a_copy = bool(manifest.judged.relocations)
    told = writer_check.known(url, data_dir, checkpoint, verdict.query_id, a_copy=a_copy)
    writer_check.refuse_running(told, manifest.places.get(OUTPUT))
    if not assume_stopped and verdict.query_id is not None:
        writer_check.look_twice(
            checkpoint, held.checkpoint, writer_detection.pause(rewind_plan.question(held, LATEST))
        )
    return told
