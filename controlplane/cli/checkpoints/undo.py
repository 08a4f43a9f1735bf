"""`controlplane undo`: restore a checkpoint as it was before rewind or repair, and check it.

Exit codes as in `controlplane.cli.checkpoints.repair`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

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


@click.command(short_help="Restore a checkpoint as it was before rewind or repair.")
@click.argument("backup")
@click.option(
    "--force",
    is_flag=True,
    help="Undo even if the query has run since; files that it wrote are kept in the backup.",
)
@click.option("--dry-run", is_flag=True, help="Show the plan, change nothing.")
@stopped_option
@json_option
@client_options
def undo(backup: str, force: bool, dry_run: bool, assume_stopped: bool, as_json: bool, **server: Any) -> int:
    """Restore everything byte for byte from the backup that rewind or repair printed, and check the outcome.

    Refused, with the names of the files, if the checkpoint has changed since.
    """
    return errors_in_one_line(_undo)(backup, force, dry_run, assume_stopped, as_json, server)


def _undo(
    backup: str,
    force: bool,
    dry_run: bool,
    assume_stopped: bool,
    as_json: bool,
    server: Mapping[str, Any],
) -> int:
    place = CheckpointFolder(backup)
    manifest = read_manifest(place)
    folders = {name: CheckpointFolder(where) for name, where in manifest.places.items()}
    plan = undoing.plan_undo(manifest, folders)
    if dry_run or plan.is_empty:
        return _conclude(manifest, plan, None, dry_run, as_json)
    query = _require_no_writer(manifest, assume_stopped, server)
    aside = CheckpointFolder(f"{place}/set-aside-{utc_stamp(time.time())}")
    plan = undoing.execute_undo(manifest, folders, place, aside, force=force)
    with after_change(f"{manifest.places[CHECKPOINT]} was restored"):
        writer_check.request_check(query, server)
        return _conclude(manifest, plan, _outcome(manifest), dry_run, as_json)


def _outcome(manifest: BackupManifest) -> CheckpointReport:
    """The report on the restored checkpoint, with the options of the repair."""
    options, checkpoint = manifest.judged, manifest.places[CHECKPOINT]
    held = inspect_now(
        RepairPlaces(checkpoint, manifest.places.get(OUTPUT), options.inputs, options.relocations)
    )
    target = parse_version(options.target) if options.target else writer_version(held.checkpoint) or LATEST
    return replace(rewind_plan.analyze_survey(held, target), checkpoint=checkpoint)


def _conclude(
    manifest: BackupManifest, plan: UndoPlan, verdict: CheckpointReport | None, dry_run: bool, as_json: bool
) -> int:
    """Print what was restored, and the report. Returns the exit code."""
    checkpoint, summary = manifest.places[CHECKPOINT], undoing.summary(plan)
    if as_json:
        report = {
            "undone": not dry_run,
            "summary": summary,
            "checkpoint": checkpoint,
            "changed": [str(file) for file in plan.changed],
            "lost": list(plan.lost),
            "verdict": verdict and verdict.as_json(),
        }
        click.echo(json.dumps(report, indent=2))
    else:
        lines = [plain(f"  {file}") for file in plan.changed[:10]]
        lines += [plain(f"  {path} was deleted and is not in the backup") for path in plan.lost[:10]]
        lines += ["", *report_lines(verdict)] if verdict else []
        click.echo(f"{checkpoint}: {summary}" + (" (dry run, nothing was changed)" if dry_run else ""))
        click.echo("\n".join(lines), nl=bool(lines))
    return exit_code_of(verdict) if verdict else 0


def _require_no_writer(
    manifest: BackupManifest, assume_stopped: bool, server: Mapping[str, Any]
) -> writer_check.KnownQuery:
    """Raise InUse where the checkpoint has a writer. Returns what the server knows of its query."""
    checkpoint = manifest.places[CHECKPOINT]
    held = inspect_now(RepairPlaces(checkpoint))
    verdict = rewind_plan.analyze_survey(held, LATEST)
    is_copy = bool(manifest.judged.relocations)
    query = writer_check.find_known_query(server, checkpoint, verdict.query_id, is_copy=is_copy)
    writer_check.refuse_running(query, manifest.places.get(OUTPUT))
    if not assume_stopped and verdict.query_id is not None:
        writer_check.check_for_writers(
            checkpoint, held.checkpoint, writer_detection.pause_seconds(rewind_plan.view_of(held, LATEST))
        )
    return query
