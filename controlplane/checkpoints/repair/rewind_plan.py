"""Plan a rewind: which batches can run next, the steps to get there, and the consequences. Pure.

Spark opens the two newest entries of the offset log, the newest commit, and the state version of the next
batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from controlplane.checkpoints.analyzer import analyze
from controlplane.checkpoints.checks.logs import sparse
from controlplane.checkpoints.findings import CheckpointReport, Finding, RestartEffect, Severity, plural
from controlplane.checkpoints.reading.checkpoint import CheckpointView
from controlplane.checkpoints.reading.input_files import InputFiles
from controlplane.checkpoints.reading.logs import OffsetEntry, Torn
from controlplane.checkpoints.reading.versions import SparkVersion
from controlplane.checkpoints.repair import sink_effects, truncation
from controlplane.checkpoints.repair.errors import Impossible
from controlplane.checkpoints.repair.inspection import MAX_LOG_ENTRIES
from controlplane.checkpoints.repair.steps import RepairPlan, apply_steps, merge_steps
from controlplane.checkpoints.repair.truncation import CutPoint
from controlplane.checkpoints.survey import Survey

#: `rewind_targets` lists at most this many of the newest batches; Spark keeps 100 by default.
MAX_LISTED = 200


@dataclass(frozen=True)
class RewindTarget:
    """A batch that might run next. `reason`: why it cannot; None: it can."""

    batch: int
    reason: str | None = None


def view_of(survey: Survey, target: SparkVersion) -> CheckpointView:
    """The analyzer's view of a survey."""
    return CheckpointView(survey.checkpoint, target, output=survey.output, inputs=survey.inputs)


def plan_rewind(survey: Survey, resume_at: int, target: SparkVersion, *, data: bool = False) -> RepairPlan:
    """The steps after which batch `resume_at` runs next. Raises Impossible; check the outcome with `objections`.

    data: also remove the data files of a file sink's batches, not only their entries in its log.
    """
    return _planned(view_of(survey, target), resume_at, data)


def _planned(view: CheckpointView, resume_at: int, data: bool) -> RepairPlan:
    found = list(truncation.truncation_steps(view, cut_for(view, resume_at)))
    if view.output is not None and view.sink is not None:
        found += truncation.cut_sink(view.output, view.sink, resume_at, data=data)
    if not found:
        raise Impossible(f"batch {resume_at} already runs next; there is nothing to do")
    title = f"batch {resume_at} runs next, instead of batch {view.next_batch}"
    return RepairPlan("rewind", title, merge_steps(found), tuple(_consequences(view, resume_at, data)))


def cut_for(view: CheckpointView, resume_at: int) -> CutPoint:
    """Where a rewind cuts each log. Raises Impossible where an entry that Spark will open is missing."""
    newest = view.next_batch
    if view.planned is None:
        raise Impossible("there is no batch in offsets/: the query starts at batch 0")
    if resume_at > newest:
        raise Impossible(f"batch {newest} runs next; a rewind only goes back")
    if resume_at == 0:
        return CutPoint(0, 0, 0, None)
    if sparse(view):
        raise Impossible(
            "asynchronous progress tracking wrote the logs, so they hold only some batches; run a few batches "
            "with asyncProgressTrackingCheckpointIntervalMs=0 first"
        )
    return CutPoint(resume_at, resume_at, resume_at, _entry(view, resume_at))


def _entry(view: CheckpointView, resume_at: int) -> OffsetEntry:
    last = resume_at - 1
    for batch in (last, last - 1)[:resume_at]:
        if batch not in view.offsets.batches:
            raise Impossible(_lacking(view, resume_at, batch))
    if last not in view.commits.batches:
        raise Impossible(f"commits/{last} is missing: Spark would run batch {last} again, not {resume_at}")
    entry = view.offset_entry(last)
    if entry is None and last < view.offsets.batches[-MAX_LOG_ENTRIES:][0]:
        raise Impossible(
            f"batch {resume_at} is older than the newest {MAX_LOG_ENTRIES} batches, to which a rewind goes back"
        )
    if not isinstance(entry, OffsetEntry):
        why = f": {entry.reason}" if isinstance(entry, Torn) else ""
        raise Impossible(f"offsets/{last} cannot be read{why}")
    return entry


def _lacking(view: CheckpointView, resume_at: int, batch: int) -> str:
    oldest = view.offsets.batches[0]
    why = f"the log starts at {oldest}, Spark purged older entries" if batch < oldest else "it is missing"
    return f"offsets/{batch} does not exist ({why}): Spark opens it to run batch {resume_at}"


