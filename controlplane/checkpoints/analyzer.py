"""The judge: all checks in one table, one verdict. Pure; `now` is the inventory's `collected_at`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from controlplane.checkpoints.checks import history as memory
from controlplane.checkpoints.checks import logs, replays, settings, sink, sources, state, state_identity
from controlplane.checkpoints.findings import (
    START,
    CheckpointReport,
    Finding,
    ReportStatus,
    RestartEffect,
    Severity,
    status_of,
    worst_first,
)
from controlplane.checkpoints.inventory.model import Inventory
from controlplane.checkpoints.reading.checkpoint import CheckpointView, KnownHistory, writer_version
from controlplane.checkpoints.reading.versions import LATEST, SparkVersion

Check = Callable[[CheckpointView], Iterator[Finding]]

#: Every check, in the order in which Spark would come upon them.
CHECKS: tuple[Check, ...] = (
    logs.metadata,
    logs.entries,
    logs.order,
    logs.previous,
    logs.folders,
    logs.side_files,
    logs.leftovers,
    replays.in_flight,
    settings.pinned,
    settings.missing,
    settings.watermark_policy,
    settings.provider,
    settings.versions,
    settings.future_watermark,
    sources.source_lines,
    sources.offsets,
    sources.file_logs,
    sources.inputs,
    state.state_folder,
    state.repartition,
    state.partitions,
    state.ids,
    state.stores,
    state.blocks,
    state.uneven_versions,
    state.snapshots_ahead,
    state_identity.operator_metadata,
    state_identity.operator_names,
    state_identity.schemas,
    state_identity.schema_paths,
    state_identity.cloned_partitions,
    sink.ahead,
    sink.holes,
    sink.data_files,
    memory.changed_ends,
    memory.rebuildable,
    memory.ahead,
    memory.behind,
    memory.watermark,
    memory.disallowed_changes,
    memory.unknown,
)
PARTS = ("metadata", "offsets", "commits", "sources", "state")


def analyze(
    inventory: Inventory,
    target: SparkVersion | None = None,
    *,
    history: KnownHistory | None = None,
    output: Inventory | None = None,
    inputs: Iterable[Inventory] = (),
) -> CheckpointReport:
    """What a restart from this checkpoint will do. Never raises over what the files hold.

    target: the Spark that will start; None: the one that wrote the checkpoint, else the newest known.
    output: the listing of a file sink's output. inputs: listings of input folders. Both as inventories.
    """
    writer = writer_version(inventory)
    chosen = target or writer or LATEST
    view = CheckpointView(inventory, chosen, history or KnownHistory(), output, tuple(inputs))
    unreadable = _unreadable(inventory)
    findings = (*unreadable, *sink.ahead(view)) if unreadable else tuple(_found(view))
    return CheckpointReport(
        checkpoint=inventory.root,
        verdict=ReportStatus.UNREADABLE if unreadable else status_of(findings),
        query_id=logs.query_id(view),
        spark_version=None if writer is None else inventory.spark_version or f"{writer.major}.{writer.minor}",
        target_spark=str(chosen),
        last_planned_batch=view.planned,
        last_committed_batch=view.committed,
        next_batch=None if unreadable else view.next_batch,
        findings=worst_first(findings),
    )


def _found(view: CheckpointView) -> Iterator[Finding]:
    for check in CHECKS:
        yield from check(view)
    yield from _incomplete(view.inventory)


def _unreadable(inventory: Inventory) -> tuple[Finding, ...]:
    """Why there is nothing to judge."""
    if inventory.errors and not inventory.entries:
        return (_stop("ckpt.unreadable", f"it cannot be listed: {inventory.errors[0]}"),)
    if not inventory.exists:
        return (
            _stop("ckpt.missing", "there is nothing at this path: a query started on it begins at batch 0"),
        )
    if not any(part in inventory.names("") for part in PARTS):
        return (
            _stop(
                "ckpt.not-a-checkpoint", "there is no metadata, offsets/, commits/, sources/ or state/ in it"
            ),
        )
    return ()


def _stop(check: str, message: str) -> Finding:
    remedy = ("look at the path: it must be the folder given as checkpointLocation",)
    return Finding(check, Severity.ERROR, RestartEffect.NONE, message, {}, START, "", remedy)


def _incomplete(inventory: Inventory) -> Iterator[Finding]:
    """What was not looked at cannot be called good."""
    if inventory.errors:
        message = f"{len(inventory.errors)} parts could not be read, first: {inventory.errors[0]}"
        evidence = {"errors": list(inventory.errors[:10])}
        yield Finding("ckpt.unreadable-part", Severity.WARNING, RestartEffect.LATER, message, evidence)
    if not inventory.complete:
        message = "there are more files than are listed; nothing is called missing"
        yield Finding(
            "ckpt.listing-cut",
            Severity.WARNING,
            RestartEffect.LATER,
            message,
            {"listed": len(inventory.entries)},
        )
