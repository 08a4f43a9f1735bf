"""`controlplane doctor CHECKPOINT…`: check whether Spark can restart from checkpoints. Needs no server and no Spark.

Exit codes: 0 ok, 1 risky, 2 broken or a usage error, 3 unreadable or not a checkpoint. The worst of several
counts.
"""

from __future__ import annotations

import json
import os
import textwrap
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import click

from controlplane.checkpoints.analyzer import analyze
from controlplane.checkpoints.findings import CheckpointReport, Finding, ReportStatus, RestartEffect, Severity
from controlplane.checkpoints.inventory.collector import CannotOpen
from controlplane.checkpoints.inventory.model import Inventory, NotAnInventory
from controlplane.checkpoints.reading.versions import SparkVersion, parse_version
from controlplane.checkpoints.survey import Survey, collect_survey, survey_from_json, survey_to_json
from controlplane.console.errors import UsageProblem
from controlplane.console.tables import plain

EXIT_CODES = {ReportStatus.OK: 0, ReportStatus.RISKY: 1, ReportStatus.BROKEN: 2, ReportStatus.UNREADABLE: 3}
WIDTH = 100
MAX_NOTES = 8
Pairs = tuple[tuple[str, str], ...]


class SparkVersionType(click.ParamType):
    """Click type of a Spark version such as `4.3.0`."""

    name = "version"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> SparkVersion:
        """Parse a version, or fail with a usage error."""
        try:
            return parse_version(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Relocation(click.ParamType):
    """Click type of a relocation, `FROM=TO`."""

    name = "from=to"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        """Parse the pair; a local target becomes absolute."""
        source, mark, target = str(value).partition("=")
        if not (source and mark and target):
            self.fail(f"{value!r} is not FROM=TO", param, ctx)
        return source, target if "://" in target else os.path.abspath(target)


@click.command()
@click.argument("checkpoints", nargs=-1, metavar="CHECKPOINT…")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line, in the order given.")
@click.option(
    "--inventory",
    "saved",
    multiple=True,
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="F",
    help="Check a saved inventory.",
)
@click.option(
    "--save-inventory",
    "save",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="F",
    help="Save the inventory to a file, to check it elsewhere.",
)
@click.option("--output", metavar="PATH", help="Where the query's file sink writes (holds _spark_metadata).")
@click.option(
    "--input", "inputs", multiple=True, metavar="PATH", help="A folder that a file source reads; repeatable."
)
@click.option(
    "--relocate",
    "relocations",
    multiple=True,
    type=Relocation(),
    metavar="FROM=TO",
    help="For a copied checkpoint: map the absolute paths inside its logs; repeatable.",
)
@click.option(
    "--target-spark",
    "target",
    type=SparkVersionType(),
    metavar="VERSION",
    help="The Spark version that will start, such as 4.3.0; default: the one that wrote the checkpoint.",
)
def doctor(
    checkpoints: tuple[str, ...],
    as_json: bool,
    saved: tuple[Path, ...],
    save: Path | None,
    output: str | None,
    inputs: tuple[str, ...],
    relocations: Pairs,
    target: SparkVersion | None,
) -> int:
    """Check whether queries can restart from checkpoints: paths, fsspec URLs or saved inventories. Reads only.

    Exit 0 ok, 1 risky, 2 broken, 3 unreadable or not a checkpoint.
    """
    if not checkpoints and not saved:
        raise click.UsageError("give a CHECKPOINT or --inventory F")
    if save is not None and len(checkpoints) != 1:
        raise click.UsageError("--save-inventory takes exactly one CHECKPOINT")
    worst = 0
    for name, held in _surveys(checkpoints, saved, output, inputs, relocations):
        if save is not None and name == checkpoints[0]:
            _save(save, held)
        verdict = analyze(held.checkpoint, target, output=held.output, inputs=held.inputs)
        if name is not None:
            verdict = replace(verdict, checkpoint=name)
        click.echo(json.dumps(verdict.as_json()) if as_json else "\n".join(report_lines(verdict)) + "\n")
        worst = max(worst, EXIT_CODES[verdict.verdict])
    return worst


def _surveys(
    checkpoints: tuple[str, ...],
    saved: tuple[Path, ...],
    output: str | None,
    inputs: tuple[str, ...],
    relocations: Pairs,
) -> Iterator[tuple[str | None, Survey]]:
    """Each checkpoint with its name as given, and each saved inventory with None."""
    now = time.time()
    for checkpoint in checkpoints:
        try:
            yield (
                checkpoint,
                collect_survey(checkpoint, now, output=output, inputs=inputs, relocations=relocations),
            )
        except CannotOpen as error:
            if not str(error).startswith(f"{checkpoint}:"):
                raise UsageProblem(str(error)) from None
            yield (
                checkpoint,
                Survey(Inventory(checkpoint, {}, collected_at=now, errors=(_why(error, checkpoint),))),
            )
    for file in saved:
        yield None, _saved(file)


def _why(error: Exception, checkpoint: str) -> str:
    return str(error).removeprefix(f"{checkpoint}: ")


def _saved(file: Path) -> Survey:
    try:
        return survey_from_json(json.loads(file.read_bytes()))
    except OSError as error:
        raise UsageProblem(f"cannot read {file}: {error.strerror}") from None
    except NotAnInventory as error:
        raise UsageProblem(f"{file}: {error}") from None
    except (ValueError, RecursionError):
        raise UsageProblem(f"{file}: it is not JSON") from None


def _save(file: Path, held: Survey) -> None:
    try:
        file.write_text(json.dumps(survey_to_json(held)), encoding="utf-8")
    except OSError as error:
        raise UsageProblem(f"cannot write {file}: {error.strerror}") from None


VERDICT_TEXTS = {
    ReportStatus.OK: "A restart with Spark {spark} will run; no faults were found.",
    ReportStatus.RISKY: "A restart with Spark {spark} will run, but may lose, repeat or change results. See below before you start it.",
    ReportStatus.BROKEN: "A restart with Spark {spark} will fail.",
    ReportStatus.UNREADABLE: "There is no readable checkpoint at this path.",
}
LIKELY_BROKEN = (
    "A restart of the query with Spark {{spark}} will fail{condition}. Nothing here shows whether that is so."
)
LABELS = {Severity.ERROR: "ERROR", Severity.WARNING: "WARNING", Severity.INFO: "note"}


def report_lines(verdict: CheckpointReport) -> Iterator[str]:
    """The report as text: what a restart does, then each finding with its remedy; notes last and short."""
    yield f"{verdict.verdict.upper()}  {plain(verdict.checkpoint)}"
    yield f"  {_verdict_text(verdict).format(spark=verdict.target_spark)}"
    if verdict.next_batch is not None:
        yield f"  {_where(verdict)}"
    serious = [finding for finding in verdict.findings if finding.severity is not Severity.INFO]
    for finding in serious:
        yield ""
        yield from _finding(finding)
    remarks = [finding for finding in verdict.findings if finding.severity is Severity.INFO]
    if remarks:
        yield ""
        yield from _notes(remarks)


def _verdict_text(verdict: CheckpointReport) -> str:
    """The sentence of the verdict; conditional where only inferred findings make the restart fail."""
    condition = verdict.condition
    return LIKELY_BROKEN.format(condition=condition) if condition else VERDICT_TEXTS[verdict.verdict]


def _where(verdict: CheckpointReport) -> str:
    known = [
        f"query {verdict.query_id}" if verdict.query_id else "query id unknown",
        f"written by Spark {verdict.spark_version}" if verdict.spark_version else "",
        f"planned {_batch(verdict.last_planned_batch)}, committed {_batch(verdict.last_committed_batch)}",
        f"next batch {verdict.next_batch}",
    ]
    return ", ".join(part for part in known if part)


def _batch(number: int | None) -> str:
    return "none" if number is None else str(number)


def _finding(finding: Finding) -> Iterator[str]:
    yield f"  {LABELS[finding.severity]}  {finding.check}"
    yield from _wrapped(finding.message, "    ")
    if finding.when and finding.effect is not RestartEffect.NONE:
        condition = f": {finding.condition}" if finding.condition else ""
        yield from _wrapped(f"When Spark notices: {finding.when}{condition}", "    ")
    for number, step in enumerate(finding.remedy, 1):
        yield from _wrapped(step, "      ", f"    {number}. ")
    evidence = ", ".join(
        f"{key} {_short(value)}" for key, value in finding.evidence.items() if value not in ("", None, [])
    )
    if evidence:
        yield from _wrapped(f"Evidence: {evidence}", "    ")


def _short(value: object) -> str:
    text = (
        json.dumps(value, ensure_ascii=False, default=str)
        if isinstance(value, dict | list | tuple)
        else str(value)
    )
    return text if len(text) <= 200 else text[:199] + "…"


def _notes(findings: Sequence[Finding]) -> Iterator[str]:
    for finding in findings[:MAX_NOTES]:
        yield from _wrapped(f"{finding.check}: {finding.message}", "        ", "  note  ")
    if len(findings) > MAX_NOTES:
        yield f"  and {len(findings) - MAX_NOTES} more notes (--json has them)"


def _wrapped(text: str, indent: str, first: str | None = None) -> list[str]:
    begin = indent if first is None else first
    return textwrap.wrap(
        plain(text),
        WIDTH,
        initial_indent=begin,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
