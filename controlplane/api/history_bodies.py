"""Response bodies of past data: the timeline from the lake and the state of the offload.

Times are RFC 3339 UTC; null means not known.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field

from controlplane.api.bodies import Body, FailureBody, Number, Stamp


class BatchBody(Body):
    """A progress report as Spark wrote it."""

    report: dict[str, Any]


class PastRunBody(Body):
    """A run of the lake. `started_at` null: it began before `first_seen_at`. `ended_at` null: the end is unknown.

    `end`: `stopped`, `failed`, or `lost` if another run followed and the end of this run was not reported.
    """

    run_id: str
    started_at: Stamp
    ended_at: Stamp
    end: str | None
    first_seen_at: Stamp
    last_seen_at: Stamp
    failure: FailureBody | None


class PastAlertBody(Body):
    """An alert that fired, from the lake."""

    name: str
    severity: str | None
    fingerprint: str
    fired_at: str
    resolved_at: Stamp
    annotations: dict[str, str]


class PastActionBody(Body):
    """An action, from the lake."""

    id: str
    action: str
    actor: str | None
    state: str
    request_reason: str | None
    reason: str | None
    requested_at: str
    finished_at: Stamp
    evidence: dict[str, Any]


class TimelineBody(Body):
    """Runs, alerts and actions from the lake, oldest first, the newest 500 of each. `notes`: what is missing and why.

    The evidence of an action has only its scalar values, a failure its first 4 096 characters.
    """

    runs: list[PastRunBody]
    alerts: list[PastAlertBody]
    actions: list[PastActionBody]
    notes: list[str] = Field(default_factory=list)


class HistoryBody(Body):
    """State of the offload to the lake. `offloaded_until`: id of the last event that is in the lake.

    `lost_events`: events deleted before the lake had them. `error`: why nothing is offloaded; until then the events
    stay in the store.
    """

    lake: str | None
    hot_days: Number
    offloaded_until: int
    offloading: bool
    offloaded_at: Stamp
    verified_at: Stamp
    next_at: Stamp
    rows: int
    lost_events: int
    error: str | None
