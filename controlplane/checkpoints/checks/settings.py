"""Checks of the settings that the offset log pins, of versions, and of the watermark."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from controlplane.checkpoints.findings import FIRST_BATCH, Finding, fails, harms, later, notes
from controlplane.checkpoints.reading import logs
from controlplane.checkpoints.reading.checkpoint import CheckpointView, writer_version
from controlplane.checkpoints.reading.state_loading import HDFS, ROCKSDB
from controlplane.checkpoints.reading.versions import SparkVersion
from controlplane.checkpoints.remedies import rewind

#: A watermark this far ahead of the clock comes from a bad event time.
FUTURE_SECONDS = 86400.0
SPARKS_OWN = "org.apache.spark."


def restore(q: CheckpointView, key: str, value: str | None) -> tuple[str, ...]:
    return ("copy the checkpoint away", f"set {key} in offsets/{q.planned} back to {value!r}")


def changed(q: CheckpointView) -> dict[str, tuple[str | None, str | None]]:
    """Setting → its value in the last entry but one and in the last, of those that differ."""
    if q.last is None or q.previous is None:
        return {}
    keys = {*q.last.conf, *q.previous.conf}
    pairs = {key: (q.previous.setting(key), q.last.setting(key)) for key in keys}
    return {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}


def pinned(q: CheckpointView) -> Iterator[Finding]:
    """`conf.pinned-conf-changed`: a setting that the state was written with is another one now."""
    kinds = _fatal(q)
    for key, (old, new) in sorted(changed(q).items()):
        message = f"offsets/{q.planned} pins {key} = {new!r}, the batch before had {old!r}"
        evidence: dict[str, Any] = {"key": key, "old": old, "new": new}
        if key in kinds and old is not None:
            condition, why = kinds[key]
            yield fails(
                "conf.pinned-conf-changed",
                f"{message}; {why}",
                condition=condition if q.target.since(4, 0) else "",
                remedy=restore(q, key, old),
                **evidence,
            )
        else:
            yield notes("conf.pinned-conf-changed", message, **evidence)


def _fatal(q: CheckpointView) -> dict[str, tuple[str, str]]:
    """Settings whose change the state of this query does not survive → condition and reason."""
    if not q.stateful or q.next_batch == 0:
        return {}
    mismatch = "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE"
    other = "the state was written in the other layout"
    fatal = {
        logs.ROW_CHECKSUM: (
            "STATE_STORE_ROW_CHECKSUM_VERIFICATION_FAILED",
            "the rows were written without it",
        )
    }
    if any(operator.is_join for operator in q.operators):
        fatal[logs.JOIN_FORMAT] = (mismatch, other)
    names = {operator.metadata.name if operator.metadata else "" for operator in q.operators}
    unknown = "" in names and not all(operator.is_join for operator in q.operators)
    aggregates = unknown or bool(names & {"stateStoreSave", "sessionWindowStateStoreSaveExec"})
    if aggregates and not _deduplicates(q):
        fatal[logs.AGGREGATION_FORMAT] = (mismatch, other)
    if names & {"flatMapGroupsWithState", "applyInPandasWithState"}:
        fatal[logs.GROUPS_FORMAT] = (mismatch, other)
    return fatal


def _deduplicates(q: CheckpointView) -> bool:
    """Whether the schemas tell that nothing here aggregates: deduplication keeps a dummy or an expiry."""
    fields = {
        field.name
        for operator in q.operators
        for schema in operator.readable_schemas
        for field in schema.value
    }
    return bool(fields) and fields <= {"__dummy__", "expiresAtMicros"}


def missing(q: CheckpointView) -> Iterator[Finding]:
    """`conf.missing`: the last entry pins nothing, so Spark assumes the oldest layouts."""
    if q.last is None or q.last.conf or q.last.blank_metadata or (q.previous and not q.previous.conf):
        return
    message = (
        f"offsets/{q.planned} has no settings: Spark takes the session's, and the oldest layout of state"
    )
    remedy = ("copy the settings from the entry before",)
    if q.stateful and q.previous is None:
        yield harms("conf.missing", message, remedy=remedy)
    else:
        yield notes("conf.missing", message, remedy=remedy)


def watermark_policy(q: CheckpointView) -> Iterator[Finding]:
    """`conf.invalid-watermark-policy`."""
    value = q.last.conf.get(logs.WATERMARK_POLICY) if q.last else None
    if value is not None and value.lower() not in ("min", "max"):
        message = f"offsets/{q.planned} pins {logs.WATERMARK_POLICY} = {value!r}; Spark knows min and max"
        remedy = restore(q, logs.WATERMARK_POLICY, "min")
        condition = "INVALID_CONF_VALUE.REQUIREMENT" if q.target.since(4, 0) else ""
        yield fails("conf.invalid-watermark-policy", message, condition=condition, remedy=remedy, value=value)


def provider(q: CheckpointView) -> Iterator[Finding]:
    """`conf.custom-provider`, `conf.tws-needs-rocksdb`."""
    value = q.last.conf.get(logs.PROVIDER) if q.last else None
    if value is None or not q.stateful:
        return
    before = q.previous.conf.get(logs.PROVIDER) if q.previous else None
    simple = value.rpartition(".")[2]
    if not value.startswith(SPARKS_OWN) or simple not in (HDFS, ROCKSDB):
        if before is not None and before != value:
            message = f"offsets/{q.planned} pins the state store {value}, the batch before had {before}"
            yield fails(
                "conf.custom-provider", message, provider=value, remedy=restore(q, logs.PROVIDER, before)
            )
        else:
            message = f"the state store {value} is not Spark's own: its class must be there; its files are not judged"
            yield notes("conf.custom-provider", message, provider=value)
    elif simple == HDFS and any(operator.is_transform for operator in q.operators):
        message = (
            "the state is of transformWithState, which needs RocksDB; the log pins the HDFS-backed store"
        )
        condition = "UNSUPPORTED_FEATURE.STORE_BACKEND_NOT_SUPPORTED_FOR_TWS"
        yield fails(
            "conf.tws-needs-rocksdb",
            message,
            condition=condition,
            provider=value,
            remedy=restore(q, logs.PROVIDER, before or ROCKSDB),
        )


def versions(q: CheckpointView) -> Iterator[Finding]:
    """`run.version`: what the target cannot take over from the Spark that wrote this."""
    writer = writer_version(q.inventory)
    if not q.target.since(4, 0) and any(operator.is_transform for operator in q.operators):
        message = f"transformWithState needs Spark 4.0 or newer, the target is {q.target}"
        yield fails("run.version", message, target=str(q.target), remedy=("run Spark 4.0 or newer",))
    if writer is not None and not writer.since(4, 0) and q.target.since(4, 0):
        yield from _upgraded_join(q, writer)


def _upgraded_join(q: CheckpointView, writer: SparkVersion) -> Iterator[Finding]:
    strict = sorted(
        {
            field.name
            for operator in q.operators
            if operator.is_join
            for schema in operator.readable_schemas
            for field in (*schema.key, *schema.value)
            if not field.nullable and field.name not in ("index", "matched", "value")
        }
    )
    if not strict or q.next_batch == 0:
        return
    message = (
        f"a stream-stream join of Spark {writer.major}.{writer.minor} has columns that may not be null "
        f"({', '.join(strict)}): "
        f"Spark {q.target} takes them as nullable and calls the state incompatible"
    )
    remedy = (
        "start once with spark.sql.streaming.stateStore.stateSchemaCheck=false (only the nullability differs)",
        f"or stay on Spark {writer.major}.{writer.minor}",
    )
    evidence: dict[str, Any] = {"columns": strict, "written_by": str(writer), "target": str(q.target)}
    condition = "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE"
    if q.target.since(4, 3):
        yield fails("run.version", message, condition=condition, remedy=remedy, **evidence)
    else:
        yield later("run.version", message, when=FIRST_BATCH, condition=condition, remedy=remedy, **evidence)


def future_watermark(q: CheckpointView) -> Iterator[Finding]:
    """`wm.future`: the watermark is ahead of the clock and will drop all that comes."""
    told = [q.last_commit.watermark_ms if q.last_commit else 0, q.last.watermark_ms if q.last else 0]
    seconds = max(told) / 1000
    if not q.inventory.collected_at or seconds <= q.inventory.collected_at + FUTURE_SECONDS:
        return
    message = (
        f"the watermark is at {_day(seconds)}, in the future: rows before it count as late and are dropped"
    )
    remedy = (
        "find the row with the bad event time and filter such rows",
        f"go back to the batch before it, a watermark never does so by itself: {rewind(q)}",
    )
    yield harms("wm.future", message, watermark_ms=max(told), remedy=remedy)


def _day(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat()
    except (ValueError, OverflowError, OSError):
        return f"{seconds:.0f} s after 1970"
