"""The server's domain model as frozen values: queries, runs, progress samples, agents, actions.

The store reads and writes them, the window holds the recent ones, `controlplane.health.judge` judges them, the API
renders them. Times are Unix seconds (UTC), durations seconds, sizes bytes. `None` means "unknown", never zero.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from controlplane.driver_model import FailedDriver, HostLoad, Outage
from controlplane.supervision_model import NOT_SUPERVISED, CheckpointWriter, Supervised


class QueryStatus(StrEnum):
    """The status of a query, worst first (the order of the Fleet page)."""

    FAILED = "failed"
    LOST = "lost"
    UNREACHABLE = "unreachable"
    STUCK = "stuck"
    LAGGING = "lagging"
    BACKING_OFF = "backing_off"
    RESTARTING = "restarting"
    BUSY = "busy"
    STARTING = "starting"
    STOPPED = "stopped"
    RUNNING = "running"
    IDLE = "idle"
    FINISHED = "finished"
    RETIRED = "retired"


class Role(StrEnum):
    """Permissions of a token: viewer < operator < admin; `agent` is separate (events and commands only)."""

    AGENT = "agent"
    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"


class ActionState(StrEnum):
    """The states of an action; the last five are final."""

    REQUESTED = "requested"
    DELIVERED = "delivered"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    UNVERIFIED = "unverified"
    REFUSED = "refused"
    EXPIRED = "expired"

    @property
    def final(self) -> bool:
        """Whether no further state can follow."""
        return self not in (ActionState.REQUESTED, ActionState.DELIVERED, ActionState.RUNNING)


class RunEnd(StrEnum):
    """How a run ended."""

    STOPPED = "stopped"
    FAILED = "failed"
    FINISHED = "finished"
    LOST = "lost"


@dataclass(frozen=True)
class Agent:
    """One agent process as of its last event.

    `clock_offset`: seconds to add to its clock to get the server's. `contact_at`: when the process itself last sent a
    request, whose events may be older, by the server's clock; in memory only.
    """

    key: int
    agent: str
    app: str
    app_id: str | None = None
    spark_version: str | None = None
    master: str | None = None
    ui_url: str | None = None
    actions: str = "all"
    first_seen_at: float = 0.0
    last_seen_at: float = 0.0
    ended_at: float | None = None
    end_reason: str | None = None
    clock_offset: float = 0.0
    high_seq: int = 0
    dropped: Mapping[str, int] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    outage: Outage | None = None
    contact_at: float = 0.0

    @property
    def last_contact_at(self) -> float:
        """When the agent was last seen, by its events or by a request."""
        return max(self.last_seen_at, self.contact_at)


@dataclass(frozen=True)
class Failure:
    """Why a run or a start failed. `condition` is the innermost known error condition of Spark.

    `kind`: in metrics: the condition, a name from `failures.toml`, or `unknown`. `change`: of the query, the cause.
    """

    condition: str | None
    message: str
    root_cause: str | None
    retry: str
    advice: str
    text: str = ""
    kind: str = "unknown"
    change: str | None = None


@dataclass(frozen=True)
class Run:
    """One run of a query: from a start to its end."""

    key: int
    run_id: str
    query_id: str
    agent: str
    started_at: float
    ended_at: float | None = None
    end: RunEnd | None = None
    first_batch_id: int | None = None
    last_batch_id: int | None = None
    batches: int = 0
    failure_text: str | None = None
    error_class: str | None = None


@functools.lru_cache(maxsize=4096)
def source_name(description: str) -> str:
    """`org.apache…v2.RateStream@5559afa1` → `RateStream`: without package and hash."""
    return re.sub(r"^(?:[a-z]\w*\.)+(?=[A-Z])", "", re.sub(r"@[0-9a-f]{4,8}$", "", description))


@dataclass(frozen=True)
class SourceSample:
    """One source in one progress report.

    Offsets are flat: `{"topic/0": 123.0}`; None where not numeric or absent.
    """

    description: str
    start: Mapping[str, float] | None
    end: Mapping[str, float] | None
    latest: Mapping[str, float] | None
    input_rows: int
    input_rows_per_second: float | None = None
    processed_rows_per_second: float | None = None
    metrics: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The description as shown to people and in metrics: the same in every run."""
        return source_name(self.description)

    @functools.cached_property
    def lag_offsets(self) -> float | None:
        """Latest offset minus end offset, in the source's own unit; None where it reports no latest offset.

        `controlplane.health.offset_units` decides whether that is a number of rows.
        """
        if not self.latest or self.end is None:
            return None
        return sum(max(0.0, offset - self.end.get(part, 0.0)) for part, offset in self.latest.items())


