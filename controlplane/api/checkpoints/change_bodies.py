"""Bodies of rewinds, repairs and undos of checkpoints. Pure.

Called by `controlplane.api.routes.checkpoints`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from controlplane.actions.guards import ActionRefusal
from controlplane.api.bodies import Body, Person, Stamp, Text, Whole
from controlplane.api.render import stamp
from controlplane.checkpoints.repair.preview import RepairPreview, RewindPreview, changed_files
from controlplane.checkpoints.repair.repair_plan import RepairOffer
from controlplane.checkpoints.repair.steps import RepairPlan


class RewindTargetBody(Body):
    """A batch that might run next. `reason`: why it cannot. `input_rows`: that it read, where its report is known."""

    batch: int
    committed_at: Stamp
    input_rows: Whole
    possible: bool
    reason: str | None


class ChangePlanBody(Body):
    """What a change of a checkpoint does. Every changed file is copied to a backup first."""

    title: str
    consequences: list[str]
    files_removed: int
    files_written: int


class RewindPlanBody(ChangePlanBody):
    """What a rewind does. `rows_again`: input rows of the batches that run again, where all their reports are known."""

    resume_at: int
    rows_again: Whole


class RefusalBody(Body):
    """Why the server would refuse: `code` for programs, `reason` for people."""

    code: str
    reason: str


class RewindBody(Body):
    """The rewinds of a checkpoint, or the plan of one. `command`: executes it where the checkpoint can be reached.

    `refusal`: why this server would not carry it out now.
    """

    next_batch: Whole
    batches: list[RewindTargetBody]
    plan: RewindPlanBody | None
    output: str | None
    command: str
    refusal: RefusalBody | None


class RepairOfferBody(Body):
    """A repair for some of the findings. `selected`: it is part of the plan; `blocked`: why it is not possible.

    `needs_confirmation`: it delivers a batch again or relies on a person.
    """

    id: str
    title: str
    selected: bool
    possible: bool
    needs_confirmation: bool
    blocked: str | None
    consequences: list[str]


class RepairBody(Body):
    """The repairs of a checkpoint and the plan of the selected ones. `unresolved`: findings without a repair.

    `rewind_to`: where repairs do not suffice, the newest batch to which a rewind is possible. `refusal`: why this
    server would not carry it out now.
    """

    verdict: str
    offers: list[RepairOfferBody]
    plan: ChangePlanBody | None
    unresolved: list[str]
    rewind_to: Whole
    command: str
    refusal: RefusalBody | None


class ChangeRequest(BaseModel):
    """Base of the requests to change a checkpoint. `actor`: the person on whose behalf the UI sends the request."""

    model_config = ConfigDict(extra="forbid", strict=True)

    reason: Text = ""
    actor: Person | None = None


class RewindRequest(ChangeRequest):
    """`POST …/rewind`. `resume_at`: the batch to run next."""

    resume_at: int = Field(ge=0, le=2**53)


class RepairRequest(ChangeRequest):
    """`POST …/repair`. `confirm`: ids of repairs that need a confirmation."""

    confirm: list[Literal["R-OFF-1", "R-STATE-1", "R-STATE-3"]] = Field(default_factory=list, max_length=3)


class UndoRequest(ChangeRequest):
    """`POST …/undo`. `action_id`: the rewind or repair to undo."""

    action_id: str = Field(min_length=1, max_length=64)


def rewind_body(
    found: RewindPreview, resume_at: int | None, rows: Mapping[int, int], refusal: ActionRefusal | None
) -> RewindBody:
    """The answer of `GET …/rewind`. `rows`: input rows by batch, of the batches whose reports are known."""
    batches = [
        RewindTargetBody(
            batch=each.batch,
            committed_at=stamp(found.committed_at.get(each.batch)),
            input_rows=rows.get(each.batch),
            possible=each.reason is None,
            reason=each.reason,
        )
        for each in found.targets
    ]
    plan = None
    if found.plan is not None and resume_at is not None:
        again = range(resume_at, found.next_batch or 0)
        rows_again = sum(rows[b] for b in again) if all(b in rows for b in again) else None
        plan = RewindPlanBody(**_plan_fields(found.plan), resume_at=resume_at, rows_again=rows_again)
    return RewindBody(
        next_batch=found.next_batch,
        batches=batches,
        plan=plan,
        output=found.output,
        command=found.command,
        refusal=_refusal_body(refusal),
    )


def repair_body(found: RepairPreview, refusal: ActionRefusal | None) -> RepairBody:
    """The answer of `GET …/repair`."""
    diagnosis = found.diagnosis
    offers = [_offer_body(offer, selected=True) for offer in diagnosis.selected]
    offers += [_offer_body(offer, selected=False) for offer in diagnosis.offers]
    return RepairBody(
        verdict=found.verdict,
        offers=offers,
        plan=ChangePlanBody(**_plan_fields(diagnosis.plan)) if diagnosis.plan else None,
        unresolved=[finding.message for finding in diagnosis.unresolved],
        rewind_to=diagnosis.rewind_to,
        command=found.command,
        refusal=_refusal_body(refusal),
    )


def _offer_body(offer: RepairOffer, *, selected: bool) -> RepairOfferBody:
    return RepairOfferBody(
        id=offer.id,
        title=offer.title,
        selected=selected,
        possible=bool(offer.steps),
        needs_confirmation=offer.needs_confirmation,
        blocked=offer.blocked or None,
        consequences=list(offer.consequences),
    )


def _plan_fields(plan: RepairPlan) -> dict[str, Any]:
    removed, written = changed_files(plan)
    return {
        "title": plan.title,
        "consequences": list(plan.consequences),
        "files_removed": removed,
        "files_written": written,
    }


def _refusal_body(refusal: ActionRefusal | None) -> RefusalBody | None:
    return None if refusal is None else RefusalBody(code=refusal.code, reason=refusal.reason)
