"""Repairs: what can be mended in a checkpoint so that it starts again, from what the doctor found. Pure.

An offer has steps where they were seen to work and lose nothing; else it is advice, to be followed by hand.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from controlplane.checkpoints.findings import CheckpointReport, Finding, RestartEffect, Severity, plural
from controlplane.checkpoints.reading.checkpoint import CheckpointView
from controlplane.checkpoints.reading.logs import OffsetEntry
from controlplane.checkpoints.reading.state_tree import StateFile, Store
from controlplane.checkpoints.reading.versions import SparkVersion
from controlplane.checkpoints.repair import rewind_plan, truncation
from controlplane.checkpoints.repair.errors import Impossible
from controlplane.checkpoints.repair.steps import (
    CHECKPOINT,
    RepairPlan,
    Step,
    apply_steps,
    merge_steps,
    removal_steps,
    write_steps,
)
from controlplane.checkpoints.repair.truncation import CutPoint
from controlplane.checkpoints.survey import Survey

#: Repairs that build on one another: a lost id beside lost state, say.
MAX_ROUNDS = 5


@dataclass(frozen=True)
class RepairOffer:
    """One repair for some of the findings. Without steps it is advice: `blocked` says why nothing is offered.

    `asks`: it delivers a batch again or trusts the user's word, so it is done on confirmation only.
    """

    id: str
    title: str
    checks: tuple[str, ...]
    steps: tuple[Step, ...] = ()
    consequences: tuple[str, ...] = ()
    needs_confirmation: bool = False
    blocked: str = ""

    def as_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "title": self.title,
            "checks": list(self.checks),
            "needs_confirmation": self.needs_confirmation,
            "possible": bool(self.steps),
            "blocked": self.blocked or None,
            "consequences": list(self.consequences),
        }


@dataclass(frozen=True)
class RepairContext:
    """What a repair decides on."""

    survey: Survey
    target: SparkVersion
    verdict: CheckpointReport
    query_id: str | None = None

    @property
    def view(self) -> CheckpointView:
        return rewind_plan.view_of(self.survey, self.target)

    def found(self, *checks: str) -> list[Finding]:
        """Findings of these checks that speak against a start; a lost id does so under an older Spark too."""
        found = [f for f in self.verdict.findings if f.check in checks]
        return [f for f in found if f.severity is not Severity.INFO or f.check == "meta.missing"]


Repair = Callable[[RepairContext], Iterator[RepairOffer]]


def lost_id(context: RepairContext) -> Iterator[RepairOffer]:
    """R-META-1: the id in `metadata` is gone; it is known from history."""
    checks = tuple(f.check for f in context.found("meta.missing", "meta.unreadable", "meta.bad-id"))
    if not checks:
        return
    title = "write the query's id into metadata"
    if context.query_id is None:
        why = "the id is not known here: give --query-id (logs and progress events of the query name it)"
        yield RepairOffer("R-META-1", title, checks, blocked=why)
        return
    content = json.dumps({"id": str(uuid.UUID(context.query_id))}, separators=(",", ":")).encode()
    steps = write_steps(context.survey.checkpoint, CHECKPOINT, "metadata", content)
    told = (f"the query keeps its id {context.query_id}: sinks that know it by that go on where they were",)
    yield RepairOffer("R-META-1", title, checks, tuple(steps), told)


def lost_plan(context: RepairContext) -> Iterator[RepairOffer]:
    """R-OFF-1: the newest entry of the offset log was never committed and stands in the way."""
    view = context.view
    found = [f for f in context.found(*_PLANS) if _of_newest(f, view)]
    if not found or not view.in_flight or view.planned is None:
        return
    n, checks = view.planned, tuple(dict.fromkeys(f.check for f in found))
    title = f"take offsets/{n} away: batch {n} was never committed and is planned anew"
    if view.sink is not None and view.sink.newest is not None and view.sink.newest >= n:
        why = f"the file sink has batch {n} already and would skip the new one: rows would be lost"
        yield RepairOffer("R-OFF-1", title, checks, blocked=why)
        return
    steps = merge_steps(_unplanned(view, n))
    if worse := _worse(context, steps):
        why = f"without it another thing stands in the way first: {worse[0].message}"
        yield RepairOffer("R-OFF-1", title, checks, blocked=why)
        return
    yield RepairOffer(
        "R-OFF-1", title, checks, steps, tuple(_replan_words(view, n)), needs_confirmation=view.output is None
    )


def _replan_words(view: CheckpointView, n: int) -> Iterator[str]:
    yield (
        f"batch {n} may hold more input than before: a sink that took a part of it and knows batches by their "
        "number gets other rows under the same number"
    )
    if view.output is None:
        yield (
            "if the query writes files (parquet, json, csv, text, orc): give --output PATH instead of the "
            f"confirmation. A file sink that has batch {n} already skips the new one: its rows would be lost"
        )


def _unplanned(view: CheckpointView, n: int) -> Iterator[Step]:
    """Batch n as if nobody had begun it: the state that it wrote, a snapshot above all, must not be met later."""
    before = view.offset_entry(n - 1) if n else None
    last = before if isinstance(before, OffsetEntry) else None
    yield from truncation.truncation_steps(
        view, CutPoint(offsets=n, commits=n, state=n, last=last), sources=last is not None
    )


_PLANS = (
    "log.offset-unreadable",
    "log.offset-previous-missing",
    "state.repartition-unfinished",
    "src.offset-regressed",
    "src.count-changed-in-log",
    "src.file-log-behind-offset",
)


def _of_newest(finding: Finding, view: CheckpointView) -> bool:
    """Whether the finding is about the newest entry: of a lost one before it, a stray newest is the cause."""
    file = finding.evidence.get("file")
    return file is None or file == f"offsets/{view.planned}"


def lost_snapshot(context: RepairContext) -> Iterator[RepairOffer]:
    """R-STATE-2: a snapshot is damaged, and the change files make up for it; before 4.1 Spark does not see that."""
    found = context.found(*STATE_LOST, "state.sst-block-corrupt")
    view = context.view
    paths = [
        file.path
        for store in _stores(view)
        for file in store.of("zip", "snapshot")
        if _damaged(view, store, file)
    ]
    if not found or not paths:
        return
    steps = tuple(removal_steps(view.inventory, CHECKPOINT, paths))
    if any(f.check.startswith("state.") for f in _stopping(context, steps)):
        return
    title = f"take {plural(len(paths), 'damaged snapshot')} away: the change files hold the same state"
    checks = tuple(dict.fromkeys(f.check for f in found))
    yield RepairOffer(
        "R-STATE-2", title, checks, steps, ("no state and no row is lost; the next load takes longer",)
    )


def _damaged(view: CheckpointView, store: Store, file: StateFile) -> bool:
    return view.loader.fault_of_snapshot(store, file) is not None


def lost_state(context: RepairContext) -> Iterator[RepairOffer]:
    """R-STATE-1: the newest version of the state is lost; the last batch runs again and writes it."""
    view, k = context.view, context.view.committed
    found = context.found(*STATE_LOST)
    if not found or k is None or next(lost_snapshot(context), None):
        return
    checks = tuple(dict.fromkeys(f.check for f in found))
    title = f"run batch {k} again: it writes state version {k + 1}, which is lost"
    try:
        steps = merge_steps(_replay(context, view, k))
    except Impossible as error:
        yield RepairOffer("R-STATE-1", title, checks, needs_confirmation=True, blocked=str(error))
        return
    rest = [f for f in _stopping(context, steps) if f.check.startswith("state.")]
    if rest:
        why = f"version {k} cannot be loaded either ({rest[0].message}): restore the files, or rewind further"
        yield RepairOffer("R-STATE-1", title, checks, needs_confirmation=True, blocked=why)
        return
    yield RepairOffer(
        "R-STATE-1", title, checks, steps, tuple(_replay_words(view, k)), needs_confirmation=True
    )


def _replay(context: RepairContext, view: CheckpointView, k: int) -> Iterator[Step]:
    entry = view.offset_entry(k)
    if not isinstance(entry, OffsetEntry):
        raise Impossible(f"offsets/{k}, which the batch would run with, cannot be read")
    if k > 0 and k - 1 not in view.offsets.batches:
        raise Impossible(f"offsets/{k - 1} is not there: Spark opens it to run batch {k} again")
    if context.survey.output is not None and view.sink is not None:
        yield from truncation.cut_sink(context.survey.output, view.sink, k, data=False)
    yield from truncation.truncation_steps(view, CutPoint(offsets=k + 1, commits=k, state=k, last=entry))


def _replay_words(view: CheckpointView, k: int) -> Iterator[str]:
    lost = [batch for batch in view.offsets.batches if batch > k]
    yield f"batch {k} runs again with the same input" + (
        f", then what batch {lost[0]} had planned" if lost else ""
    )
    if view.sink is not None and view.sink.newest is not None:
        yield f"the file sink forgets batch {k} and writes it anew: Spark's readers see each row once"
        return
    yield (
        "if the query writes files (parquet, json, csv, text, orc): give --output PATH, or the sink skips the batch "
        "without running it and the state stays lost"
    )
    yield f"any other sink gets batch {k} again: foreachBatch under the same number, Kafka and foreach as new rows"


def lost_schema(context: RepairContext) -> Iterator[RepairOffer]:
    """R-STATE-3: a schema file of the state is damaged; Spark writes it anew, without comparing once."""
    found = context.found("state.schema-unreadable")
    paths = [str(f.evidence["file"]) for f in found if f.evidence.get("file")]
    if paths:
        steps = tuple(removal_steps(context.survey.checkpoint, CHECKPOINT, paths))
        told = ("at the next start Spark does not compare the schema: only if the query did not change",)
        title = "take the damaged schema of the state away: Spark writes it anew"
        yield RepairOffer(
            "R-STATE-3", title, ("state.schema-unreadable",), steps, told, needs_confirmation=True
        )


def lost_commit(context: RepairContext) -> Iterator[RepairOffer]:
    """R-COM-2: the newest commit is damaged; its watermark is in the batch after it, or there never was one."""
    view, k = context.view, context.view.committed
    found = context.found("log.commit-unreadable")
    if not found or k is None:
        return
    title = f"write commits/{k} anew"
    watermark = _watermark(view, k)
    if watermark is None or any(file.id for store in _stores(view) for file in store.files):
        why = "its watermark, or the ids of the state, cannot be told from the disk: restore it from a backup"
        yield RepairOffer("R-COM-2", title, ("log.commit-unreadable",), blocked=why)
        return
    content = f'v1\n{{"nextBatchWatermarkMs":{watermark}}}'.encode()
    steps = tuple(write_steps(view.inventory, CHECKPOINT, f"commits/{k}", content))
    yield RepairOffer(
        "R-COM-2", title, ("log.commit-unreadable",), steps, (f"the watermark is {watermark} ms",)
    )


def _stores(view: CheckpointView) -> Iterator[Store]:
    return (store for operator in view.operators for store in operator.stores.values())


def _watermark(view: CheckpointView, k: int) -> int | None:
    """The watermark after batch k: in the entry of batch k + 1; 0 where no batch had one and no state is kept."""
    following = view.offset_entry(k + 1)
    if isinstance(following, OffsetEntry):
        return following.watermark_ms
    own = view.offset_entry(k)
    return 0 if isinstance(own, OffsetEntry) and own.watermark_ms == 0 and not view.stateful else None


#: In the order in which they are tried; each sees the outcome of those before it.
REPAIRS: tuple[Repair, ...] = (lost_plan, lost_snapshot, lost_state, lost_commit, lost_id, lost_schema)
REPAIR_IDS = ("R-OFF-1", "R-STATE-2", "R-STATE-1", "R-COM-2", "R-META-1", "R-STATE-3")
STATE_LOST = ("state.version-file-missing", "state.version-file-corrupt", "state.checksum-failed")


@dataclass(frozen=True)
class Diagnosis:
    """Repairs that will be done, offers that wait or are blocked, and the findings that no repair is known for.

    `rewind_to`: where repairs are not enough, the newest batch that a rewind could lead to.
    """

    selected: tuple[RepairOffer, ...]
    offers: tuple[RepairOffer, ...]
    plan: RepairPlan | None
    unresolved: tuple[Finding, ...]
    rewind_to: int | None = None


def diagnose(context: RepairContext, confirmed: Iterable[str] = ()) -> Diagnosis:
    """Offers for what the doctor found; the plan has those that ask for nothing, and those confirmed."""
    agreed = set(confirmed)
    taken: list[RepairOffer] = []
    for _ in range(MAX_ROUNDS):
        offers = [offer for offer in _offers(context) if _key(offer) not in map(_key, taken)]
        selected = next((o for o in offers if o.steps and (not o.needs_confirmation or o.id in agreed)), None)
        if selected is None:
            break
        taken.append(selected)
        survey = apply_steps(context.survey, selected.steps)
        context = RepairContext(
            survey, context.target, rewind_plan.analyze_survey(survey, context.target), context.query_id
        )
    known = {check for offer in offers for check in offer.checks}
    unresolved = tuple(
        f for f in context.verdict.findings if f.severity is not Severity.INFO and f.check not in known
    )
    broken = any(f.effect is RestartEffect.FAILS for f in context.verdict.findings)
    back = rewind_plan.newest_possible(context.survey, context.target) if broken else None
    return Diagnosis(tuple(taken), tuple(offers), _plan(taken), unresolved, back)


def _key(offer: RepairOffer) -> tuple[str, str]:
    """One kind of repair may be needed for two batches."""
    return offer.id, offer.title


def _offers(context: RepairContext) -> Iterator[RepairOffer]:
    for repair in REPAIRS:
        yield from repair(context)


def _plan(taken: list[RepairOffer]) -> RepairPlan | None:
    if not taken:
        return None
    return RepairPlan(
        "repair",
        "; ".join(f"{offer.id}: {offer.title}" for offer in taken),
        merge_steps(step for offer in taken for step in offer.steps),
        tuple(line for offer in taken for line in offer.consequences),
    )


def _worse(context: RepairContext, steps: Iterable[Step]) -> list[Finding]:
    """What would stop the start afterwards, and does not now."""
    now = {f.check for f in context.verdict.findings if f.effect is RestartEffect.FAILS}
    return [f for f in _stopping(context, steps) if f.check not in now]


def _stopping(context: RepairContext, steps: Iterable[Step]) -> list[Finding]:
    survey = apply_steps(context.survey, steps)
    found = rewind_plan.analyze_survey(survey, context.target).findings
    return [f for f in found if f.severity is Severity.ERROR and f.effect is RestartEffect.FAILS]