@dataclass(frozen=True)
class OperatorSample:
    """One stateful operator in one progress report. `metrics`: Spark's custom metrics, numbers only."""

    name: str
    rows_total: int
    rows_updated: int
    rows_removed: int
    rows_dropped_by_watermark: int
    memory_bytes: int
    commit_ms: int
    shuffle_partitions: int | None
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class ProgressSample:
    """One progress report. `at`: when the agent received it; `trigger_at`: when its trigger began."""

    at: float
    trigger_at: float
    run_id: str
    batch_id: int
    duration: float
    phases_ms: Mapping[str, int]
    input_rows: int
    input_rows_per_second: float | None
    processed_rows_per_second: float | None
    sources: tuple[SourceSample, ...] = ()
    operators: tuple[OperatorSample, ...] = ()
    sink: str = ""
    output_rows: int | None = None
    watermark: float | None = None
    event_time: Mapping[str, float] = field(default_factory=dict)

    @functools.cached_property
    def lag_offsets(self) -> float | None:
        """Sum over the sources that report a latest offset; None if none does."""
        known = [lag for source in self.sources if (lag := source.lag_offsets) is not None]
        return sum(known) if known else None

    @property
    def state_rows(self) -> int | None:
        """Rows in all state stores; None without a stateful operator."""
        return sum(op.rows_total for op in self.operators) if self.operators else None

    @property
    def state_bytes(self) -> int | None:
        """Memory of all state stores; None without a stateful operator."""
        return sum(op.memory_bytes for op in self.operators) if self.operators else None


@dataclass(frozen=True)
class StatusSample:
    """The polled `query.status` of one active run. `at`: when the agent asked Spark for it.

    `tasks_completed`: tasks of the running batch that have finished, as of `tasks_at`; the count has not
    changed since `tasks_since`. `last_task_at`: when the agent last saw it rise, None if never.
    """

    at: float
    run_id: str
    message: str
    data_available: bool
    trigger_active: bool
    tasks_active: int | None = None
    tasks_completed: int | None = None
    last_task_at: float | None = None
    tasks_at: float | None = None
    tasks_since: float | None = None

    @property
    def epoch(self) -> int | None:
        """The newest epoch of a continuous query, the only progress that Spark shows for one."""
        found = _EPOCH.match(self.message)
        return int(found.group(1)) if found else None


_EPOCH = re.compile(r"Committing epoch (\d{1,18})\b")


#: Triggers whose runs end by themselves; they start with a backlog.
ENDING_TRIGGERS = frozenset({"available_now", "once"})


@dataclass(frozen=True)
class RunFacts:
    """Facts that the agent collects when a run starts; every field may be unknown."""

    trigger: str | None = None  # processing_time | available_now | once | continuous | real_time
    trigger_interval: float | None = None  # seconds; 0 = as soon as possible
    checkpoint: str | None = None
    checkpoint_is_temporary: bool | None = None
    output_mode: str | None = None
    sink: str | None = None
    restart: str | None = None  # reuse | factory | needs_factory
    restart_reason: str | None = None
    watermark_delay: float | None = None  # seconds; the longest of its watermarks


@dataclass(frozen=True)
class ShapeChange:
    """The gravest change that a run made and its checkpoint does not allow. `others`: the number of further ones.

    `fails`: Spark fails because of it; otherwise it runs and harms results. `spark`: what Spark does.
    """

    run_id: str
    change: str
    spark: str
    remedy: str
    fails: bool
    others: int = 0


