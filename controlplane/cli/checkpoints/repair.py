"""`controlplane rewind` and `repair`: change a checkpoint so that its query can start from the right batch.

Show the plan, ask, back up, execute, check the outcome. Exit codes: 0 done; 1 interrupted, or a start would
still fail; 2 not possible or not allowed, nothing was changed.
"""

from __future__ import annotations

import json
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

import click

from controlplane.checkpoints.analyzer import writer_version
from controlplane.checkpoints.findings import CheckpointReport, ReportStatus
from controlplane.checkpoints.inventory.collector import CannotOpen
from controlplane.checkpoints.lock import locked_by
from controlplane.checkpoints.reading.versions import LATEST, SparkVersion
from controlplane.checkpoints.repair import execution, inspection, repair_plan, rewind_plan, writer_detection
from controlplane.checkpoints.repair.backup import AnalysisOptions
from controlplane.checkpoints.repair.errors import (
    Impossible,
    RepairError,
    RepairInterrupted,
    RepairUnfinished,
)
from controlplane.checkpoints.repair.folders import CheckpointFolder
from controlplane.checkpoints.repair.inspection import RepairPlaces
from controlplane.checkpoints.repair.steps import CHECKPOINT, OUTPUT, RepairPlan
from controlplane.checkpoints.survey import Survey
from controlplane.cli.checkpoints import writer_check
from controlplane.cli.checkpoints.doctor import Relocation, SparkVersionType, report_lines
from controlplane.cli.checkpoints.plan_text import diagnosis_lines, plan_lines, rewind_target_lines
from controlplane.cli.options import client_options, json_option
from controlplane.console.errors import ServerFailed, UsageProblem

F = TypeVar("F", bound=Callable[..., Any])

output_option = click.option(
    "--output", metavar="PATH", help="Where the query's file sink writes (holds _spark_metadata)."
)
input_option = click.option(
    "--input", "inputs", multiple=True, metavar="PATH", help="A folder that a file source reads; repeatable."
)
relocate_option = click.option(
    "--relocate",
    "relocations",
    multiple=True,
    type=Relocation(),
    metavar="FROM=TO",
    help="For a copied checkpoint: map the absolute paths inside its logs; repeatable.",
)
target_option = click.option(
    "--target-spark",
    "target",
    type=SparkVersionType(),
    metavar="VERSION",
    help="The Spark version that will start; default: the one that wrote the checkpoint.",
)
dry_option = click.option("--dry-run", is_flag=True, help="Show the plan, change nothing.")
yes_option = click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
stopped_option = click.option(
    "--assume-stopped",
    is_flag=True,
    help="Skip the check for a writer: you know that the query is stopped.",
)
backup_option = click.option(
    "--backup-dir",
    metavar="PATH",
    help="Where the backup goes; default: beside the checkpoint, <checkpoint>.backup-<UTC>.",
)


def repair_options(command: F) -> F:
    """Add the options that rewind and repair share to a command."""
    shared = (
        output_option, input_option, relocate_option, target_option,
        dry_option, yes_option, backup_option, stopped_option, json_option, client_options,
    )  # fmt: skip
    for option in reversed(shared):
        command = option(command)
    return command


class RepairSession:
    """One run of rewind or repair: the survey of the checkpoint, its report, and the user's options."""

    def __init__(self, checkpoint: str, options: dict[str, Any]):
        self.options = options
        self.places = RepairPlaces(checkpoint, options["output"], options["inputs"], options["relocations"])
        self.survey = inspect_now(self.places)
        self.target: SparkVersion = options["target"] or writer_version(self.survey.checkpoint) or LATEST
        self.verdict = rewind_plan.analyze_survey(self.survey, self.target)
        self.server = writer_check.server_options(options)
        self.query = writer_check.find_known_query(
            self.server, checkpoint, self._id(), is_copy=bool(options["relocations"])
        )

    def refuse_without_output(self) -> None:
        """Raise Impossible where --output is missing although the server knows that the query writes files."""
        if (
            self.options["output"] is None
            and not self.query.is_elsewhere
            and (folder := self.query.file_sink_path)
        ):
            raise Impossible(
                f"the query writes files: give --output {shlex.quote(folder)}, else rows are lost"
            )

    def _id(self) -> str | None:
        return self.verdict.query_id or self.options.get("query_id")

    def apply(self, plan: RepairPlan, report: dict[str, Any]) -> int:
        """Confirm, check for writers, execute the plan, check the outcome. Returns the exit code."""
        writer_check.refuse_running(self.query, self.places.output)
        confirm(self.options["yes"])
        if not self.options["assume_stopped"]:
            self._check_for_writers()
        folders = open_folders(self.places)
        backup = CheckpointFolder(self.options["backup_dir"] or default_backup(folders[CHECKPOINT]))
        execution.execute_plan(plan, folders, backup, time.time(), self._analysis_options())
        with after_change(f"the checkpoint was changed, the backup is {backup}"):
            writer_check.request_check(self.query, self.server)
            return self._conclude(str(backup), report)

    def _analysis_options(self) -> AnalysisOptions:
        target = self.options["target"]
        return AnalysisOptions(
            tuple(str(CheckpointFolder(place)) for place in self.places.inputs),
            self.places.relocations,
            None if target is None else str(target),
        )

    def _check_for_writers(self) -> None:
        seconds = writer_detection.pause_seconds(rewind_plan.view_of(self.survey, self.target))
        writer_check.check_for_writers(self.places.checkpoint, self.survey.checkpoint, seconds)

    def _conclude(self, backup: str, report: dict[str, Any]) -> int:
        verdict = replace(
            rewind_plan.analyze_survey(inspect_now(self.places), self.target),
            checkpoint=self.places.checkpoint,
        )
        if self.options["as_json"]:
            click.echo(json.dumps({**report, "backup": backup, "verdict": verdict.as_json()}, indent=2))
        else:
            click.echo(f"\nDone. The backup is {backup}. To undo: controlplane undo {shlex.quote(backup)}\n")
            click.echo("\n".join(report_lines(verdict)))
        return exit_code_of(verdict)


