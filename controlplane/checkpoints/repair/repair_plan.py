"""Repairs: what can be mended in a checkpoint so that it starts again, from what the doctor found. Pure.

An offer has steps where they were seen to work and lose nothing; else it is advice, to be followed by hand.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from controlplane.checkpoints.findings import CheckpointReport, Finding, RestartEffect, Severity, counted
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
    after,
    merged,
    removals,
    writing,
)
from controlplane.checkpoints.repair.truncation import Cut
from controlplane.checkpoints.survey import Survey

#: Repairs that build on one another: a lost id beside lost state, say.
MOST_ROUNDS = 5


@dataclass(frozen=True)
class Offer:
    """One repair for some of the findings. Without steps it is advice: `blocked` says why nothing is offered.

    `asks`: it delivers a batch again or trusts the user's word, so it is done on confirmation only.
    """

    id: str
    title: str
    checks: tuple[str, ...]
    steps: tuple[Step, ...] = ()
    consequences: tuple[str, ...] = ()
    asks: bool = False
    blocked: str = ""

    def as_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "title": self.title,
            "checks": list(self.checks),
            "needs_confirmation": self.asks,
            "possible": bool(self.steps),
            "blocked": self.blocked or None,
            "consequences": list(self.consequences),
        }


@dataclass(frozen=True)
class RepairContext:
    """What a repair decides on."""

    held: Survey
    target: SparkVersion
    verdict: CheckpointReport
    query_id: str | None = None

    @property
    def question(self) -> CheckpointView:
        return rewind_plan.question(self.held, self.target)

    def found(self, *checks: str) -> list[Finding]:
        """Findings of these checks that speak against a start; a lost id does so under an older Spark too."""
        found = [f for f in self.verdict.findings if f.check in checks]
        return [f for f in found if f.severity is not Severity.INFO or f.check == "meta.missing"]


Repair = Callable[[RepairContext], Iterator[Offer]]


def lost_id(case: RepairContext) -> Iterator[Offer]:
    """R-META-1: the id in `metadata` is gone; it is known from history."""
    checks = tuple(f.check for f in case.found("meta.missing", "meta.unreadable", "meta.bad-id"))
    if not checks:
        return
    title = "write the query's id into metadata"
    if case.query_id is None:
        why = "the id is not known here: give --query-id (logs and progress events of the query name it)"
        yield Offer("R-META-1", title, checks, blocked=why)
        return
    content = json.dumps({"id": str(uuid.UUID(case.query_id))}, separators=(",", ":")).encode()
    steps = writing(case.held.checkpoint, CHECKPOINT, "metadata", content)
    told = (f"the query keeps its id {case.query_id}: sinks that know it by that go on where they were",)
    yield Offer("R-META-1", title, checks, tuple(steps), told)


def lost_plan(case: RepairContext) -> Iterator[Offer]:
    """R-OFF-1: the newest entry of the offset log was never committed and stands in the way."""
    q = case.question
    found = [f for f in case.found(*_PLANS) if _of_newest(f, q)]
    if not found or not q.in_flight or q.planned is None:
        return
    n, checks = q.planned, tuple(dict.fromkeys(f.check for f in found))
    title = f"take offsets/{n} away: batch {n} was never committed and is planned anew"
    if q.sink is not None and q.sink.newest is not None and q.sink.newest >= n:
        why = f"the file sink has batch {n} already and would skip the new one: rows would be lost"
        yield Offer("R-OFF-1", title, checks, blocked=why)
        return
    steps = merged(_unplanned(q, n))
    if worse := _worse(case, steps):
        why = f"without it another thing stands in the way first: {worse[0].message}"
        yield Offer("R-OFF-1", title, checks, blocked=why)
        return
    yield Offer("R-OFF-1", title, checks, steps, tuple(_replan_words(q, n)), asks=q.output is None)


def _replan_words(q: CheckpointView, n: int) -> Iterator[str]:
    yield (
        f"batch {n} may hold more input than before: a sink that took a part of it and knows batches by their "
        "number gets other rows under the same number"
    )
    if q.output is None:
        yield (
            "if the query writes files (parquet, json, csv, text, orc): give --output PATH instead of the "
            f"confirmation. A file sink that has batch {n} already skips the new one: its rows would be lost"
        )


def _unplanned(q: CheckpointView, n: int) -> Iterator[Step]:
    """Batch n as if nobody had begun it: the state that it wrote, a snapshot above all, must not be met later."""
    before = q.offset_entry(n - 1) if n else None
    last = before if isinstance(before, OffsetEntry) else None
    yield from truncation.steps(q, Cut(offsets=n, commits=n, state=n, last=last), sources=last is not None)


_PLANS = (
    "log.offset-unreadable",
    "log.offset-previous-missing",
    "state.repartition-unfinished",
    "src.offset-regressed",
    "src.count-changed-in-log",
    "src.file-log-behind-offset",
)


def _of_newest(finding: Finding, q: CheckpointView) -> bool:
    """Whether the finding is about the newest entry: of a lost one before it, a stray newest is the cause."""
    file = finding.evidence.get("file")
    return file is None or file == f"offsets/{q.planned}"


def lost_snapshot(case: RepairContext) -> Iterator[Offer]:
    """R-STATE-2: a snapshot is damaged, and the change files make up for it; before 4.1 Spark does not see that."""
    found = case.found(*STATE_LOST, "state.sst-block-corrupt")
    q = case.question
    paths = [
        file.path for store in _stores(q) for file in store.of("zip", "snapshot") if _damaged(q, store, file)
    ]
    if not found or not paths:
        return
    steps = tuple(removals(q.inventory, CHECKPOINT, paths))
    if any(f.check.startswith("state.") for f in _stopping(case, steps)):
        return
    title = f"take {counted(len(paths), 'damaged snapshot')} away: the change files hold the same state"
    checks = tuple(dict.fromkeys(f.check for f in found))
    yield Offer(
        "R-STATE-2", title, checks, steps, ("no state and no row is lost; the next load takes longer",)
    )


def _damaged(q: CheckpointView, store: Store, file: StateFile) -> bool:
    return q.loader.fault_of_snapshot(store, file) is not None


def lost_state(case: RepairContext) -> Iterator[Offer]:
    """R-STATE-1: the newest version of the state is lost; the last batch runs again and writes it."""
    q, k = case.question, case.question.committed
    found = case.found(*STATE_LOST)
    if not found or k is None or next(lost_snapshot(case), None):
        return
    checks = tuple(dict.fromkeys(f.check for f in found))
    title = f"run batch {k} again: it writes state version {k + 1}, which is lost"
    try:
        steps = merged(_replay(case, q, k))
    except Impossible as error:
        yield Offer("R-STATE-1", title, checks, asks=True, blocked=str(error))
        return
    rest = [f for f in _stopping(case, steps) if f.check.startswith("state.")]
    if rest:
        why = f"version {k} cannot be loaded either ({rest[0].message}): restore the files, or rewind further"
        yield Offer("R-STATE-1", title, checks, asks=True, blocked=why)
        return
    yield Offer("R-STATE-1", title, checks, steps, tuple(_replay_words(q, k)), asks=True)


def _replay(case: RepairContext, q: CheckpointView, k: int) -> Iterator[Step]:
    entry = q.offset_entry(k)
    if not isinstance(entry, OffsetEntry):
        raise Impossible(f"offsets/{k}, which the batch would run with, cannot be read")
    if k > 0 and k - 1 not in q.offsets.batches:
        raise Impossible(f"offsets/{k - 1} is not there: Spark opens it to run batch {k} again")
    if case.held.output is not None and q.sink is not None:
        yield from truncation.cut_sink(case.held.output, q.sink, k, data=False)
    yield from truncation.steps(q, Cut(offsets=k + 1, commits=k, state=k, last=entry))


def _replay_words(q: CheckpointView, k: int) -> Iterator[str]:
    lost = [batch for batch in q.offsets.batches if batch > k]
    yield f"batch {k} runs again with the same input" + (
        f", then what batch {lost[0]} had planned" if lost else ""
    )
    if q.sink is not None and q.sink.newest is not None:
        yield f"the file sink forgets batch {k} and writes it anew: Spark's readers see each row once"
        return
    yield (
        "if the query writes files (parquet, json, csv, text, orc): give --output PATH, or the sink skips the batch "
        "without running it and the state stays lost"
    )
    yield f"any other sink gets batch {k} again: foreachBatch under the same number, Kafka and foreach as new rows"


def lost_schema(case: RepairContext) -> Iterator[Offer]:
    """R-STATE-3: a schema file of the state is damaged; Spark writes it anew, without comparing once."""
    found = case.found("state.schema-unreadable")
    paths = [str(f.evidence["file"]) for f in found if f.evidence.get("file")]
    if paths:
        steps = tuple(removals(case.held.checkpoint, CHECKPOINT, paths))
        told = ("at the next start Spark does not compare the schema: only if the query did not change",)
        title = "take the damaged schema of the state away: Spark writes it anew"
        yield Offer("R-STATE-3", title, ("state.schema-unreadable",), steps, told, asks=True)


def lost_commit(case: RepairContext) -> Iterator[Offer]:
    """R-COM-2: the newest commit is damaged; its watermark is in the batch after it, or there never was one."""
    q, k = case.question, case.question.committed
    found = case.found("log.commit-unreadable")
    if not found or k is None:
        return
    title = f"write commits/{k} anew"
    watermark = _watermark(q, k)
    if watermark is None or any(file.id for store in _stores(q) for file in store.files):
        why = "its watermark, or the ids of the state, cannot be told from the disk: restore it from a backup"
        yield Offer("R-COM-2", title, ("log.commit-unreadable",), blocked=why)
        return
    content = f'v1\n{{"nextBatchWatermarkMs":{watermark}}}'.encode()
    steps = tuple(writing(q.inventory, CHECKPOINT, f"commits/{k}", content))
    yield Offer("R-COM-2", title, ("log.commit-unreadable",), steps, (f"the watermark is {watermark} ms",))


def _stores(q: CheckpointView) -> Iterator[Store]:
    return (store for operator in q.operators for store in operator.stores.values())


def _watermark(q: CheckpointView, k: int) -> int | None:
    """The watermark after batch k: in the entry of batch k + 1; 0 where no batch had one and no state is kept."""
    following = q.offset_entry(k + 1)
    if isinstance(following, OffsetEntry):
        return following.watermark_ms
    own = q.offset_entry(k)
    return 0 if isinstance(own, OffsetEntry) and own.watermark_ms == 0 and not q.stateful else None


#: In the order in which they are tried; each sees the outcome of those before it.
REPAIRS: tuple[Repair, ...] = (lost_plan, lost_snapshot, lost_state, lost_commit, lost_id, lost_schema)
IDS = ("R-OFF-1", "R-STATE-2", "R-STATE-1", "R-COM-2", "R-META-1", "R-STATE-3")
STATE_LOST = ("state.version-file-missing", "state.version-file-corrupt", "state.checksum-failed")


@dataclass(frozen=True)
class Diagnosis:
    """Repairs that will be done, offers that wait or are blocked, and the findings that no repair is known for.

    `rewind_to`: where repairs are not enough, the newest batch that a rewind could lead to.
    """

    chosen: tuple[Offer, ...]
    offers: tuple[Offer, ...]
    plan: RepairPlan | None
    left: tuple[Finding, ...]
    rewind_to: int | None = None


def diagnose(case: RepairContext, confirmed: Iterable[str] = ()) -> Diagnosis:
    """Offers for what the doctor found; the plan has those that ask for nothing, and those confirmed."""
    agreed = set(confirmed)
    taken: list[Offer] = []
    for _ in range(MOST_ROUNDS):
        offers = [offer for offer in _offers(case) if _key(offer) not in map(_key, taken)]
        chosen = next((o for o in offers if o.steps and (not o.asks or o.id in agreed)), None)
        if chosen is None:
            break
        taken.append(chosen)
        held = after(case.held, chosen.steps)
        case = RepairContext(held, case.target, rewind_plan.judged(held, case.target), case.query_id)
    known = {check for offer in offers for check in offer.checks}
    left = tuple(f for f in case.verdict.findings if f.severity is not Severity.INFO and f.check not in known)
    broken = any(f.effect is RestartEffect.FAILS for f in case.verdict.findings)
    back = rewind_plan.newest_possible(case.held, case.target) if broken else None
    return Diagnosis(tuple(taken), tuple(offers), _plan(taken), left, back)


def _key(offer: Offer) -> tuple[str, str]:
    """One kind of repair may be needed for two batches."""
    return offer.id, offer.title


def _offers(case: RepairContext) -> Iterator[Offer]:
    for repair in REPAIRS:
        yield from repair(case)


def _plan(taken: list[Offer]) -> RepairPlan | None:
    if not taken:
        return None
    return RepairPlan(
        "repair",
        "; ".join(f"{offer.id}: {offer.title}" for offer in taken),
        merged(step for offer in taken for step in offer.steps),
        tuple(line for offer in taken for line in offer.consequences),
    )


def _worse(case: RepairContext, steps: Iterable[Step]) -> list[Finding]:
    """What would stop the start afterwards, and does not now."""
    now = {f.check for f in case.verdict.findings if f.effect is RestartEffect.FAILS}
    return [f for f in _stopping(case, steps) if f.check not in now]


def _stopping(case: RepairContext, steps: Iterable[Step]) -> list[Finding]:
    held = after(case.held, steps)
    found = rewind_plan.judged(held, case.target).findings
    return [f for f in found if f.severity is Severity.ERROR and f.effect is RestartEffect.FAILS]
