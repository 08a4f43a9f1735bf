"""The checkpoint analyzer: runs every check on an inventory and gives one report. Pure.

The inventory's `collected_at` serves as the present time.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator

from controlplane.checkpoints.checks import history as history_checks
from controlplane.checkpoints.checks import logs, replays, settings, sink, sources, state, state_identity
from controlplane.checkpoints.findings import (
    START,
    CheckpointReport,
    Finding,
    ReportStatus,
    RestartEffect,
    Severity,
    plural,
    status_of,
    worst_first,
)
from controlplane.checkpoints.inventory.model import Inventory
from controlplane.checkpoints.reading.checkpoint import SINK_LOG, CheckpointView, KnownHistory, writer_version
from controlplane.checkpoints.reading.versions import LATEST, SparkVersion

Check = Callable[[CheckpointView], Iterator[Finding]]

#: Every check, in the order in which Spark would meet the faults.
CHECKS: tuple[Check, ...] = (
    logs.metadata,
    logs.entries,
    logs.order,
    logs.previous,
    logs.folders,
    logs.side_files,
    logs.orphaned_sums,
    logs.leftovers,
    replays.in_flight,
    settings.pinned,
    settings.missing,
    settings.watermark_policy,
    settings.provider,
    settings.versions,
    settings.future_watermark,
    sources.kept,
    sources.start_times,
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
    history_checks.changed_ends,
    history_checks.rebuildable,
    history_checks.ahead,
    history_checks.behind,
    history_checks.watermark,
    history_checks.disallowed_changes,
    history_checks.unknown,
)
AGAIN = "inspect the checkpoint again; the driver or the file system did not answer in time"
PARTS = ("metadata", "offsets", "commits", "sources", "state")


def analyze(
    inventory: Inventory,
    target: SparkVersion | None = None,
    *,
    history: KnownHistory | None = None,
    output: Inventory | None = None,
    inputs: Iterable[Inventory] = (),
) -> CheckpointReport:
    """Report what a restart from this checkpoint will do. Never raises because of the files' contents.

    target: the Spark that will start; None: the one that wrote the checkpoint, else the newest known.
    output: inventory of a file sink's output. inputs: inventories of input folders.
    """
    writer = writer_version(inventory)
    chosen = target or writer or LATEST
    view = CheckpointView(inventory, chosen, history or KnownHistory(), output, tuple(inputs))
    unreadable = _unreadable(inventory)
    findings = (*unreadable, *sink.ahead(view)) if unreadable else tuple(_run_checks(view))
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


def _run_checks(view: CheckpointView) -> Iterator[Finding]:
    for check in CHECKS:
        yield from check(view)
    yield from _incomplete(view.inventory)


def _unreadable(inventory: Inventory) -> tuple[Finding, ...]:
    """The finding that explains why there is no checkpoint to analyze; empty where there is one."""
    if inventory.errors and not inventory.entries:
        return (_stop("ckpt.unreadable", f"The checkpoint cannot be listed: {inventory.errors[0]}."),)
    if not inventory.exists:
        return (
            _stop("ckpt.missing", "There is nothing at this path. A query started on it begins at batch 0."),
        )
    if (output := _sink_output(inventory)) is not None:
        message = f"This belongs to the output of a file sink, {output}. It is not a checkpoint."
        step = f"name the query's checkpoint: controlplane doctor CHECKPOINT --output {shlex.quote(output)}"
        return (_stop("ckpt.not-a-checkpoint", message, step),)
    if not inventory.complete and not (inventory.names("offsets") and inventory.names("commits")):
        return (
            _stop(
                "ckpt.unreadable",
                "The listing was cut, and it shows no batch in offsets/ or in commits/.",
                AGAIN,
            ),
        )
    if not any(part in inventory.names("") for part in PARTS):
        return (
            _stop(
                "ckpt.not-a-checkpoint",
                "The folder has no metadata, offsets/, commits/, sources/ or state/, so it is not a checkpoint.",
            ),
        )
    return ()


def _sink_output(inventory: Inventory) -> str | None:
    """The output folder of a file sink, where the inventory is of that folder or of the sink's log in it."""
    if any(part in inventory.names("") for part in PARTS):
        return None
    folder, _, name = inventory.root.rstrip("/").rpartition("/")
    if name == SINK_LOG:
        return folder or "/"
    return inventory.root if inventory.is_folder(SINK_LOG) else None


def _stop(
    check: str,
    message: str,
    step: str = "check the path: it must be the folder given as checkpointLocation",
) -> Finding:
    return Finding(check, Severity.ERROR, RestartEffect.NONE, message, {}, START, "", (step,))


def _incomplete(inventory: Inventory) -> Iterator[Finding]:
    """`ckpt.unreadable-part`, `ckpt.listing-cut`: parts that no check has seen."""
    if inventory.errors:
        message = f"{plural(len(inventory.errors), 'part')} could not be read, first {inventory.errors[0]}. They are not checked."
        evidence = {"errors": list(inventory.errors[:10])}
        yield Finding("ckpt.unreadable-part", Severity.WARNING, RestartEffect.LATER, message, evidence)
    if not inventory.complete:
        message = "The listing is incomplete, so missing files are not reported."
        yield Finding(
            "ckpt.listing-cut",
            Severity.WARNING,
            RestartEffect.LATER,
            message,
            {"listed": len(inventory.entries)},
        )
