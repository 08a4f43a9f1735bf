"""Repairs of a checkpoint that does not start, chosen by the doctor's findings. Pure.

An offer has steps where tests on Spark showed that they work; else it explains why no repair is possible.
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

#: Repairs may depend on one another, such as a lost id beside lost state; this many are combined.
MAX_ROUNDS = 5


@dataclass(frozen=True)
class RepairOffer:
    """A repair for some of the findings. Without steps it is not possible, and `blocked` gives the reason.

    `needs_confirmation`: it delivers a batch again or relies on the user, so it needs --confirm.
    """

    id: str
    title: str
    checks: tuple[str, ...]
    steps: tuple[Step, ...] = ()
    consequences: tuple[str, ...] = ()
    needs_confirmation: bool = False
    blocked: str = ""

    def as_json(self) -> dict[str, Any]:
        """The document that `repair --json` prints."""
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
    """The input of every repair: survey, target Spark, report, and the query id where it is known."""

    survey: Survey
    target: SparkVersion
    verdict: CheckpointReport
    query_id: str | None = None

    @property
    def view(self) -> CheckpointView:
        """The analyzer's view of the survey."""
        return rewind_plan.view_of(self.survey, self.target)

    def found(self, *checks: str) -> list[Finding]:
        """Findings of these checks, without notes; a lost id counts although an older Spark only notes it."""
        found = [f for f in self.verdict.findings if f.check in checks]
        return [f for f in found if f.severity is not Severity.INFO or f.check == "meta.missing"]


Repair = Callable[[RepairContext], Iterator[RepairOffer]]


def lost_id(context: RepairContext) -> Iterator[RepairOffer]:
    """R-META-1: `metadata` lost the query id, which is known from elsewhere."""
    checks = tuple(f.check for f in context.found("meta.missing", "meta.unreadable", "meta.bad-id"))
    if not checks:
        return
    title = "write the query's id into metadata"
    if context.query_id is None:
        why = "the query id is not known: give --query-id (the query's logs and progress events name it)"
        yield RepairOffer("R-META-1", title, checks, blocked=why)
        return
    content = json.dumps({"id": str(uuid.UUID(context.query_id))}, separators=(",", ":")).encode()
    steps = write_steps(context.survey.checkpoint, CHECKPOINT, "metadata", content)
    consequences = (f"the query keeps its id {context.query_id}, so sinks that track it continue correctly",)
    yield RepairOffer("R-META-1", title, checks, tuple(steps), consequences)


def lost_plan(context: RepairContext) -> Iterator[RepairOffer]:
    """R-OFF-1: the newest entry of the offset log was never committed and blocks the start."""
    view = context.view
    found = [f for f in context.found(*_PLANS) if _of_newest(f, view)]
    if not found or not view.in_flight or view.planned is None:
        return
    n, checks = view.planned, tuple(dict.fromkeys(f.check for f in found))
    title = f"remove offsets/{n}: batch {n} was never committed and is planned again"
    if view.sink is not None and view.sink.newest is not None and view.sink.newest >= n:
        why = f"the file sink already has batch {n} and would skip the new one, so rows would be lost"
        yield RepairOffer("R-OFF-1", title, checks, blocked=why)
        return
    steps = merge_steps(_unplanned(view, n))
    if worse := _worse(context, steps):
        why = f"without the entry another fault blocks the start: {worse[0].message}"
        yield RepairOffer("R-OFF-1", title, checks, blocked=why)
        return
    yield RepairOffer(
        "R-OFF-1",
        title,
        checks,
        steps,
        tuple(_replan_consequences(view, n)),
        needs_confirmation=view.output is None,
    )


def _replan_consequences(view: CheckpointView, n: int) -> Iterator[str]:
    yield (
        f"batch {n} may hold more input than before: a sink that took a part of it and tracks batch numbers "
        "gets other rows under the same number"
    )
    if view.output is None:
        yield (
            "if the query writes files (parquet, json, csv, text, orc): give --output PATH instead of the "
            f"confirmation. A file sink that already has batch {n} skips the new one, so its rows would be lost"
        )


def _unplanned(view: CheckpointView, n: int) -> Iterator[Step]:
    """Remove batch n with the state that it wrote: a leftover snapshot would be loaded later."""
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
    """Whether the finding is about the newest entry, or about a lost previous one that a stray newest causes."""
    file = finding.evidence.get("file")
    return file is None or file == f"offsets/{view.planned}"


