"""What a rewind or a repair would do, computed from the checkpoint as it is now. Changes nothing.

The API calls it on the thread of a request: the server reads only below its checkpoint roots and stops after a time.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from controlplane.checkpoints.inventory.model import Inventory
from controlplane.checkpoints.repair import rewind_plan
from controlplane.checkpoints.repair.repair_plan import Diagnosis
from controlplane.checkpoints.repair.rewind_plan import RewindTarget
from controlplane.checkpoints.repair.rooted_survey import QueryPlaces, RootedSurvey, survey_below_roots
from controlplane.checkpoints.repair.steps import Remove, RepairPlan, Write

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


@dataclass(frozen=True)
class RepairPreview:
    """The verdict as of now and the repairs for its findings. `command`: executes the plan."""

    verdict: str
    diagnosis: Diagnosis
    command: str


def changed_files(plan: RepairPlan | None) -> tuple[int, int]:
    """Files that a plan removes, and files that it writes."""
    steps = plan.steps if plan else ()
    return sum(isinstance(s, Remove) for s in steps), sum(isinstance(s, Write) for s in steps)


def preview_rewind(of: QueryPlaces, now: float, resume_at: int | None = None) -> RewindPreview:
    """Plan a rewind to `resume_at`; without it, find the batches that can run next.

    Raises Impossible, with the reason, and CannotOpen where the checkpoint cannot be read.
    """
    found = survey_below_roots(of, now)
    listed = resume_at is None
    options = ["--list"] if resume_at is None else ["--resume-at", str(resume_at)]
    return RewindPreview(
        found.report.next_batch,
        tuple(_targets(found)) if listed else (),
        _commit_times(found.survey.checkpoint),
        of.output,
        None if resume_at is None else found.rewind_to(resume_at),
        of.command("rewind", *options),
    )


def preview_repair(
    of: QueryPlaces, now: float, query_id: str, confirmed: Iterable[str] = ()
) -> RepairPreview:
    """The repairs of a checkpoint; the plan holds those that need no confirmation and the `confirmed` ids.

    Raises Impossible, with the reason, and CannotOpen where the checkpoint cannot be read.
    """
    found, chosen = survey_below_roots(of, now), list(confirmed)
    needs_id = [] if found.report.query_id else ["--query-id", query_id]
    options = [*needs_id, *(word for id in chosen for word in ("--confirm", id))]
    return RepairPreview(
        found.report.verdict, found.diagnose(query_id, chosen), of.command("repair", *options)
    )


def _targets(found: RootedSurvey) -> Iterable[RewindTarget]:
    until = time.monotonic() + JUDGE_SECONDS
    for target in islice(rewind_plan.rewind_targets(found.survey, found.target), MAX_TARGETS):
        yield target
        if time.monotonic() > until:
            return


def _commit_times(inventory: Inventory) -> dict[int, float]:
    names = (name for name in inventory.names("commits") if name.isascii() and name.isdigit())
    times = ((int(name), inventory.entries[f"commits/{name}"].modified) for name in names)
    return {batch: at for batch, at in times if at is not None}
