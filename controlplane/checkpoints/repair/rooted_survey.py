"""The survey of a query's checkpoint as the server reads it: only below its checkpoint roots, following no links.

Called by `preview` on the thread of a request and by `change` before files are changed. Input folders are not read.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass, replace

from controlplane.checkpoints.analyzer import writer_version
from controlplane.checkpoints.findings import CheckpointReport, ReportStatus
from controlplane.checkpoints.inventory import roots
from controlplane.checkpoints.inventory.collector import collect
from controlplane.checkpoints.inventory.model import Inventory
from controlplane.checkpoints.lock import locked_by
from controlplane.checkpoints.reading.versions import LATEST, SparkVersion
from controlplane.checkpoints.repair import inspection, repair_plan, rewind_plan, sink_effects
from controlplane.checkpoints.repair.errors import Impossible, RepairUnfinished
from controlplane.checkpoints.repair.inspection import RepairPlaces
from controlplane.checkpoints.repair.repair_plan import Diagnosis, RepairContext
from controlplane.checkpoints.repair.steps import RepairPlan
from controlplane.checkpoints.survey import Survey

#: Time to read the checkpoint and, after it, the output of a file sink.
READ_SECONDS = 12.0


@dataclass(frozen=True)
class QueryPlaces:
    """Where a query's checkpoint is, as its agent reported it, and what the server may read.

    sink: Spark's description of the query's sink, "" if not known. allowed: the checkpoint roots.
    """

    checkpoint: str
    sink: str
    allowed: tuple[str, ...]

    @property
    def output(self) -> str | None:
        """The folder of a file sink; None for other sinks."""
        return file_sink_folder(self.sink)

    def command(self, name: str, *options: str) -> str:
        """A command line for this checkpoint."""
        output = ["--output", self.output] if self.output else []
        return shlex.join(["controlplane", name, *output, self.checkpoint, *options])


@dataclass(frozen=True)
class RootedSurvey:
    """A survey, the places that it was read from with their links resolved, and the report on it."""

    of: QueryPlaces
    places: RepairPlaces
    survey: Survey
    target: SparkVersion
    report: CheckpointReport

    def rewind_to(self, resume_at: int) -> RepairPlan:
        """The plan that makes this batch the next one. Raises Impossible with the reason."""
        plan = rewind_plan.plan_rewind(self.survey, resume_at, self.target)
        self.refuse_outside()
        after = inspection.survey_after(self.survey, plan.steps, self.places)
        found = rewind_plan.objections(rewind_plan.analyze_survey(after, self.target), self.report)
        if found:
            raise Impossible(f"batch {resume_at} cannot be next: {found[0].message}")
        others = set(sink_effects.UNKNOWN_SINK) - set(sink_effects.of_sink(self.of.sink))
        return replace(plan, consequences=tuple(text for text in plan.consequences if text not in others))

    def diagnose(self, query_id: str, confirmed: Iterable[str]) -> Diagnosis:
        """The repairs that are possible, and the plan of those that need no confirmation or have it."""
        context = RepairContext(self.survey, self.target, self.report, self.report.query_id or query_id)
        return repair_plan.diagnose(context, confirmed)

    def refuse_outside(self) -> None:
        """Raise Impossible where a place has come to be outside of the roots."""
        for place in filter(None, (self.places.checkpoint, self.places.output)):
            if refusal := roots.refusal(place, self.of.allowed):
                raise Impossible(refusal)
            if roots.resolved(place) != place:
                raise Impossible(f"{place} was replaced by a link")


def file_sink_folder(description: str) -> str | None:
    """Where a file sink writes, from Spark's description of it: `FileSink[file:/out]` → `file:/out`; None for others."""
    return description[len("FileSink[") :].removesuffix("]") if description.startswith("FileSink[") else None


def survey_below_roots(of: QueryPlaces, now: float) -> RootedSurvey:
    """Read a query's checkpoint and the log of its file sink.

    Raises Impossible, with the reason, and CannotOpen where the checkpoint cannot be read.
    """
    inventory, checkpoint = _read(of.checkpoint, of.allowed, now)
    survey = Survey(inspection.with_log_entries(inventory, checkpoint))
    output = None
    if of.output is not None:
        written, output = _read(of.output, of.allowed, now)
        survey = replace(survey, output=written)
    target = writer_version(survey.checkpoint) or LATEST
    report = rewind_plan.analyze_survey(survey, target)
    if backup := locked_by(survey.checkpoint):
        raise RepairUnfinished(backup)
    if report.verdict is ReportStatus.UNREADABLE:
        raise Impossible(report.findings[0].message)
    if not survey.checkpoint.complete or (survey.output is not None and not survey.output.complete):
        listing = of.command("rewind", "--list")
        raise Impossible(f"it could not be listed within {READ_SECONDS:.0f} s; run {listing}")
    return RootedSurvey(of, RepairPlaces(checkpoint, output), survey, target, report)


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
