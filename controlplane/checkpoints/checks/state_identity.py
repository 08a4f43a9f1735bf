"""Checks of what the state says about itself: metadata and schemas of operators, partitions that are copies."""

from __future__ import annotations

from collections.abc import Iterator
from posixpath import basename

from controlplane.checkpoints.findings import Finding, fails, harms, notes
from controlplane.checkpoints.inventory.relocation import below, plain_path
from controlplane.checkpoints.reading.checkpoint import CheckpointView
from controlplane.checkpoints.reading.state_tree import CHANGES, StateOperator, Store


def operator_metadata(q: CheckpointView) -> Iterator[Finding]:
    """`state.operator-metadata-unreadable`, `-missing`: transformWithState needs it, others write it anew."""
    if q.next_batch == 0:
        return
    for operator in q.operators:
        metadata = operator.metadata
        transforms = operator.is_transform or _looks_transformed(q, operator)
        if metadata is not None and metadata.fault:
            check, message = (
                "state.operator-metadata-unreadable",
                f"{metadata.path} cannot be read: {metadata.fault}",
            )
        elif metadata is None and (transforms or _others_have_it(q)) and q.inventory.complete:
            check = "state.operator-metadata-missing"
            message = f"{operator.folder}/_metadata is missing"
        else:
            continue
        if transforms:
            condition = "STDS_FAILED_TO_READ_OPERATOR_METADATA"
            remedy = (f"restore {operator.folder}/_metadata from a backup",)
            yield fails(check, f"{message}; transformWithState needs it", condition=condition, remedy=remedy)
        else:
            yield notes(check, f"{message}; Spark writes it anew")


#: Fields of a value that only one operator writes → that operator.
SIGNATURES = {"__dummy__": "dedupe", "expiresAtMicros": "dedupeWithinWatermark"}


def operator_names(q: CheckpointView) -> Iterator[Finding]:
    """`state.operator-name-changed`: the metadata names another operator than the one that wrote the state."""
    if q.next_batch == 0 or not q.target.compares_operators:
        return
    for operator in q.operators:
        told = operator.metadata.name if operator.metadata else ""
        wrote = _writer(operator)
        known = {*SIGNATURES.values(), "stateStoreSave", "symmetricHashJoin"}
        contradicts = told != wrote if wrote else told in SIGNATURES.values()
        if told in known and operator.readable_schemas and contradicts:
            message = (
                f"the metadata of operator {operator.number} says {told}, its state is not of that operator"
            )
            condition = "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA"
            remedy = (f"restore {operator.folder}/_metadata from a backup",)
            yield fails("state.operator-name-changed", message, condition=condition, told=told, remedy=remedy)


def _writer(operator: StateOperator) -> str | None:
    """The operator that the stores and schemas betray; None where it may be several."""
    if any(name.startswith(("left-", "right-")) for name in operator.store_names):
        return "symmetricHashJoin"
    names = {field.name for schema in operator.readable_schemas for field in schema.value}
    return SIGNATURES.get(next(iter(names))) if len(names) == 1 else None


def _looks_transformed(q: CheckpointView, operator: StateOperator) -> bool:
    """Only transformWithState keeps its schemas in `_stateSchema`."""
    return q.inventory.is_folder(f"{operator.folder}/_stateSchema")


def _others_have_it(q: CheckpointView) -> bool:
    return any(operator.metadata is not None for operator in q.operators)


def schemas(q: CheckpointView) -> Iterator[Finding]:
    """`state.schema-unreadable`."""
    for operator in q.operators if q.next_batch else ():
        for path, schema in operator.schemas.items():
            if isinstance(schema, str):
                remedy = ("if the query did not change: move it away, Spark writes it anew",)
                message = f"{path} cannot be read: {schema}"
                yield fails("state.schema-unreadable", message, file=path, remedy=remedy)


def schema_paths(q: CheckpointView) -> Iterator[Finding]:
    """`state.schema-path-dangling`: transformWithState finds its schemas by absolute paths."""
    for operator in q.operators if q.next_batch else ():
        for path in operator.metadata.schema_paths if operator.metadata else ():
            yield from _judged_path(q, operator, path)


def _judged_path(q: CheckpointView, operator: StateOperator, path: str) -> Iterator[Finding]:
    place = q.at_home(path)
    inside = below(place, q.inventory.root)
    here = f"{operator.folder}/_stateSchema/{basename(place.rpartition('/')[0])}/{basename(place)}"
    if not q.inventory.is_file(inside or here) and q.inventory.complete:
        message = f"the metadata of operator {operator.number} names the schema {path}, which is not there"
        restore = (f"restore {inside or here} from a backup",)
        yield fails("state.schema-path-dangling", message, path=path, remedy=restore)
    elif inside is None and not q.inventory.relocations:
        yield _moved(q, path)


def _moved(q: CheckpointView, path: str) -> Finding:
    """The schema is here, but its path leads elsewhere: a copy, or a move that the start will not survive."""
    message = f"the state's schema is named by its absolute path {path}. For a copy to look at that is fine; "
    message += "but if the checkpoint was moved here to run, the start fails"
    remedy = ("move the checkpoint back", "or write the new place into every file of state/*/_metadata/v2")
    if q.history.location is not None and below(plain_path(path), q.history.location) is None:
        return fails("state.schema-path-dangling", message, path=path, remedy=remedy)
    return notes("state.schema-path-dangling", message, path=path, remedy=remedy)


def clones(q: CheckpointView) -> Iterator[Finding]:
    """`state.partition-cloned`: keys are dealt out by hash, so two partitions never hold the same rows."""
    for operator in q.operators:
        pairs = sorted(set(_alike(q, operator)))
        if pairs:
            first, second = pairs[0]
            message = f"partitions {first} and {second} of operator {operator.number} hold the same state"
            remedy = ("restore the partition that was overwritten",)
            named = [list(pair) for pair in pairs[:10]]
            yield harms("state.partition-cloned", message, partitions=named, pairs=len(pairs), remedy=remedy)


def _alike(q: CheckpointView, operator: StateOperator) -> Iterator[tuple[int, int]]:
    seen: dict[object, int] = {}
    for store in operator.stores.values():
        for mark in _marks(q, store):
            other = seen.setdefault((store.name, mark), store.partition)
            if other != store.partition:
                yield min(other, store.partition), max(other, store.partition)


def _marks(q: CheckpointView, store: Store) -> Iterator[object]:
    """What only one partition can have: names of SSTs, and changes with records in them."""
    for name in q.inventory.names(f"{store.folder}/SSTs"):
        if name.endswith(".sst"):
            yield name
    for file in store.of(*CHANGES):
        held = q.loader.change_file(file)
        if held is not None and held.complete and held.records:
            yield file.version, held.digest