@click.command(short_help="Make a query run an earlier batch next.")
@click.argument("checkpoint")
@click.option("--resume-at", type=click.IntRange(min=0), metavar="R", help="The batch to run next.")
@click.option(
    "--list", "listing", is_flag=True, help="List the possible batches, and why others are not possible."
)
@click.option("--move-data", is_flag=True, help="With --output: also remove the data files of those batches.")
@repair_options
def rewind(checkpoint: str, resume_at: int | None, listing: bool, move_data: bool, **options: Any) -> int:
    """Make a stopped query run batch R next, as if the batches from R on had never run.

    Shows the plan and its consequences for every kind of sink, asks, backs up the changed files, executes the
    plan and checks the outcome. `controlplane undo BACKUP` restores everything. --dry-run changes nothing.
    """
    if (resume_at is None) is not listing:
        raise click.UsageError("give --resume-at R, or --list")
    if move_data and options["output"] is None:
        raise click.UsageError("--move-data needs --output PATH")
    return errors_in_one_line(_rewind)(checkpoint, resume_at, move_data, options)


def _rewind(checkpoint: str, resume_at: int | None, move_data: bool, options: dict[str, Any]) -> int:
    session = RepairSession(checkpoint, options)
    _readable(session)
    if resume_at is None:
        return _list(session)
    session.refuse_without_output()
    plan = rewind_plan.plan_rewind(session.survey, resume_at, session.target, data=move_data)
    verdict = rewind_plan.analyze_survey(
        inspection.survey_after(session.survey, plan.steps, session.places), session.target
    )
    if found := rewind_plan.objections(verdict, session.verdict):
        raise Impossible(f"batch {resume_at} cannot be next: {found[0].message}")
    report = {"plan": plan.as_json()}
    _show(options, report, plan_lines(plan))
    return 0 if options["dry_run"] else session.apply(plan, report)


def _list(session: RepairSession) -> int:
    found = list(rewind_plan.rewind_targets(session.survey, session.target))
    if session.options["as_json"]:
        rows = [{"resume_at": c.batch, "possible": c.reason is None, "reason": c.reason} for c in found]
        click.echo(json.dumps({"next_batch": session.verdict.next_batch, "batches": rows}, indent=2))
    else:
        click.echo("\n".join(rewind_target_lines(found, session.verdict.next_batch)))
    return 0


@click.command(short_help="Repair a checkpoint that does not start.")
@click.argument("checkpoint")
@click.option("--query-id", metavar="ID", help="The query's id, if metadata lost it.")
@click.option(
    "--confirm",
    "confirmed",
    multiple=True,
    type=click.Choice(repair_plan.REPAIR_IDS),
    metavar="REPAIR",
    help="Allow a repair that delivers a batch again or relies on you, such as R-STATE-1; repeatable.",
)
@repair_options
def repair(checkpoint: str, query_id: str | None, confirmed: tuple[str, ...], **options: Any) -> int:
    """Repair what the doctor found, and explain how to fix the rest by hand.

    Some repairs need --confirm. Shows the plan, asks, backs up, executes the plan and checks the outcome;
    `controlplane undo BACKUP` restores everything.
    """
    if query_id is not None and not _is_uuid(query_id):
        raise click.UsageError(f"--query-id: {query_id!r} is not a UUID")
    return errors_in_one_line(_repair)(checkpoint, confirmed, {**options, "query_id": query_id})


