"""Request and response bodies. Times are RFC 3339 UTC, durations seconds; null means not known.

A field is added freely and renamed never: scripts, dashboards and the UI read these names.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator

from listeners.protocol.wire import MAX_NESTED, is_nested_too_deep

Stamp = str | None
Number = float | None
Whole = int | None
Text = Annotated[str, StringConstraints(strip_whitespace=True, max_length=2000)]
Person = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]


class Body(BaseModel):
    model_config = ConfigDict(frozen=True)


class ErrorDetail(Body):
    code: str
    message: str
    detail: dict[str, Any]


class ErrorBody(Body):
    """Every refusal has this shape."""

    error: ErrorDetail


class ActionRequest(BaseModel):
    """`POST …/actions`. `actor` is the signed-in person, where a page speaks for one.

    `force`: start in spite of a checkpoint that the doctor calls broken.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    action: Literal["stop", "start", "restart"]
    drain: bool = False
    overrides: dict[str, Any] = Field(default_factory=dict, max_length=100)
    reason: Text = ""
    actor: Person | None = None
    force: bool = False

    @field_validator("overrides")
    @classmethod
    def _is_flat_enough(cls, overrides: dict[str, Any]) -> dict[str, Any]:
        if is_nested_too_deep(overrides):
            raise ValueError(f"overrides must not be nested deeper than {MAX_NESTED}")
        return overrides


class RetireRequest(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    reason: Text = ""
    actor: Person | None = None


class RejectedLine(Body):
    line: int
    error: str


class EventsAnswer(Body):
    """`acknowledged`: every event of this agent up to this `seq` is stored or will never be taken."""

    acknowledged: int
    stored: int
    duplicates: int
    rejected: list[RejectedLine]


class FailureBody(Body):
    condition: str | None
    message: str
    root_cause: str | None
    retry: str
    advice: str
    text: str


class ActionBody(Body):
    """`reason` is the outcome's sentence, `request_reason` the person's."""

    id: str
    query_id: str
    app: str
    name: str | None
    action: str
    drain: bool
    overrides: dict[str, Any]
    actor: str
    state: str
    reason: str
    request_reason: str
    evidence: dict[str, Any]
    requested_at: str
    delivered_at: Stamp
    finished_at: Stamp
    deadline_at: str
    agent: str | None


class RestartBody(Body):
    """Whether a restart can be done without the user's factory, and why not."""

    how: str
    reason: str | None


class RecentBody(Body):
    """The last progress reports, oldest first."""

    batch_duration_seconds: list[Number]
    lag_rows: list[Number]
    processed_rows_per_second: list[Number]


class QueryBody(Body):
    """`alerts`: how many fire for it or its application and are not muted; `alert_severity`: the worst.

    `vanished`: its driver lives and no longer lists it.
    """

    query_id: str
    app: str
    name: str | None
    status: str
    reason: str
    since: str
    run_id: str | None
    batch_id: Whole
    labels: dict[str, str]
    alerts: int
    alert_severity: str | None
    vanished: bool
    agent: str | None
    spark_version: str | None
    ui_url: str | None
    trigger: str | None
    trigger_interval_seconds: Number
    last_progress_at: Stamp
    last_event_at: Stamp
    arrival_rows_per_second: Number
    input_rows_per_second: Number
    processed_rows_per_second: Number
    batch_duration_seconds: Number
    lag_rows: Number
    lag_seconds: Number
    state_rows: Whole
    state_bytes: Whole
    watermark: Stamp
    starts: int
    actions_allowed: str
    restart: RestartBody
    action: ActionBody | None
    recent: RecentBody


class FleetBody(Body):
    """Worst first. `counts` are of all queries shown, by status."""

    as_of: str
    counts: dict[str, int]
    queries: list[QueryBody]


class RunBody(Body):
    run_id: str
    started_at: str
    ended_at: Stamp
    end: str | None
    first_batch_id: Whole
    last_batch_id: Whole
    batches: int
    agent: str
    failure: FailureBody | None


class RunsBody(Body):
    runs: list[RunBody]


class SourceBody(Body):
    """One source of the last progress; offsets as Spark writes them: object, number, text or null."""

    description: str
    start_offset: Any
    end_offset: Any
    latest_offset: Any
    lag_rows: Number
    input_rows: Whole
    input_rows_per_second: Number
    processed_rows_per_second: Number
    metrics: dict[str, Any]


class FactsBody(Body):
    trigger: str | None
    trigger_interval: Number
    checkpoint: str | None
    checkpoint_is_temporary: bool | None
    output_mode: str | None
    sink: str | None
    restart: str | None
    restart_reason: str | None


class AgentBody(Body):
    agent: str
    app: str
    app_id: str | None
    spark_version: str | None
    master: str | None
    ui_url: str | None
    actions: str
    first_seen_at: str
    last_seen_at: str
    ended_at: Stamp
    end_reason: str | None
    clock_offset_seconds: float
    dropped: dict[str, int]


class AgentsBody(Body):
    agents: list[AgentBody]


class ChangeBody(Body):
    at: str
    status: str
    reason: str


class GapBody(Body):
    """Batches that ran and were not reported. `run_id`: the run whose report showed it."""

    model_config = ConfigDict(frozen=True, serialize_by_alias=True)

    query_id: str
    run_id: str
    first: int = Field(alias="from")
    last: int = Field(alias="to")
    seen_at: str


class QueryDetailBody(QueryBody):
    runs: list[RunBody]
    sources: list[SourceBody]
    sink: dict[str, Any] | None
    operators: list[dict[str, Any]]
    facts: FactsBody
    agent_info: AgentBody | None
    failure: FailureBody | None
    changes: list[ChangeBody]
    actions: list[ActionBody]
    latest_progress: dict[str, Any] | None
    superseded_by: str | None
    gaps: list[GapBody]


class ProgressBody(Body):
    """One report; or, of the far past, medians of `resolution` seconds, without a run (`""`) and a batch (-1)."""

    at: str
    trigger_at: str
    run_id: str
    batch_id: int
    batch_duration_seconds: float
    phases_ms: dict[str, float]
    input_rows: int
    arrival_rows_per_second: Number
    input_rows_per_second: Number
    processed_rows_per_second: Number
    lag_rows: Number
    output_rows: Whole
    state_rows: Whole
    state_bytes: Whole
    watermark: Stamp
    resolution: Number = None


class ProgressListBody(Body):
    """`resolution`: seconds that a point stands for where that is longest; null where all are reports."""

    progress: list[ProgressBody]
    resolution: Number = None
    notes: list[str] = []


class EventBody(Body):
    """One event as stored; `data` is what the agent sent."""

    id: int
    at: str
    type: str
    agent: str
    seq: int
    data: dict[str, Any]


class EventsBody(Body):
    """`next`: give it as `after` for the next page; null at the end."""

    events: list[EventBody]
    next: int | None


class OneActionBody(Body):
    action: ActionBody


class ActionsBody(Body):
    actions: list[ActionBody]


class WhoBody(Body):
    name: str
    role: str


class StateBody(Body):
    """`reasons` say what is wrong; empty when nothing is."""

    status: str
    reasons: list[str] = []
