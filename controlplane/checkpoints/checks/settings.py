"""Checks of the settings that the offset log pins, of Spark versions and of the watermark."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from controlplane.checkpoints.checks.logs import BACKUP
from controlplane.checkpoints.findings import (
    FIRST_BATCH,
    Finding,
    fails_later,
    note,
    restart_fails,
    results_change,
)
from controlplane.checkpoints.reading import logs
from controlplane.checkpoints.reading.checkpoint import CheckpointView, writer_version
from controlplane.checkpoints.reading.state_loading import HDFS, ROCKSDB
from controlplane.checkpoints.reading.versions import SparkVersion
from controlplane.checkpoints.remedies import rewind_command

#: A watermark more than this ahead of the clock comes from a wrong event time.
FUTURE_SECONDS = 86400.0
SPARKS_OWN = "org.apache.spark."


def restore(view: CheckpointView, key: str, value: str | None) -> tuple[str, ...]:
    """Remedy: set a pinned setting back to its former value."""
    return (BACKUP, f"set {key} in offsets/{view.planned} back to {value!r}")


def changed(view: CheckpointView) -> dict[str, tuple[str | None, str | None]]:
    """Setting → its values in the last two entries of the offset log, where they differ."""
    if view.last is None or view.previous is None:
        return {}
    keys = {*view.last.conf, *view.previous.conf}
    pairs = {key: (view.previous.setting(key), view.last.setting(key)) for key in keys}
    return {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}


def pinned(view: CheckpointView) -> Iterator[Finding]:
    """`conf.pinned-conf-changed`: a setting that the state was written with has changed."""
    kinds = _fatal(view)
    for key, (old, new) in sorted(changed(view).items()):
        message = f"offsets/{view.planned} pins {key} = {new!r}, the batch before pinned {old!r}."
        evidence: dict[str, Any] = {"key": key, "old": old, "new": new}
        if key in kinds and old is not None:
            condition, why = kinds[key]
            yield restart_fails(
                "conf.pinned-conf-changed",
                f"{message} A restart fails: {why}.",
                condition=condition if view.target.since(4, 0) else "",
                remedy=restore(view, key, old),
                **evidence,
            )
        else:
            yield note("conf.pinned-conf-changed", message, **evidence)


def _fatal(view: CheckpointView) -> dict[str, tuple[str, str]]:
    """Setting whose change makes the state of this query unreadable → Spark's error condition, reason."""
    if not view.stateful or view.next_batch == 0:
        return {}
    mismatch = "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE"
    other = "the state was written in the other layout"
    fatal = {
        logs.ROW_CHECKSUM: (
            "STATE_STORE_ROW_CHECKSUM_VERIFICATION_FAILED",
            "the rows were written without checksums",
        )
    }
    if any(operator.is_join for operator in view.operators):
        fatal[logs.JOIN_FORMAT] = (mismatch, other)
    names = {operator.metadata.name if operator.metadata else "" for operator in view.operators}
    unknown = "" in names and not all(operator.is_join for operator in view.operators)
    aggregates = unknown or bool(names & {"stateStoreSave", "sessionWindowStateStoreSaveExec"})
    if aggregates and not _deduplicates(view):
        fatal[logs.AGGREGATION_FORMAT] = (mismatch, other)
    if names & {"flatMapGroupsWithState", "applyInPandasWithState"}:
        fatal[logs.GROUPS_FORMAT] = (mismatch, other)
    return fatal


def _deduplicates(view: CheckpointView) -> bool:
    """Whether the schemas show deduplication only, which stores a dummy value or an expiry time."""
    fields = {
        field.name
        for operator in view.operators
        for schema in operator.readable_schemas
        for field in schema.value
    }
    return bool(fields) and fields <= {"__dummy__", "expiresAtMicros"}


def missing(view: CheckpointView) -> Iterator[Finding]:
    """`conf.missing`: the last entry pins no settings, so Spark assumes the oldest layouts."""
    if (
        view.last is None
        or view.last.conf
        or view.last.blank_metadata
        or (view.previous and not view.previous.conf)
    ):
        return
    message = f"offsets/{view.planned} pins no settings. Spark uses the session's settings and the oldest state layout."
    remedy = ("copy the settings from the previous entry",)
    if view.stateful and view.previous is None:
        yield results_change("conf.missing", message, remedy=remedy)
    else:
        yield note("conf.missing", message, remedy=remedy)