@dataclass(frozen=True)
class CheckpointLogs:
    """The newest batches in offsets/ and commits/ of a running query, as of `at`; None: the log is empty."""

    at: float
    planned: int | None
    committed: int | None


@dataclass(frozen=True)
class CheckpointSummary:
    """The doctor's report on a query's checkpoint as of `taken_at`. `counts`: (check, severity) → findings.

    `predicted_failure`: the finding by which a restart will fail, in a sentence. `trouble`: why the inventory
    could not be judged. `logs`: a later reading of the logs alone.
    """

    taken_at: float
    verdict: str  # ok | risky | broken | unreadable
    summary: str
    checkpoint: str
    run_id: str | None = None
    collector: str | None = None
    why: str | None = None
    spark_version: str | None = None
    target_spark: str | None = None
    last_planned_batch: int | None = None
    last_committed_batch: int | None = None
    next_batch: int | None = None
    bytes: int | None = None
    files: int | None = None
    committed_at: float | None = None
    counts: Mapping[tuple[str, str], int] = field(default_factory=dict)
    predicted_failure: str | None = None
    trouble: str | None = None
    logs: CheckpointLogs | None = None


@dataclass(frozen=True)
class QueryView:
    """Everything that the verdict on one query depends on: recent samples, newest run, agent, action."""

    query_id: str
    app: str
    name: str | None
    labels: Mapping[str, str]
    first_seen_at: float
    agent: Agent | None
    run: Run | None  # the newest run
    ended_by: str | None = None  # the evidence of its end, see `controlplane.records.RunRow`
    facts: RunFacts = RunFacts()
    progress: tuple[ProgressSample, ...] = ()  # oldest first, of all runs, at most the window's length
    idle_at: float | None = None  # last idle event of the newest run
    status: StatusSample | None = None  # last polled status of the newest run
    last_event_at: float = 0.0  # when an event, or a list of active queries, last named the newest run
    polls: tuple[float, ...] = ()  # when the run's agent listed its queries, see `AgentRow.polls`
    start_failed_at: float | None = None
    start_failure: str | None = None
    action: Action | None = None  # the action under way, if any
    retired_at: float | None = None
    checkpoint: CheckpointSummary | None = None  # the newest inventory's verdict
    change: ShapeChange | None = None  # of the newest run
    host: HostLoad | None = None  # of the run's agent, in its last heartbeat
    executors: int | None = None  # in that heartbeat
    overload: HostLoad | None = None  # in its last heartbeat that showed an overload
    next_driver: FailedDriver | None = None  # of the app, after the run's driver ended
    next_driver_at: float | None = None  # when the newest driver of the app began, if it is not the run's
    supervised: Supervised = NOT_SUPERVISED
    writers: tuple[CheckpointWriter, ...] = ()  # the newest run while open, then those of other drivers
    beside: tuple[CheckpointWriter, ...] = ()  # open runs of other drivers, after the newest run has ended
    outlives_agent: bool = False  # the newest run was active when its agent ended, and did not end with it


@dataclass(frozen=True)
class Verdict:
    """A status, and the sentence that names the figures behind it."""

    status: QueryStatus
    reason: str


@dataclass(frozen=True)
class Action:
    """A requested stop, start or restart. `reason` explains the outcome, `request_reason` the request."""

    id: str
    query_id: str
    app: str
    name: str | None
    action: str
    actor: str
    state: ActionState
    requested_at: float
    deadline_at: float
    request_reason: str = ""
    reason: str = ""
    drain: bool = False
    overrides: Mapping[str, Any] = field(default_factory=dict)
    evidence: Mapping[str, Any] = field(default_factory=dict)
    agent: str | None = None
    idempotency_key: str | None = None
    delivered_at: float | None = None
    finished_at: float | None = None
    previous_run_id: str | None = None
    previous_batch_id: int | None = None