def lost_snapshot(context: RepairContext) -> Iterator[RepairOffer]:
    """R-STATE-2: a snapshot is damaged but the change files hold the same state; Spark before 4.2 does not use them."""
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
    if any(f.check.startswith("state.") for f in _blocking(context, steps)):
        return
    title = f"remove {plural(len(paths), 'damaged snapshot')}: the change files hold the same state"
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
    rest = [f for f in _blocking(context, steps) if f.check.startswith("state.")]
    if rest:
        why = f"version {k} cannot be loaded either ({rest[0].message.rstrip('.')}): restore the files, or rewind further"
        yield RepairOffer("R-STATE-1", title, checks, needs_confirmation=True, blocked=why)
        return
    yield RepairOffer(
        "R-STATE-1", title, checks, steps, tuple(_replay_consequences(view, k)), needs_confirmation=True
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


def _replay_consequences(view: CheckpointView, k: int) -> Iterator[str]:
    lost = [batch for batch in view.offsets.batches if batch > k]
    yield f"batch {k} runs again with the same input" + (
        f", then the input that batch {lost[0]} had planned" if lost else ""
    )
    if view.sink is not None and view.sink.newest is not None:
        yield f"the file sink forgets batch {k} and writes it again; Spark's readers see each row once"
        return
    yield (
        "if the query writes files (parquet, json, csv, text, orc): give --output PATH, or the sink skips the batch "
        "without running it, and the state stays lost"
    )
    yield f"other sinks get batch {k} again: foreachBatch under the same number, Kafka and foreach as new rows"


def lost_schema(context: RepairContext) -> Iterator[RepairOffer]:
    """R-STATE-3: a schema file of the state is damaged; Spark rewrites it and skips one comparison."""
    found = context.found("state.schema-unreadable")
    paths = [str(f.evidence["file"]) for f in found if f.evidence.get("file")]
    if paths:
        steps = tuple(removal_steps(context.survey.checkpoint, CHECKPOINT, paths))
        consequences = (
            "the next start does not compare the schema: repair only if the query did not change",
        )
        title = "remove the damaged schema of the state: Spark rewrites it"
        yield RepairOffer(
            "R-STATE-3", title, ("state.schema-unreadable",), steps, consequences, needs_confirmation=True
        )


def lost_commit(context: RepairContext) -> Iterator[RepairOffer]:
    """R-COM-2: the newest commit is damaged; its watermark is in the next offset entry, or none was ever set."""
    view, k = context.view, context.view.committed
    found = context.found("log.commit-unreadable")
    if not found or k is None:
        return
    title = f"rewrite commits/{k}"
    watermark = _watermark(view, k)
    if watermark is None or any(file.id for store in _stores(view) for file in store.files):
        why = "its watermark, or the ids of the state, are not known from the files: restore it from a backup"
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
    """The watermark (ms) after batch k: from the entry of batch k + 1; 0 for a stateless query that never had one."""
    following = view.offset_entry(k + 1)
    if isinstance(following, OffsetEntry):
        return following.watermark_ms
    own = view.offset_entry(k)
    return 0 if isinstance(own, OffsetEntry) and own.watermark_ms == 0 and not view.stateful else None


#: Repairs in the order in which they are tried; each sees the outcome of the previous ones.
REPAIRS: tuple[Repair, ...] = (lost_plan, lost_snapshot, lost_state, lost_commit, lost_id, lost_schema)
REPAIR_IDS = ("R-OFF-1", "R-STATE-2", "R-STATE-1", "R-COM-2", "R-META-1", "R-STATE-3")
STATE_LOST = ("state.version-file-missing", "state.version-file-corrupt", "state.checksum-failed")


@dataclass(frozen=True)
class Diagnosis:
    """The selected repairs with their plan, the other offers, and the findings without a repair.

    `rewind_to`: where repairs do not suffice, the newest batch to which a rewind is possible.
    """

    selected: tuple[RepairOffer, ...]
    offers: tuple[RepairOffer, ...]
    plan: RepairPlan | None
    unresolved: tuple[Finding, ...]
    rewind_to: int | None = None


def diagnose(context: RepairContext, confirmed: Iterable[str] = ()) -> Diagnosis:
    """Offer repairs for the findings. The plan holds those that need no confirmation and the `confirmed` ids."""
    confirmed_ids = set(confirmed)
    selected_offers: list[RepairOffer] = []
    for _ in range(MAX_ROUNDS):
        offers = [offer for offer in _offers(context) if _key(offer) not in map(_key, selected_offers)]
        selected = next(
            (o for o in offers if o.steps and (not o.needs_confirmation or o.id in confirmed_ids)), None
        )
        if selected is None:
            break
        selected_offers.append(selected)
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
    return Diagnosis(tuple(selected_offers), tuple(offers), _plan(selected_offers), unresolved, back)


def _key(offer: RepairOffer) -> tuple[str, str]:
    """Identifies an offer; one repair id may apply to two batches."""
    return offer.id, offer.title


def _offers(context: RepairContext) -> Iterator[RepairOffer]:
    for repair in REPAIRS:
        yield from repair(context)


def _plan(selected_offers: list[RepairOffer]) -> RepairPlan | None:
    if not selected_offers:
        return None
    return RepairPlan(
        "repair",
        "; ".join(f"{offer.id}: {offer.title}" for offer in selected_offers),
        merge_steps(step for offer in selected_offers for step in offer.steps),
        tuple(line for offer in selected_offers for line in offer.consequences),
    )


def _worse(context: RepairContext, steps: Iterable[Step]) -> list[Finding]:
    """Findings that would make the start fail after the steps and do not now."""
    now = {f.check for f in context.verdict.findings if f.effect is RestartEffect.FAILS}
    return [f for f in _blocking(context, steps) if f.check not in now]


def _blocking(context: RepairContext, steps: Iterable[Step]) -> list[Finding]:
    survey = apply_steps(context.survey, steps)
    found = rewind_plan.analyze_survey(survey, context.target).findings
    return [f for f in found if f.severity is Severity.ERROR and f.effect is RestartEffect.FAILS]
