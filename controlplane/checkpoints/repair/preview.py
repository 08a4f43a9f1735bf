"""What a rewind would do, computed from the checkpoint as it is now. Changes nothing.

The server reads only below its checkpoint roots, follows no links and stops after a time: the API calls it on the
thread of a request. Input folders are not read, so missing input files are not noticed.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import islice

from controlplane.checkpoints.analyzer import writer_version
from controlplane.checkpoints.findings import ReportStatus
from controlplane.checkpoints.inventory import roots
from controlplane.checkpoints.inventory.collector import collect
from controlplane.checkpoints.inventory.model import Inventory
from controlplane.checkpoints.lock import locked_by
from controlplane.checkpoints.reading.versions import LATEST, SparkVersion
from controlplane.checkpoints.repair import inspection, rewind_plan, sink_effects
from controlplane.checkpoints.repair.errors import Impossible, RepairUnfinished
from controlplane.checkpoints.repair.inspection import RepairPlaces
from controlplane.checkpoints.repair.rewind_plan import RewindTarget
from controlplane.checkpoints.repair.steps import Remove, RepairPlan, Write
from controlplane.checkpoints.survey import Survey

#: Time to read the checkpoint and, after it, the output of a file sink.
READ_SECONDS = 12.0
#: Time to find out which batches can run next. Each is one analysis, which takes long where there is much state.
JUDGE_SECONDS = 5.0
MAX_TARGETS = 100


@dataclass(frozen=True)
class RewindPreview:
    """The batches that may run next, newest first, and the plan for one of them.

    `output`: the folder of the file sink, where it was read; `command`: executes the plan. `committed_at`: Unix
    seconds, by batch.
    """

    next_batch: int | None
    targets: tuple[RewindTarget, ...]
    committed_at: dict[int, float]
    output: str | None
    plan: RepairPlan | None
    command: str

    @property
    def changes(self) -> tuple[int, int]:
        """Files that the plan removes, and files that it writes."""
        steps = self.plan.steps if self.plan else ()
        return sum(isinstance(s, Remove) for s in steps), sum(isinstance(s, Write) for s in steps)


def file_sink_folder(description: str) -> str | None:
    """Where a file sink writes, from Spark's description of it: `FileSink[file:/out]` → `file:/out`; None for others."""
    return description[len("FileSink[") :].removesuffix("]") if description.startswith("FileSink[") else None


def preview(
    checkpoint: str, sink: str, allowed: Iterable[str], now: float, resume_at: int | None = None
) -> RewindPreview:
    """Read the checkpoint and plan a rewind to `resume_at`; without it, find the batches that can run next.

    sink: Spark's description of the query's sink, "" if not known. Raises Impossible, with the reason, and
    CannotOpen where the checkpoint cannot be read.
    """
    limits, output = tuple(allowed), file_sink_folder(sink)
    survey = Survey(
        inspection.with_log_entries(*_read(checkpoint, limits, now)),
        None if output is None else _read(output, limits, now)[0],
    )
    target = writer_version(survey.checkpoint) or LATEST
    report = rewind_plan.analyze_survey(survey, target)
    if backup := locked_by(survey.checkpoint):
        raise Impossible(str(RepairUnfinished(backup)))
    if report.verdict is ReportStatus.UNREADABLE:
        raise Impossible(report.findings[0].message)
    if not survey.checkpoint.complete or (survey.output is not None and not survey.output.complete):
        raise Impossible(
            f"it could not be listed within {READ_SECONDS:.0f} s; {_by_command(checkpoint, output)}"
        )
    listed = resume_at is None
    return RewindPreview(
        report.next_batch,
        tuple(_targets(survey, target)) if listed else (),
        _commit_times(survey.checkpoint),
        output,
        None if resume_at is None else _for_sink(_plan(survey, resume_at, target, checkpoint, limits), sink),
        _command(checkpoint, output, resume_at),
    )


def _read(place: str, allowed: tuple[str, ...], now: float) -> tuple[Inventory, str]:
    """The inventory of a place, and the place with its links resolved."""
    if refusal := roots.refused_by_name(place, allowed):
        raise Impossible(f"{refusal} ({place})")
    found = roots.resolved(place)
    if refusal := roots.refusal(found, allowed):
        raise Impossible(f"{refusal} ({place})")
    inventory = collect(found, now, links=False, seconds=READ_SECONDS)
    if roots.resolved(found) != found:
        raise Impossible("it was replaced by a link during the listing")
    return inventory, found


def _targets(survey: Survey, target: SparkVersion) -> Iterable[RewindTarget]:
    until = time.monotonic() + JUDGE_SECONDS
    for found in islice(rewind_plan.rewind_targets(survey, target), MAX_TARGETS):
        yield found
        if time.monotonic() > until:
            return


def _plan(
    survey: Survey, resume_at: int, target: SparkVersion, checkpoint: str, allowed: tuple[str, ...]
) -> RepairPlan:
    plan = rewind_plan.plan_rewind(survey, resume_at, target)
    place = roots.resolved(checkpoint)
    if refusal := roots.refusal(place, allowed):
        raise Impossible(refusal)
    after = inspection.survey_after(survey, plan.steps, RepairPlaces(place))
    found = rewind_plan.objections(
        rewind_plan.analyze_survey(after, target), rewind_plan.analyze_survey(survey, target)
    )
    if found:
        raise Impossible(f"batch {resume_at} cannot be next: {found[0].message}")
    return plan


def _for_sink(plan: RepairPlan, sink: str) -> RepairPlan:
    """The plan without consequences for other kinds of sinks than this one."""
    others = set(sink_effects.UNKNOWN_SINK) - set(sink_effects.of_sink(sink))
    return replace(plan, consequences=tuple(text for text in plan.consequences if text not in others))


def _commit_times(inventory: Inventory) -> dict[int, float]:
    names = (name for name in inventory.names("commits") if name.isascii() and name.isdigit())
    times = ((int(name), inventory.entries[f"commits/{name}"].modified) for name in names)
    return {batch: at for batch, at in times if at is not None}


def _by_command(checkpoint: str, output: str | None) -> str:
    return f"run {_command(checkpoint, output, None)}"


def _command(checkpoint: str, output: str | None, resume_at: int | None) -> str:
    places = [*(["--output", output] if output else []), checkpoint]
    chosen = ["--list"] if resume_at is None else ["--resume-at", str(resume_at)]
    return shlex.join(["controlplane", "rewind", *places, *chosen])
