"""Checks of the identity of state: metadata and schemas of operators, partitions that are copies."""

from __future__ import annotations

from collections.abc import Iterator
from posixpath import basename

from controlplane.checkpoints.findings import Finding, note, restart_fails, results_change
from controlplane.checkpoints.inventory.relocation import below, plain_path
from controlplane.checkpoints.reading.checkpoint import CheckpointView
from controlplane.checkpoints.reading.state_tree import CHANGES, StateOperator, Store


def operator_metadata(view: CheckpointView) -> Iterator[Finding]:
    """`state.operator-metadata-unreadable`, `-missing`: transformWithState needs it; for others Spark rewrites it."""
    if view.next_batch == 0:
        return
    for operator in view.operators:
        metadata = operator.metadata
        transforms = operator.is_transform or _has_state_schema(view, operator)
        if metadata is not None and metadata.fault:
            check, message = (
                "state.operator-metadata-unreadable",
                f"{metadata.path} cannot be read: {metadata.fault}",
            )
        elif metadata is None and (transforms or _others_have_it(view)) and view.inventory.complete:
            check = "state.operator-metadata-missing"
            message = f"{operator.folder}/_metadata is missing"
        else:
            continue
        if transforms:
            condition = "STDS_FAILED_TO_READ_OPERATOR_METADATA"
            remedy = (f"restore {operator.folder}/_metadata from a backup",)
            yield restart_fails(
                check,
                f"{message}. transformWithState needs it, so a restart fails.",
                condition=condition,
                remedy=remedy,
            )
        else:
            yield note(check, f"{message}. Spark rewrites it.")


#: Fields of a value that only one operator writes → that operator.
SIGNATURES = {"__dummy__": "dedupe", "expiresAtMicros": "dedupeWithinWatermark"}


def operator_names(view: CheckpointView) -> Iterator[Finding]:
    """`state.operator-name-changed`: the metadata names an operator that did not write the state."""
    if view.next_batch == 0 or not view.target.validates_operators:
        return
    for operator in view.operators:
        recorded = operator.metadata.name if operator.metadata else ""
        wrote = _writer(operator)
        known = {*SIGNATURES.values(), "stateStoreSave", "symmetricHashJoin"}
        contradicts = recorded != wrote if wrote else recorded in SIGNATURES.values()
        if recorded in known and operator.readable_schemas and contradicts:
            message = (
                f"The metadata of operator {operator.number} names {recorded}, but another operator wrote its state. "
                "A restart fails."
            )
            condition = "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA"
            remedy = (f"restore {operator.folder}/_metadata from a backup",)
            yield restart_fails(
                "state.operator-name-changed", message, condition=condition, recorded=recorded, remedy=remedy
            )


def _writer(operator: StateOperator) -> str | None:
    """The operator whose stores and schemas these are; None where it may be one of several."""
    if any(name.startswith(("left-", "right-")) for name in operator.store_names):
        return "symmetricHashJoin"
    names = {field.name for schema in operator.readable_schemas for field in schema.value}
    return SIGNATURES.get(next(iter(names))) if len(names) == 1 else None


def _has_state_schema(view: CheckpointView, operator: StateOperator) -> bool:
    """Only transformWithState keeps its schemas in `_stateSchema`."""
    return view.inventory.is_folder(f"{operator.folder}/_stateSchema")


def _others_have_it(view: CheckpointView) -> bool:
    return any(operator.metadata is not None for operator in view.operators)


def schemas(view: CheckpointView) -> Iterator[Finding]:
    """`state.schema-unreadable`: a schema file of a state store is damaged."""
    for operator in view.operators if view.next_batch else ():
        for path, schema in operator.schemas.items():
            if isinstance(schema, str):
                remedy = ("if the query did not change: remove the file, Spark rewrites it",)
                message = f"{path} cannot be read: {schema}. A restart fails."
                yield restart_fails("state.schema-unreadable", message, file=path, remedy=remedy)


def schema_paths(view: CheckpointView) -> Iterator[Finding]:
    """`state.schema-path-dangling`: transformWithState finds its schemas by absolute paths."""
    for operator in view.operators if view.next_batch else ():
        for path in operator.metadata.schema_paths if operator.metadata else ():
            yield from _check_path(view, operator, path)


def _check_path(view: CheckpointView, operator: StateOperator, path: str) -> Iterator[Finding]:
    place = view.relocated_path(path)
    inside = below(place, view.inventory.root)
    here = f"{operator.folder}/_stateSchema/{basename(place.rpartition('/')[0])}/{basename(place)}"
    if not view.inventory.is_file(inside or here) and view.inventory.complete:
        message = (
            f"The metadata of operator {operator.number} names the schema {path}, which does not exist. "
            "A restart fails."
        )
        restore = (f"restore {inside or here} from a backup",)
        yield restart_fails("state.schema-path-dangling", message, path=path, remedy=restore)
    elif inside is None and not view.inventory.relocations:
        yield _moved(view, path)


def _moved(view: CheckpointView, path: str) -> Finding:
    """The schema is here, but its path points elsewhere: the checkpoint was copied, or moved and cannot start."""
    message = f"The state's schema has the absolute path {path}. A copy for inspection may stay as it is. "
    message += "If the checkpoint was moved here to run, the start fails."
    remedy = ("move the checkpoint back", "or write the new path into every file of state/*/_metadata/v2")
    if view.history.location is not None and below(plain_path(path), view.history.location) is None:
        return restart_fails("state.schema-path-dangling", message, path=path, remedy=remedy)
    return note("state.schema-path-dangling", message, path=path, remedy=remedy)


def cloned_partitions(view: CheckpointView) -> Iterator[Finding]:
    """`state.partition-cloned`: keys are partitioned by hash, so two partitions never hold the same rows."""
    for operator in view.operators:
        pairs = sorted(set(_identical_partitions(view, operator)))
        if pairs:
            first, second = pairs[0]
            message = (
                f"Partitions {first} and {second} of operator {operator.number} hold the same state. "
                "One was overwritten, and its keys are lost."
            )
            remedy = ("restore the partition that was overwritten",)
            named = [list(pair) for pair in pairs[:10]]
            yield results_change(
                "state.partition-cloned", message, partitions=named, pairs=len(pairs), remedy=remedy
            )


def _identical_partitions(view: CheckpointView, operator: StateOperator) -> Iterator[tuple[int, int]]:
    seen: dict[object, int] = {}
    for store in operator.stores.values():
        for fingerprint in _fingerprints(view, store):
            other = seen.setdefault((store.name, fingerprint), store.partition)
            if other != store.partition:
                yield min(other, store.partition), max(other, store.partition)


def _fingerprints(view: CheckpointView, store: Store) -> Iterator[object]:
    """Values that only one partition can have: names of SST files, and digests of changes with records."""
    for name in view.inventory.names(f"{store.folder}/SSTs"):
        if name.endswith(".sst"):
            yield name
    for file in store.of(*CHANGES):
        held = view.loader.change_file(file)
        if held is not None and held.complete and held.records:
            yield file.version, held.digest