def _repair(checkpoint: str, confirmed: tuple[str, ...], options: dict[str, Any]) -> int:
    session = RepairSession(checkpoint, options)
    _readable(session)
    session.refuse_without_output()
    query_id = options["query_id"] or session.query.query_id
    case = repair_plan.RepairContext(session.survey, session.target, session.verdict, query_id)
    found = repair_plan.diagnose(case, confirmed)
    report = {
        "repairs": [offer.as_json() for offer in found.selected],
        "offers": [offer.as_json() for offer in found.offers],
        "left": [finding.as_json() for finding in found.unresolved],
        "rewind_to": found.rewind_to,
        "plan": found.plan and found.plan.as_json(),
    }
    _show(options, report, diagnosis_lines(found, session.verdict.verdict, checkpoint, _same(options)))
    if found.plan is None:
        if options["as_json"] and not options["dry_run"]:
            click.echo(json.dumps(report, indent=2))
        return 1 if session.verdict.verdict == ReportStatus.BROKEN and not options["dry_run"] else 0
    return 0 if options["dry_run"] else session.apply(found.plan, report)


# Shared with `controlplane.cli.checkpoints.undo`.


def inspect_now(places: RepairPlaces) -> Survey:
    """Survey the places as of now."""
    return inspection.inspect(places, time.time())


def open_folders(places: RepairPlaces) -> dict[str, CheckpointFolder]:
    """Place → folder, of the checkpoint and the output."""
    folders = {CHECKPOINT: CheckpointFolder(places.checkpoint)}
    return folders if places.output is None else {**folders, OUTPUT: CheckpointFolder(places.output)}


def exit_code_of(verdict: CheckpointReport) -> int:
    """1 where a start would fail or cannot be checked, else 0."""
    return 1 if verdict.verdict in (ReportStatus.BROKEN, ReportStatus.UNREADABLE) else 0


def default_backup(checkpoint: CheckpointFolder) -> str:
    """`<checkpoint>.backup-<UTC>`, beside the checkpoint."""
    return f"{str(checkpoint).rstrip('/')}.backup-{utc_stamp(time.time())}"


def utc_stamp(now: float) -> str:
    """`20260301T101500Z` from Unix seconds."""
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))


def _readable(session: RepairSession) -> None:
    inventory = session.survey.checkpoint
    if backup := locked_by(inventory):
        raise RepairUnfinished(backup)
    if session.verdict.verdict == ReportStatus.UNREADABLE:
        raise Impossible(f"{session.places.checkpoint}: {session.verdict.findings[0].message}")
    if not inventory.complete:
        raise Impossible("the listing of the checkpoint is incomplete; a repair needs all of it")
    output = session.survey.output
    if output is not None and not output.exists:
        raise Impossible(f"--output: {output.root} does not exist")


def _is_uuid(text: str) -> bool:
    import uuid

    try:
        return str(uuid.UUID(text)) == text.lower()
    except ValueError:
        return False


def _show(options: dict[str, Any], report: dict[str, Any], lines: list[str]) -> None:
    """Print the plan before asking; with --json on standard error, as standard output is for the document."""
    if not options["as_json"]:
        click.echo("\n".join(lines))
    elif options["dry_run"]:
        click.echo(json.dumps(report, indent=2))
    else:
        click.echo("\n".join(lines), err=True)


def confirm(yes: bool) -> None:
    """Ask the user to go on. Raises UsageProblem where the answer is no, or without a terminal."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageProblem("nothing was changed: without a terminal give --yes (or --dry-run)")
    if not click.confirm("\nApply this plan?", err=True):
        raise UsageProblem("nothing was changed")


def _same(options: dict[str, Any]) -> list[str]:
    """The options that a follow-up command needs too."""
    given = [("--output", options["output"])] if options["output"] else []
    given += [("--input", place) for place in options["inputs"]]
    given += [("--relocate", "=".join(pair)) for pair in options["relocations"]]
    given += [("--target-spark", str(options["target"]))] if options["target"] else []
    return [word for pair in given for word in pair]


@contextmanager
def after_change(what: str) -> Iterator[None]:
    """Report failures after the change together with `what`, the sentence that it was made."""
    try:
        yield
    except (BrokenPipeError, KeyboardInterrupt):
        click.echo(what, err=True)
        raise
    except (OSError, CannotOpen) as error:
        raise ServerFailed(f"{what}; the outcome could not be checked: {error}") from None


def errors_in_one_line(command: Callable[..., int]) -> Callable[..., int]:
    """Turn the errors of a repair into one line and an exit code."""

    def run(*arguments: Any) -> int:
        try:
            return command(*arguments)
        except BrokenPipeError:
            raise
        except RepairInterrupted as error:
            raise ServerFailed(str(error)) from None
        except (RepairError, CannotOpen) as error:
            raise UsageProblem(str(error)) from None
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            raise UsageProblem(f"{where}{error.strerror or error}; nothing was changed") from None

    return run
