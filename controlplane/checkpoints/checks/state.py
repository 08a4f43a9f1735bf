"""Checks of state: whether every store of every partition can load the version that the next batch needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from controlplane.checkpoints.checks.logs import BACKUP
from controlplane.checkpoints.findings import (
    FIRST_BATCH,
    Finding,
    note,
    plural,
    restart_fails,
    results_change,
)
from controlplane.checkpoints.reading import logs
from controlplane.checkpoints.reading.checkpoint import CheckpointView
from controlplane.checkpoints.reading.state_loading import (
    HDFS,
    ROCKSDB,
    Fault,
    FaultKind,
    LoadResult,
    damaged_blocks,
)
from controlplane.checkpoints.reading.state_tree import DEFAULT_STORE, StateFile, StateOperator, Store
from controlplane.checkpoints.remedies import repair_command, rewind_command

MAX_NAMED = 10
MISSING_STATE = "STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY"
IF_STATEFUL = "If the query is stateful, its restart fails. If not, ignore this finding."
INFERRED = {"likely": True, "if": "it is stateful"}
RESTORE = "restore the named files from a backup"
#: Spark creates the entries of a checkpoint's root with the first batch; a later change is not Spark's.
LATE_SECONDS = 60.0
OWN_ENTRIES = {"metadata", "offsets", "commits", "sources", "state", ".metadata.crc"}


def state_folder(view: CheckpointView) -> Iterator[Finding]:
    """`state.dir-missing`: a stateful query without state/. `likely`: that it is stateful is inferred."""
    if view.next_batch == 0 or view.stateful or not view.inventory.complete or view.planned is None:
        return
    condition = MISSING_STATE if view.target.since(4, 2) else ""
    remedy = ("restore state/ from a backup", "or start on a new checkpoint and rebuild the state")
    for message, evidence in _missing_state(view):
        yield restart_fails("state.dir-missing", message, condition=condition, remedy=remedy, **evidence)


def _missing_state(view: CheckpointView) -> Iterator[tuple[str, dict[str, Any]]]:
    """The message and evidence of missing state; nothing where the query seems to be stateless."""
    if view.inventory.is_folder("state") or view.history.stateful:
        yield "The query is stateful, but state/ is missing or empty. A restart fails.", {}
    elif view.history.stateful is False:
        return  # its reports name no stateful operator
    elif (seconds := _changed_late(view)) is not None:
        message = f"The checkpoint's root was changed {seconds:.0f} s after the last batch, and only state/ is missing."
        yield f"{message} {IF_STATEFUL}", {**INFERRED, "seconds": seconds}
    elif view.last is not None and view.last.watermark_ms > 0 and not view.is_intact(""):
        message = f"state/ is missing although the log has a watermark. {IF_STATEFUL}"
        yield message, {**INFERRED, "watermark_ms": view.last.watermark_ms}


def _changed_late(view: CheckpointView) -> float | None:
    """Seconds from the newest file to the last change of the root folder; None where something else explains it."""
    inventory = view.inventory
    names, root = set(inventory.names("")), inventory.root_modified
    times = [e.modified for e in inventory.entries.values() if not e.folder and e.modified is not None]
    # Another missing entry may be the one that was removed.
    if not times or root is None or not {"metadata", "offsets", "commits", "sources"} <= names:
        return None
    newest = max(times)
    hidden = any(name.endswith(".crc") for name in inventory.names("offsets"))
    foreign = bool(names - OWN_ENTRIES) or (hidden and ".metadata.crc" not in names)
    # A copy that keeps the times of files but not of folders gives all folders a new time.
    copied = any(e.folder and (e.modified or 0) >= newest + LATE_SECONDS for e in inventory.entries.values())
    return None if foreign or copied or root < newest + LATE_SECONDS else root - newest


def partitions(view: CheckpointView) -> Iterator[Finding]:
    """`state.partition-missing`, `state.more-partitions-than-conf`, `state.partition-count-mismatch`."""
    wanted = view.last.partitions if view.last else None
    if wanted is None or view.next_batch == 0 or not view.inventory.complete:
        return
    for operator in view.operators:
        held = {store.partition for store in operator.stores.values() if store.files}
        yield from _lost_partitions(view, operator, held, wanted)
        beyond = [p for p in sorted(held) if p >= wanted and _is_current(view, operator, p)]
        if beyond:
            message = f"Operator {operator.number} has {max(held) + 1} partitions, offsets/{view.planned} pins {wanted}."
            remedy = (
                BACKUP,
                f"set {logs.PARTITIONS} in offsets/{view.planned} back to {max(held) + 1}",
            )
            yield results_change(
                "state.more-partitions-than-conf",
                f"{message} The keys of the other partitions are lost.",
                partitions=max(held) + 1,
                pinned=wanted,
                remedy=remedy,
            )
        recorded = operator.metadata.partitions if operator.metadata else None
        if recorded is not None and recorded != wanted and not beyond:
            message = f"The metadata of operator {operator.number} records {recorded} partitions, the log pins {wanted}."
            yield note("state.partition-count-mismatch", message, metadata=recorded, pinned=wanted)


def _is_current(view: CheckpointView, operator: StateOperator, partition: int) -> bool:
    """Whether the newest batches still wrote a partition; a repartition leaves older ones behind."""
    stores = [store for (p, _), store in operator.stores.items() if p == partition]
    return any((store.newest or 0) >= view.next_batch for store in stores)


def _lost_partitions(
    view: CheckpointView, operator: StateOperator, held: set[int], wanted: int
) -> Iterator[Finding]:
    lost = [p for p in range(min(wanted, 1_000_000)) if p not in held]
    only_first = held == {0} and len(lost) == wanted - 1
    if not lost or (only_first and operator.keyless) or unfinished_repartition(view):
        return
    message = f"Operator {operator.number} has no state files for {len(lost)} of {wanted} partitions."
    if only_first and operator.keyless is None:
        message += " That is correct only for an aggregation without a grouping key."
        yield results_change("state.partition-missing", message, partitions=lost[:MAX_NAMED])
        return
    remedy = (RESTORE, "a rerun of the last batch cannot restore a whole partition")
    yield restart_fails(
        "state.partition-missing",
        message,
        condition=_condition(view, FaultKind.MISSING),
        partitions=lost[:MAX_NAMED],
        pinned=wanted,
        remedy=remedy,
    )


def unfinished_repartition(view: CheckpointView) -> bool:
    """Whether the uncommitted batch has the offsets of the one before it and another number of partitions."""
    last, previous = view.last, view.previous
    if not view.in_flight or last is None or previous is None or last.partitions is None:
        return False
    return last.offsets == previous.offsets and previous.partitions not in (None, last.partitions)


def repartition(view: CheckpointView) -> Iterator[Finding]:
    """`state.repartition-unfinished`: a repartition was planned and not committed."""
    if not unfinished_repartition(view) or view.last is None or view.previous is None:
        return
    old, new = view.previous.partitions, view.last.partitions
    yield restart_fails(
        "state.repartition-unfinished",
        f"Batch {view.planned} is an unfinished repartition from {old} to {new} partitions.",
        condition="STREAMING_UNFINISHED_REPARTITION_DETECTED"
        if view.target.detects_unfinished_repartition
        else "",
        before=old,
        after=new,
        remedy=(
            f"run the repartition to {new} again",
            f"or cancel it and stay with {old} partitions, as it holds no data: {repair_command(view)}",
        ),
    )


def stores(view: CheckpointView) -> Iterator[Finding]:
    """`state.version-file-missing`, `-corrupt`, `state.checksum-failed`, `state.snapshot-corrupt`."""
    version, name = view.first_executed_batch, _provider(view)
    if version == 0 or name is None:
        return
    loaded = [(store, _load(view, operator, store, version, name)) for operator, store in _needed(view)]
    faults = [fault for _, loading in loaded for fault in loading.faults]
    for kind in FaultKind:
        chosen = [fault for fault in faults if fault.kind is kind]
        if chosen and (kind not in (FaultKind.MISSING, FaultKind.BASE) or view.inventory.complete):
            yield _unloadable(view, kind, chosen, version)
    skipped = [fault for _, loading in loaded for fault in loading.skipped]
    if skipped:
        message = f"{plural(len(skipped), 'damaged snapshot')}. Spark {view.target} falls back to older ones."
        remedy = (
            "let the query run: it writes new snapshots",
            "do not start with a Spark before 4.2, which fails on them",
        )
        yield note(
            "state.snapshot-corrupt",
            message,
            files=[str(fault) for fault in skipped[:MAX_NAMED]],
            remedy=remedy,
        )


def _provider(view: CheckpointView) -> str | None:
    """The provider that the log pins, else the one whose files exist. None for a custom provider."""
    pinned = view.last.conf.get(logs.PROVIDER) if view.last else None
    if pinned is not None:
        simple = pinned.rpartition(".")[2]
        return simple if simple in (HDFS, ROCKSDB) else None
    kinds = {file.kind for _, store in _all(view.operators) for file in store.files}
    return ROCKSDB if kinds & {"zip", "changelog"} else HDFS


def _all(operators: Iterable[StateOperator]) -> Iterator[tuple[StateOperator, Store]]:
    return ((operator, store) for operator in operators for store in operator.stores.values())


def _needed(view: CheckpointView) -> Iterator[tuple[StateOperator, Store]]:
    """Every store of every partition that the next batch opens; `partitions` reports partitions without files."""
    wanted = view.last.partitions if view.last else None
    for operator in view.operators:
        filled = {partition for (partition, _), store in operator.stores.items() if store.files}
        for partition in sorted(filled):
            if wanted is not None and partition >= wanted:
                continue
            for name in operator.store_names:
                empty = Store(_folder(operator, partition, name), operator.number, partition, name, ())
                yield operator, operator.stores.get((partition, name), empty)


def _folder(operator: StateOperator, partition: int, name: str) -> str:
    at = f"{operator.folder}/{partition}"
    return at if name == DEFAULT_STORE else f"{at}/{name}"


def _load(view: CheckpointView, operator: StateOperator, store: Store, version: int, name: str) -> LoadResult:
    if not any(file.id for file in store.files):
        return view.loader.load(store, version, name)
    commit = view.last_commit
    ids = commit.ids.get(str(operator.number), ()) if commit else ()
    candidates = ids[store.partition] if store.partition < len(ids) else ()
    own = {file.id for file in store.files}
    place = operator.store_names.index(store.name) if store.name in operator.store_names else 0
    known = next((unique for unique in candidates if unique in own), None)
    chosen = known or (candidates[place] if place < len(candidates) else None)
    if chosen is None:
        return LoadResult()  # `ids` reports it
    return view.loader.load_by_id(store, version, chosen)


def _condition(view: CheckpointView, kind: FaultKind) -> str:
    if not view.target.since(4, 0):
        return ""
    if kind is FaultKind.CHECKSUM:
        return "CHECKPOINT_FILE_CHECKSUM_VERIFICATION_FAILED"
    if kind is FaultKind.CORRUPT:
        return "CANNOT_LOAD_STATE_STORE.UNCATEGORIZED"
    if kind is FaultKind.BASE and view.target.skips_bad_snapshots:
        return "CANNOT_LOAD_STATE_STORE.AUTO_SNAPSHOT_REPAIR_FAILED"
    if kind is FaultKind.BASE:
        return "CANNOT_LOAD_STATE_STORE.CANNOT_FIND_BASE_SNAPSHOT_CHECKPOINT"
    hdfs = _provider(view) == HDFS
    missing = "CANNOT_READ_DELTA_FILE_NOT_EXISTS" if hdfs else "CANNOT_READ_STREAMING_STATE_FILE"
    return f"CANNOT_LOAD_STATE_STORE.{missing}"


_CHECKS = {
    FaultKind.MISSING: ("state.version-file-missing", "missing"),
    FaultKind.BASE: ("state.version-file-missing", "missing"),
    FaultKind.CORRUPT: ("state.version-file-corrupt", "damaged"),
    FaultKind.CHECKSUM: ("state.checksum-failed", "with a wrong checksum"),
}


def _unloadable(view: CheckpointView, kind: FaultKind, faults: list[Fault], version: int) -> Finding:
    check, description = _CHECKS[kind]
    message = (
        f"State files of operator {_operator_of(faults[0])} are {description}: batch {version} cannot load its state "
        f"({plural(len(faults), 'file')}, first {faults[0]})."
    )
    remedy = [
        RESTORE,
        f"or, if only the newest version is lost, run the last batch again: {repair_command(view, '--confirm', 'R-STATE-1')}",
        f"or rewind to a version that every store can load: {rewind_command(view)}",
    ]
    if kind is FaultKind.CHECKSUM:
        remedy.insert(
            1, "if the data file is known to be good, remove its .crc file: Spark then does not check it"
        )
    return restart_fails(
        check,
        message,
        when=_when(view),
        condition=_condition(view, kind),
        remedy=remedy,
        version=version,
        files=[str(fault) for fault in faults[:MAX_NAMED]],
    )


def _operator_of(fault: Fault) -> str:
    """The operator number in `state/<operator>/…`."""
    return fault.path.split("/")[1]


def _when(view: CheckpointView) -> str:
    if view.first_executed_batch == view.next_batch:
        return FIRST_BATCH
    return f"in batch {view.first_executed_batch}: the file sink skips the earlier ones, so their state is never written"


def ids(view: CheckpointView) -> Iterator[Finding]:
    """`state.v2-ids-missing`, `state.v2-commit-lag`: format version 2 finds state files by the ids in the commit log."""
    version = view.next_batch
    with_ids = [operator for operator, store in _all(view.operators) if any(file.id for file in store.files)]
    if version == 0 or not with_ids:
        return
    if view.committed is None or view.committed != version - 1:
        message = (
            f"commits/{version - 1} should hold the ids of state version {version}, but the newest commit is "
            f"{view.committed}. A restart cannot find its state."
        )
        yield restart_fails(
            "state.v2-commit-lag",
            message,
            condition=_condition(view, FaultKind.MISSING),
            remedy=_rebuild(version),
        )
    elif view.last_commit is not None:
        ids_by_operator = view.last_commit.ids
        without_ids = sorted({o.number for o in with_ids if not any(ids_by_operator.get(str(o.number), ()))})
        if without_ids:
            message = (
                f"commits/{view.committed} has no ids for the state of operators {without_ids}. "
                "A restart cannot find their state."
            )
            condition = "CANNOT_LOAD_STATE_STORE.UNCATEGORIZED"
            yield restart_fails(
                "state.v2-ids-missing",
                message,
                condition=condition,
                operators=without_ids,
                remedy=_rebuild(version),
            )


def _rebuild(version: int) -> tuple[str, ...]:
    return (
        f"restore commits/{version - 1}",
        f"or rewrite it, if each partition has exactly one id among its files {version}_<id>.*",
    )


def blocks(view: CheckpointView) -> Iterator[Finding]:
    """`state.sst-block-corrupt`: RocksDB notices a damaged block when it first reads it, often at the commit."""
    version = view.first_executed_batch
    if version == 0 or _provider(view) != ROCKSDB:
        return
    damaged = [
        fault for _, store in _needed(view) for fault in damaged_blocks(view.inventory, store, version)
    ]
    if damaged:
        message = f"{plural(len(damaged), 'SST file')} with damaged blocks, first {damaged[0]}. The query fails on them."
        condition = "CANNOT_WRITE_STATE_STORE.CANNOT_COMMIT" if view.target.since(4, 0) else ""
        remedy = (
            RESTORE,
            "if the changelogs since an older good snapshot exist: remove the snapshots that name the file",
            "otherwise: rewind to a batch before the file was written; one batch is not enough, since many versions share an SST file",
        )
        named = [str(fault) for fault in damaged[:MAX_NAMED]]
        yield restart_fails(
            "state.sst-block-corrupt", message, condition=condition, files=named, remedy=remedy
        )


def snapshots_ahead(view: CheckpointView) -> Iterator[Finding]:
    """`state.snapshot-ahead`: snapshots of batches that have not run yet, left after the logs were cut by hand.

    Spark overwrites change files but not snapshots, and later loads the old snapshot under the new changes.
    """
    ahead = [
        file.path
        for _, store in _all(view.operators)
        for file in _snapshots(store)
        if file.version > view.next_batch + 1
    ]
    if ahead and view.planned is not None:
        message = (
            f"{plural(len(ahead), 'state snapshot')} beyond version {view.next_batch + 1}, left from before a rewind. If the "
            "batches differ from then, a later start loads rows that do not belong together."
        )
        remedy = (f"remove them: {rewind_command(view, view.next_batch)}",)
        yield note("state.snapshot-ahead", message, files=ahead[:MAX_NAMED], remedy=remedy)


def _snapshots(store: Store) -> Iterator[StateFile]:
    """The snapshots that Spark finds by version number and that not every batch rewrites."""
    logged = any(file.kind == "changelog" for file in store.files)
    return (f for f in store.of("snapshot", *(["zip"] if logged else [])) if not f.id)


def uneven_versions(view: CheckpointView) -> Iterator[Finding]:
    """`state.uneven-versions`: the newest versions of the partitions differ; harmless where they all load."""
    for operator in view.operators:
        newest = {
            f"{s.partition}/{s.name}": s.newest for s in operator.stores.values() if s.newest is not None
        }
        if len(set(newest.values())) > 1:
            low, high = min(newest.values()), max(newest.values())
            message = (
                f"The newest versions of the stores of operator {operator.number} range from {low} to {high}."
            )
            yield note("state.uneven-versions", message, newest=dict(list(newest.items())[:MAX_NAMED]))
