"""Response bodies of checkpoints, shapes and preflight checks. Pure.

Called by `controlplane.api.routes.checkpoints`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from controlplane.api.bodies import Body, Number, Stamp, Whole
from controlplane.api.render import stamp
from controlplane.health.checkpoint_verdict import OK_AT_CHECK, OUTDATED, current, is_stale
from controlplane.model import QueryView

#: Verdicts, worst first.
VERDICTS = ("broken", "unreadable", "risky", "unknown", OUTDATED, OK_AT_CHECK, "ok")
SEVERITIES = ("error", "warning", "info")
MAX_FIELD_CHARS = 4000


class CheckpointBody(Body):
    """A checkpoint. `collected_at`: time of the newest inventory; `logs_read_at`: of a later reading of its logs.

    `ok_at_check`: no fault was found, and the same run has committed batches since, within minutes. `outdated`: longer
    ago, or a run began or ended since. `stale`: it is long outdated, or a run began or ended. `trouble`: why there is
    no newer inventory.
    """

    query_id: str
    app: str
    query: str | None
    checkpoint: str | None
    verdict: str
    summary: str
    collected_at: Stamp
    logs_read_at: Stamp
    collector: str | None
    why: str | None
    spark_version: str | None
    target_spark: str | None
    last_planned_batch: Whole
    last_committed_batch: Whole
    next_batch: Whole
    bytes: Whole
    files: Whole
    counts: dict[str, int]
    collecting: bool
    stale: bool
    trouble: str | None


class CheckpointsBody(Body):
    """Checkpoints, worst first."""

    as_of: str
    checkpoints: list[CheckpointBody]


class StoreBody(Body):
    """A state store of an operator's partition."""

    operator: int
    partition: int
    store: str
    newest_version: Whole
    newest_snapshot: Whole
    expected_version: Whole
    files: int
    bytes: int


class GrowthBody(Body):
    """Size of a checkpoint at the time of an inventory."""

    at: str
    bytes: Whole
    files: Whole


class ShapeBody(Body):
    """The comparison of the newest run's shape with the previous run."""

    compared_at: Stamp
    run_id: str
    previous_run_id: str | None
    verdict: str
    findings: list[dict[str, Any]]


class CheckpointDetailBody(Body):
    """A checkpoint with its findings, state stores, growth and shape comparison."""

    checkpoint: CheckpointBody
    findings: list[dict[str, Any]]
    stores: list[StoreBody]
    growth: list[GrowthBody]
    shape: ShapeBody | None


class RequestedBody(Body):
    """A requested inventory. `by`: the collector, `agent` or `server`."""

    requested: bool
    by: str


class RunShapeBody(Body):
    """The shape of a run."""

    run_id: str
    at: str
    shape: dict[str, Any]


class AgainstBody(Body):
    """The run that a preflight check compares with."""

    run_id: str
    at: str


class PreflightBody(Body):
    """The result of a preflight check: whether the query would restart from its checkpoint."""

    verdict: str
    effect: str
    findings: list[dict[str, Any]]
    against: AgainstBody | None


class PreflightRequest(BaseModel):
    """`POST /preflight`: a query to be started. `shape`: as the agent reports it."""

    model_config = ConfigDict(extra="forbid", strict=True)

    app: str = Field(min_length=1, max_length=256)
    name: str | None = Field(default=None, max_length=256)
    query_id: str | None = Field(default=None, max_length=64)
    checkpoint: str | None = Field(default=None, max_length=MAX_FIELD_CHARS)
    shape: dict[str, Any]


class InventoryRequestBody(BaseModel):
    """`POST …/inventory`: an empty object."""

    model_config = ConfigDict(extra="forbid", strict=True)


def checkpoint_body(view: QueryView, collecting: bool, trouble: str | None, now: float) -> CheckpointBody:
    """The body of a query's checkpoint; `trouble`: why the last inventory request failed."""
    seen, facts = current(view), view.facts
    summary_values = {name: getattr(seen, name) if seen else None for name in _SUMMARY_FIELDS}
    return CheckpointBody(
        query_id=view.query_id,
        app=view.app,
        query=view.name,
        checkpoint=facts.checkpoint or (seen.checkpoint if seen else None),
        verdict=seen.verdict if seen else "unknown",
        summary=seen.summary if seen else _why_unknown(view),
        collected_at=stamp(seen.taken_at if seen else None),
        logs_read_at=stamp(seen.logs.at if seen and seen.logs else None),
        counts=_counts(seen.counts if seen else {}),
        collecting=collecting,
        stale=is_stale(view, now),
        trouble=trouble or (seen.trouble if seen else _why_unknown(view)),
        **summary_values,
    )


_SUMMARY_FIELDS = (
    "collector",
    "why",
    "spark_version",
    "target_spark",
    "last_planned_batch",
    "last_committed_batch",
    "next_batch",
    "bytes",
    "files",
)


def _counts(counts: Mapping[tuple[str, str], int]) -> dict[str, int]:
    return {name: sum(n for (_, severity), n in counts.items() if severity == name) for name in SEVERITIES}


def _why_unknown(view: QueryView) -> str:
    if view.facts.checkpoint_is_temporary:
        return "the checkpoint is temporary and is deleted with the run"
    if view.run is None:
        return "the query has never run"
    return "no inventory has arrived yet"


def worst_first(bodies: Sequence[CheckpointBody]) -> list[CheckpointBody]:
    """The checkpoints by verdict, worst first, then by app and name."""
    return sorted(bodies, key=lambda b: (VERDICTS.index(b.verdict), b.app, b.query or "", b.query_id))


def detail_body(
    body: CheckpointBody,
    report: Mapping[str, Any] | None,
    summaries: Sequence[Mapping[str, Any]],
    shape: Mapping[str, Any] | None,
) -> CheckpointDetailBody:
    """The body of a checkpoint with its stored report and inventory summaries."""
    found = report or {}
    return CheckpointDetailBody(
        checkpoint=body,
        findings=list(found.get("findings") or ()),
        stores=[StoreBody(**store) for store in found.get("stores") or ()],
        growth=[
            GrowthBody(
                at=stamp(summary["taken_at"]) or "", bytes=summary.get("bytes"), files=summary.get("files")
            )
            for summary in summaries
        ],
        shape=shape_body(shape),
    )


def shape_body(row: Mapping[str, Any] | None) -> ShapeBody | None:
    """The comparison of a run's shape; None without a shape. Without a previous run its verdict is `unknown`."""
    if row is None:
        return None
    comparison = row["comparison"] or {}
    return ShapeBody(
        compared_at=stamp(_number(comparison.get("compared_at"))),
        run_id=row["run_id"],
        previous_run_id=comparison.get("previous_run_id"),
        verdict=comparison.get("verdict", "unknown"),
        findings=list(comparison.get("findings") or ()),
    )


def _number(value: object) -> Number:
    return float(value) if isinstance(value, int | float) else None


def preflight_body(result: Mapping[str, Any]) -> PreflightBody:
    """The body of a preflight result."""
    against = result["against"]
    return PreflightBody(
        verdict=result["verdict"],
        effect=result["effect"],
        findings=result["findings"],
        against=AgainstBody(run_id=against["run_id"], at=stamp(against["at"]) or "") if against else None,
    )
