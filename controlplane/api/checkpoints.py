"""Checkpoints and shapes as response bodies. Pure: everything comes in as arguments.

Called by `controlplane.api.routes.checkpoints`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from controlplane.api.bodies import Body, Number, Stamp, Whole
from controlplane.api.render import stamp
from controlplane.model import QueryView

#: The worst first.
VERDICTS = ("broken", "unreadable", "risky", "unknown", "ok")
SEVERITIES = ("error", "warning", "info")
MAX_FIELD_CHARS = 4000


class CheckpointBody(Body):
    """`collected_at`: of the newest inventory; `stale`: a run began or ended since; `trouble`: why there is none."""

    query_id: str
    app: str
    query: str | None
    checkpoint: str | None
    verdict: str
    summary: str
    collected_at: Stamp
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
    as_of: str
    checkpoints: list[CheckpointBody]


class StoreBody(Body):
    operator: int
    partition: int
    store: str
    newest_version: Whole
    newest_snapshot: Whole
    expected_version: Whole
    files: int
    bytes: int


class GrowthBody(Body):
    at: str
    bytes: Whole
    files: Whole


class ShapeBody(Body):
    """How the newest run's shape compares with the run before."""

    compared_at: Stamp
    run_id: str
    previous_run_id: str | None
    verdict: str
    findings: list[dict[str, Any]]


class CheckpointDetailBody(Body):
    checkpoint: CheckpointBody
    findings: list[dict[str, Any]]
    stores: list[StoreBody]
    growth: list[GrowthBody]
    shape: ShapeBody | None


class RequestedBody(Body):
    """`by`: who looks, the `agent` or this `server`."""

    requested: bool
    by: str


class RunShapeBody(Body):
    run_id: str
    at: str
    shape: dict[str, Any]


class AgainstBody(Body):
    run_id: str
    at: str


class PreflightBody(Body):
    verdict: str
    effect: str
    findings: list[dict[str, Any]]
    against: AgainstBody | None


class PreflightRequest(BaseModel):
    """`POST /preflight`: a query that is to start. `shape` as the agent tells it."""

    model_config = ConfigDict(extra="forbid", strict=True)

    app: str = Field(min_length=1, max_length=256)
    name: str | None = Field(default=None, max_length=256)
    query_id: str | None = Field(default=None, max_length=64)
    checkpoint: str | None = Field(default=None, max_length=MAX_FIELD_CHARS)
    shape: dict[str, Any]


class InventoryRequestBody(BaseModel):
    """`POST …/inventory`: nothing needs to be said."""

    model_config = ConfigDict(extra="forbid", strict=True)


def checkpoint_body(view: QueryView, collecting: bool, trouble: str | None) -> CheckpointBody:
    """What is known of a query's checkpoint; `trouble`: why the last look brought nothing."""
    seen, facts = view.checkpoint, view.facts
    told = {name: getattr(seen, name) if seen else None for name in _TOLD}
    return CheckpointBody(
        query_id=view.query_id,
        app=view.app,
        query=view.name,
        checkpoint=facts.checkpoint or (seen.checkpoint if seen else None),
        verdict=seen.verdict if seen else "unknown",
        summary=seen.summary if seen else _why_unknown(view),
        collected_at=stamp(seen.taken_at if seen else None),
        counts=_counts(seen.counts if seen else {}),
        collecting=collecting,
        stale=is_stale(view),
        trouble=trouble or (seen.trouble if seen else _why_unknown(view)),
        **told,
    )


_TOLD = (
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
    return {word: sum(n for (_, severity), n in counts.items() if severity == word) for word in SEVERITIES}


def _why_unknown(view: QueryView) -> str:
    if view.facts.checkpoint_is_temporary:
        return "its checkpoint is temporary and goes with its run"
    if view.run is None:
        return "it has never run"
    return "no inventory of it has come yet"


def is_stale(view: QueryView) -> bool:
    """Whether a run began or ended since the newest inventory."""
    if view.checkpoint is None or view.run is None:
        return False
    return view.checkpoint.taken_at < max(view.run.started_at, view.run.ended_at or 0.0)


def worst_first(bodies: Sequence[CheckpointBody]) -> list[CheckpointBody]:
    return sorted(bodies, key=lambda b: (VERDICTS.index(b.verdict), b.app, b.query or "", b.query_id))


def detail_body(
    body: CheckpointBody,
    judgement: Mapping[str, Any] | None,
    headers: Sequence[Mapping[str, Any]],
    shape: Mapping[str, Any] | None,
) -> CheckpointDetailBody:
    found = judgement or {}
    return CheckpointDetailBody(
        checkpoint=body,
        findings=list(found.get("findings") or ()),
        stores=[StoreBody(**store) for store in found.get("stores") or ()],
        growth=[
            GrowthBody(at=stamp(h["taken_at"]) or "", bytes=h.get("bytes"), files=h.get("files"))
            for h in headers
        ],
        shape=shape_body(shape),
    )


def shape_body(row: Mapping[str, Any] | None) -> ShapeBody | None:
    """The comparison of a run's shape; None where the run told none. Without a run before it is *unknown*."""
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


def preflight_body(told: Mapping[str, Any]) -> PreflightBody:
    against = told["against"]
    return PreflightBody(
        verdict=told["verdict"],
        effect=told["effect"],
        findings=told["findings"],
        against=AgainstBody(run_id=against["run_id"], at=stamp(against["at"]) or "") if against else None,
    )