def watermark_policy(view: CheckpointView) -> Iterator[Finding]:
    """`conf.invalid-watermark-policy`: the pinned policy is neither min nor max."""
    value = view.last.conf.get(logs.WATERMARK_POLICY) if view.last else None
    if value is not None and value.lower() not in ("min", "max"):
        message = f"offsets/{view.planned} pins {logs.WATERMARK_POLICY} = {value!r}. Spark accepts only min and max."
        remedy = restore(view, logs.WATERMARK_POLICY, "min")
        condition = "INVALID_CONF_VALUE.REQUIREMENT" if view.target.since(4, 0) else ""
        yield restart_fails(
            "conf.invalid-watermark-policy", message, condition=condition, remedy=remedy, value=value
        )


def provider(view: CheckpointView) -> Iterator[Finding]:
    """`conf.custom-provider`, `conf.tws-needs-rocksdb`: the state store provider that the log pins."""
    value = view.last.conf.get(logs.PROVIDER) if view.last else None
    if value is None or not view.stateful:
        return
    before = view.previous.conf.get(logs.PROVIDER) if view.previous else None
    simple = value.rpartition(".")[2]
    if not value.startswith(SPARKS_OWN) or simple not in (HDFS, ROCKSDB):
        if before is not None and before != value:
            message = (
                f"offsets/{view.planned} pins the state store {value}, the batch before pinned {before}. "
                "A restart fails."
            )
            yield restart_fails(
                "conf.custom-provider", message, provider=value, remedy=restore(view, logs.PROVIDER, before)
            )
        else:
            message = (
                f"The state store {value} is not one of Spark's: its class must be on the class path. "
                "Its files are not checked."
            )
            yield note("conf.custom-provider", message, provider=value)
    elif simple == HDFS and any(operator.is_transform for operator in view.operators):
        message = "The state was written by transformWithState, which needs RocksDB, but the log pins the HDFS-backed store."
        condition = "UNSUPPORTED_FEATURE.STORE_BACKEND_NOT_SUPPORTED_FOR_TWS"
        yield restart_fails(
            "conf.tws-needs-rocksdb",
            message,
            condition=condition,
            provider=value,
            remedy=restore(view, logs.PROVIDER, before or ROCKSDB),
        )


def versions(view: CheckpointView) -> Iterator[Finding]:
    """`run.version`: what the target Spark cannot read of what the writing Spark left."""
    writer = writer_version(view.inventory)
    if not view.target.since(4, 0) and any(operator.is_transform for operator in view.operators):
        message = f"transformWithState needs Spark 4.0 or newer, but the target is {view.target}."
        yield restart_fails(
            "run.version", message, target=str(view.target), remedy=("start with Spark 4.0 or newer",)
        )
    if writer is not None and not writer.since(4, 0) and view.target.since(4, 0):
        yield from _upgraded_join(view, writer)


def _upgraded_join(view: CheckpointView, writer: SparkVersion) -> Iterator[Finding]:
    strict = sorted(
        {
            field.name
            for operator in view.operators
            if operator.is_join
            for schema in operator.readable_schemas
            for field in (*schema.key, *schema.value)
            if not field.nullable and field.name not in ("index", "matched", "value")
        }
    )
    if not strict or view.next_batch == 0:
        return
    message = (
        f"A stream-stream join of Spark {writer.major}.{writer.minor} has non-nullable columns "
        f"({', '.join(strict)}). "
        f"Spark {view.target} reads them as nullable and calls the state incompatible."
    )
    remedy = (
        "start once with spark.sql.streaming.stateStore.stateSchemaCheck=false (only the nullability differs)",
        f"or stay on Spark {writer.major}.{writer.minor}",
    )
    evidence: dict[str, Any] = {"columns": strict, "written_by": str(writer), "target": str(view.target)}
    condition = "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE"
    if view.target.since(4, 3):
        yield restart_fails("run.version", message, condition=condition, remedy=remedy, **evidence)
    else:
        yield fails_later(
            "run.version", message, when=FIRST_BATCH, condition=condition, remedy=remedy, **evidence
        )


def future_watermark(view: CheckpointView) -> Iterator[Finding]:
    """`wm.future`: the watermark is ahead of the clock, so new rows are dropped as late."""
    watermarks = [
        view.last_commit.watermark_ms if view.last_commit else 0,
        view.last.watermark_ms if view.last else 0,
    ]
    seconds = max(watermarks) / 1000
    if not view.inventory.collected_at or seconds <= view.inventory.collected_at + FUTURE_SECONDS:
        return
    message = f"The watermark is in the future, at {_date_text(seconds)}. Rows before it count as late and are dropped."
    remedy = (
        "find the row with the wrong event time and filter such rows",
        f"rewind to the batch before it, because a watermark never goes back by itself: {rewind_command(view)}",
    )
    yield results_change("wm.future", message, watermark_ms=max(watermarks), remedy=remedy)


def _date_text(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat()
    except (ValueError, OverflowError, OSError):
        return f"{seconds:.0f} s after 1970"
