"""Request and response bodies. Times are RFC 3339 UTC, durations are in seconds, null means unknown.

Fields may be added but not renamed: scripts, dashboards and the UI read them.
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
    """Base of the response bodies: immutable."""

    model_config = ConfigDict(frozen=True)


class ErrorDetail(Body):
    """`code` is for programs, `message` for people."""

    code: str
    message: str
    detail: dict[str, Any]


class ErrorBody(Body):
    """The body of every error response."""

    error: ErrorDetail


class ActionRequest(BaseModel):
    """`POST …/actions`. `actor`: the signed-in person on whose behalf the UI sends the request.

    `force`: start although the checkpoint is broken.
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
    """`POST …/retire`."""

    model_config = ConfigDict(extra="forbid", strict=True)

    reason: Text = ""
    actor: Person | None = None


class RejectedLine(Body):
    """A rejected line of a batch of events; `line` counts from 1."""

    line: int
    error: str


class EventsAnswer(Body):
    """`acknowledged`: every event of the agent up to this `seq` is stored or rejected for good."""

    acknowledged: int
    stored: int
    duplicates: int
    rejected: list[RejectedLine]


class FailureBody(Body):
    """A Spark exception explained: error condition, root cause, whether a retry helps, and advice.

    `change`: the change of the query that caused the failure.
    """

    condition: str | None
    message: str
    root_cause: str | None
    retry: str
    advice: str
    text: str
    change: str | None


class ActionBody(Body):
    """An action. `reason` explains its state, `request_reason` is the person's reason for the request."""

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
    """How the query can be restarted; `reason`: why it cannot be restarted without a registered factory."""

    how: str
    reason: str | None


class RecentBody(Body):
    """The last progress reports, oldest first."""

    batch_duration_seconds: list[Number]
    lag_rows: list[Number]
    processed_rows_per_second: list[Number]


class QueryBody(Body):
    """A query. `alerts`: firing alerts of it or its app that are not muted; `alert_severity`: the worst of them;
    `firing`: their names, worst first. `reason` is the sentence of the verdict, and it names these alerts.
    Lag and arrival rate are null until the run has finished a batch, and while it does not run. `desired`: running,
    suspended or stopped. `vanished`: the driver is alive and no longer lists the query. `no_driver`: why no action
    can reach Spark, and what to do instead; null where one can. `lag_rows` is null where offsets do not count rows;
    `lag_offsets` is in the sources' own units, `lag_batches` the same in batches of the recent size; `lag_unknown`:
    why there is no lag, or none in rows.
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
    firing: list[str]
    vanished: bool
    no_driver: str | None
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
    lag_offsets: Number
    lag_batches: Number
    lag_unknown: str | None
    lag_seconds: Number
    state_rows: Whole
    state_bytes: Whole
    watermark: Stamp
    starts: int
    actions_allowed: str
    restart: RestartBody
    action: ActionBody | None
    desired: str
    recent: RecentBody


class FleetBody(Body):
    """Queries, worst first. `total`: those that match, on all pages; `counts`: by status, whatever status is asked for.
    `cursor`: for the parameter `since` of the next request. `removed`: ids that match no more, in an answer to `since`;
    without it the answer has all rows. `choices`: `apps` and `labels` (`name=value`), if asked for.
    """

    as_of: str
    counts: dict[str, int]
    total: int
    choices: dict[str, list[str]] = {}
    cursor: str
    removed: list[str] = []
    queries: list[QueryBody]


class RunBody(Body):
    """A run of a query."""

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
    """Runs, newest first."""

    runs: list[RunBody]


class SourceBody(Body):
    """A source in the last progress report; offsets as Spark writes them: object, number, text or null."""

    description: str
    start_offset: Any
    end_offset: Any
    latest_offset: Any
    lag_rows: Number
    lag_offsets: Number
    input_rows: Whole
    input_rows_per_second: Number
    processed_rows_per_second: Number
    metrics: dict[str, Any]


class FactsBody(Body):
    """Facts of the newest run: trigger, checkpoint, sink, output mode, restart."""

    trigger: str | None
    trigger_interval: Number
    checkpoint: str | None
    checkpoint_is_temporary: bool | None
    output_mode: str | None
    sink: str | None
    restart: str | None
    restart_reason: str | None


class OutageBody(Body):
    """Since when Spark does not answer; `cause`: `jvm_exited`, `server_away` or `no_answer`."""

    since: str
    cause: str
    detail: str | None


class AgentBody(Body):
    """An agent. `dropped`: events that it dropped, by reason; `unreachable`: Spark does not answer it."""

    agent: str
    app: str
    app_id: str | None
    labels: dict[str, str]
    spark_version: str | None
    master: str | None
    ui_url: str | None
    actions: str
    first_seen_at: str
    last_seen_at: str
    ended_at: Stamp
    end_reason: str | None
    unreachable: OutageBody | None
    clock_offset_seconds: float
    dropped: dict[str, int]
    host: dict[str, Any] | None


class ChangeBody(Body):
    """A status change."""

    at: str
    status: str
    reason: str


class GapBody(Body):
    """Batches without a progress report. `run_id`: the run whose report revealed the gap."""

    model_config = ConfigDict(frozen=True, serialize_by_alias=True)

    query_id: str
    run_id: str
    first: int = Field(alias="from")
    last: int = Field(alias="to")
    seen_at: str


class QueryDetailBody(QueryBody):
    """A query with its runs, sources, status changes, actions and newest progress report.

    `notes`: sentences on what its figures hide.
    """

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
    notes: list[str]


class ProgressBody(Body):
    """A progress report; or medians over `resolution` seconds from the lake, with run `""` and batch -1."""

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
    """`resolution`: seconds covered by the coarsest point; null if all points are reports."""

    progress: list[ProgressBody]
    resolution: Number = None
    notes: list[str] = []


class EventBody(Body):
    """A stored event; `data` as the agent sent it."""

    id: int
    at: str
    type: str
    agent: str
    seq: int
    data: dict[str, Any]


class EventsBody(Body):
    """A page of events. `next`: the value of `after` for the next page; null on the last page."""

    events: list[EventBody]
    next: int | None


class OneActionBody(Body):
    """A single action."""

    action: ActionBody


class ActionsBody(Body):
    """Actions, newest first."""

    actions: list[ActionBody]


class StateBody(Body):
    """`reasons`: why the server is not ready; empty when it is ready."""

    status: str
    reasons: list[str] = []