def objections(outcome: CheckpointReport, now: CheckpointReport) -> list[Finding]:
    """Findings that make a start fail after the rewind, with those of `now` that no rewind fixes."""
    found = [f for f in outcome.findings if _fails(f) and not f.evidence.get("likely")]
    kept = [
        f
        for f in now.findings
        if _fails(f) and f.check in NOT_FIXED_BY_REWIND and not _starts_without_state(f, outcome)
    ]
    return found + kept


#: Checks whose findings belong to no batch, so that removing batches does not fix them.
NOT_FIXED_BY_REWIND = ("meta.missing", "meta.unreadable", "meta.bad-id", "state.dir-missing")


def _starts_without_state(finding: Finding, outcome: CheckpointReport) -> bool:
    """Whether the finding is missing state and the query starts at batch 0, which needs none."""
    return finding.check == "state.dir-missing" and outcome.next_batch == 0


def _fails(finding: Finding) -> bool:
    return finding.severity is Severity.ERROR and finding.effect is RestartEffect.FAILS


def analyze_survey(survey: Survey, target: SparkVersion) -> CheckpointReport:
    """The analyzer's report on a survey."""
    return analyze(survey.checkpoint, target, output=survey.output, inputs=survey.inputs)


def rewind_targets(survey: Survey, target: SparkVersion) -> Iterator[RewindTarget]:
    """The batches up to the newest planned one, newest first, with whether a rewind to each is possible."""
    view = view_of(survey, target)
    if view.planned is None:
        return
    now = analyze_survey(survey, target)
    oldest = max(0, view.offsets.batches[0] - 1, view.planned - MAX_LISTED)
    for batch in [*range(view.planned, oldest - 1, -1), *([0] if oldest else [])]:
        yield RewindTarget(batch, _reason(view, survey, batch, now))


def _reason(view: CheckpointView, survey: Survey, batch: int, now: CheckpointReport) -> str | None:
    try:
        steps = _planned(view, batch, data=False).steps
    except Impossible as error:
        return str(error)
    found = objections(analyze_survey(apply_steps(survey, steps), view.target), now)
    return found[0].message if found else None


def newest_possible(survey: Survey, target: SparkVersion) -> int | None:
    """The newest batch to which a rewind is possible; None where there is none."""
    return next(
        (candidate.batch for candidate in rewind_targets(survey, target) if candidate.reason is None), None
    )


def _consequences(view: CheckpointView, resume_at: int, data: bool) -> Iterator[str]:
    again = [batch for batch in view.offsets.batches if batch >= resume_at]
    if again:
        yield (
            f"{_named(again)} forgotten: their input is read and delivered again, in newly planned batches"
        )
    yield from _watermark(view, resume_at)
    yield from _inputs(view, resume_at)
    yield from sink_effects.consequences(view, resume_at, data=data)


def _named(batches: list[int]) -> str:
    return f"batch {batches[0]} is" if len(batches) == 1 else f"batches {batches[0]} to {batches[-1]} are"


def _watermark(view: CheckpointView, resume_at: int) -> Iterator[str]:
    entry = view.commit_entry(resume_at - 1) if resume_at else None
    moved = view.last is not None and view.last.watermark_ms > 0
    if moved and not isinstance(entry, Torn):
        at = f"{entry.watermark_ms} ms" if entry else "its beginning"
        yield f"the watermark goes back to {at}: rows that append mode has emitted since are emitted again"


def _inputs(view: CheckpointView, resume_at: int) -> Iterator[str]:
    """Warnings about input that must be read again; Spark silently skips missing files."""
    files = InputFiles(view)
    gone = [path for path in _read_since(view, resume_at) if files.is_missing(path)]
    if gone:
        yield (
            f"ROWS ARE LOST: {plural(len(gone), 'input file')} of those batches cannot be found (first {gone[0]}); "
            "restore them before the start"
        )
    if any(name not in view.sources for name in (view.last.offsets if view.last else ())):
        yield "a source other than files (Kafka, rate) must still hold the input of those batches"


def _read_since(view: CheckpointView, resume_at: int) -> Iterable[str]:
    entry = view.offset_entry(resume_at - 1) if resume_at else None
    last = entry if isinstance(entry, OffsetEntry) else None
    for name, log in view.sources.items():
        kept = truncation.last_kept_entry(last, name)
        yield from (
            view.relocated_path(path)
            for path, record in log.known.items()
            if _batch(record.get("batchId")) > kept
        )


def _batch(value: object) -> int:
    return value if isinstance(value, int) else -1
