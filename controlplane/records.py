"""The rows that events change (agents, queries, runs) and the unit of work that collects their changes. Pure.

`controlplane.store.writing.unit_of_work` loads and saves a unit of work; `controlplane.events.lifecycle` and
`controlplane.events.run_resolution` change it in between.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

from controlplane.model import Agent, ProgressSample, Run, RunFacts, StatusSample

NO_FACTS = RunFacts()
T = TypeVar("T")


def changed(row: T, **values: object) -> T:
    """`dataclasses.replace` for a frozen dataclass without `__post_init__`, several times as fast: an event changes ten."""
    copy = object.__new__(type(row))
    copy.__dict__.update(row.__dict__, **values)
    return copy


@dataclass(frozen=True)
class Gap:
    """Unreported batches `first` to `last`.

    A report of `run_id` revealed them at `seen_at` by the server's clock.
    """

    run_id: str
    first: int
    last: int
    seen_at: float
    counted: bool = False

    @property
    def size(self) -> int:
        """The number of batches."""
        return self.last - self.first + 1


@dataclass(frozen=True)
class ReportedBatches:
    """Which batches of a query were reported: all from the first received report up to `high`, except the
    gaps.

    `dropped_uncounted`: batches of gaps that were dropped before they were counted; they are counted next.
    """

    high: int | None = None
    gaps: tuple[Gap, ...] = ()
    dropped_uncounted: int = 0


NOTHING = ReportedBatches()


@dataclass(frozen=True)
class AgentRow:
    """An agent with columns that only the store and the unit of work need.

    `described_at`: time of its newest event; `info`: its last app_started and heartbeat, and the last heartbeat that
    showed an overload of its host. `polls`: when it last listed all queries of its driver, oldest first, see
    `controlplane.health.polls`.
    """

    agent: Agent
    described_at: float = 0.0
    polls: tuple[float, ...] = ()
    end_exception: str | None = None
    pruned_seq: int = 0
    info: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class QueryRow:
    """A query. `described_at`: time of the event that its name and labels come from.

    `totals`: its counters, see `Window.totals`; `reported`: which of its batches were reported.
    """

    key: int
    query_id: str
    app: str
    name: str | None
    labels: Mapping[str, str]
    first_seen_at: float
    described_at: float = 0.0
    newest_run: str | None = None
    start_failed_at: float | None = None
    start_failure: str | None = None
    retired_at: float | None = None
    totals: Mapping[str, float] = field(default_factory=dict)
    reported: ReportedBatches = NOTHING


@dataclass(frozen=True)
class QueryNaming:
    """The name and labels that the agent of a run gives its query, as of `at`. Those of the newest run count."""

    at: float
    agent: str
    app: str
    name: str | None
    labels: Mapping[str, str]


@dataclass(frozen=True)
class RunRow:
    """A run with the columns that its verdict needs.

    `first_seq`: the smallest sequence number of the events that its agent sent about it. It orders the runs of one
    agent, whose times may be corrected differently; None in a row of an older release.
    `ended_by` is the evidence of its end: `terminated` (Spark), else `app_ended` (the end of its driver),
    else inferred: `lost` (another driver replaced it) or `superseded` (by a later run in its own driver).
    Stronger evidence replaces weaker; `lost` stays when the run reports again.
    `stored_event_at`: `last_event_at` as the store has it, see `controlplane.events.quiet`.
    """

    run: Run
    last_event_at: float
    first_seq: int | None = None
    ended_by: str | None = None
    facts: RunFacts = NO_FACTS
    idle_at: float | None = None
    status: StatusSample | None = None
    naming: QueryNaming | None = None
    stored_event_at: float = field(default=0.0, compare=False)


@dataclass(frozen=True)
class References:
    """The keys named by a group of events, by which their rows are loaded.

    `ending_agents`: agents that reported their end; `names`: (app, name) of failed starts without a query id.
    """

    agents: set[str]
    ending_agents: set[str]
    query_ids: set[str]
    run_ids: set[str]
    names: set[tuple[str, str | None]]


@dataclass(frozen=True)
class Changes:
    """Rows that a commit changed, and the batches it added, each with its query's id.

    `quiet`: runs of which only the times have changed, see `controlplane.events.quiet`.
    """

    agents: list[AgentRow] = field(default_factory=list)
    queries: list[QueryRow] = field(default_factory=list)
    runs: list[RunRow] = field(default_factory=list)
    batches: list[tuple[str, ProgressSample]] = field(default_factory=list)
    quiet: list[RunRow] = field(default_factory=list)


@dataclass
class UnitOfWork:
    """The rows that a group of events may concern, and which of them have changed: an equal row is no change."""

    agents: dict[str, AgentRow] = field(default_factory=dict)
    queries: dict[str, QueryRow] = field(default_factory=dict)
    runs: dict[str, RunRow] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set)  # ids of changed rows
    quiet: set[str] = field(
        default_factory=set
    )  # runs whose change is neither stored nor news, if not in `changed`
    #: The changed rows as they were loaded; a new row is not among them.
    before: dict[str, Any] = field(default_factory=dict)
    ended_agents: set[str] = field(default_factory=set)
    counts: dict[str, Counter[str]] = field(default_factory=dict)  # query id -> what to add to its totals

    def put_agent(self, row: AgentRow) -> None:
        """Replace an agent's row."""
        known = self.agents.get(row.agent.agent)
        if known is not row and known != row:
            self.agents[row.agent.agent] = row
            self._note(row.agent.agent, known)

    def put_query(self, row: QueryRow) -> None:
        """Replace a query's row."""
        known = self.queries.get(row.query_id)
        if known is not row and known != row:
            self.queries[row.query_id] = row
            self._note(row.query_id, known)

    def put_run(self, row: RunRow) -> None:
        """Replace a run's row."""
        known = self.runs.get(row.run.run_id)
        if known is not row and known != row:
            self.runs[row.run.run_id] = row
            self._note(row.run.run_id, known)

    def put_quiet(self, row: RunRow) -> None:
        """Replace a run's row by one that differs in times alone, see `controlplane.events.quiet`."""
        self.runs[row.run.run_id] = row
        self.quiet.add(row.run.run_id)

    def _note(self, name: str, known: Any) -> None:
        if name not in self.changed and known is not None:
            self.before[name] = known
        self.changed.add(name)

    def count(self, query_id: str, name: str, by: int = 1) -> None:
        """Add to a counter of a query."""
        self.counts.setdefault(query_id, Counter())[name] += by


class DeliveryOutcome(StrEnum):
    """The outcome of evaluating one alert group for one receiver."""

    SENT = "sent"
    FAILED = "failed"
    NOT_SENT = "not_sent"


@dataclass(frozen=True)
class NotificationLogEntry:
    """One entry of the notification log. `reason`: why the notification was sent, or why not."""

    at: float
    receiver: str
    group_key: str
    outcome: DeliveryOutcome
    reason: str
    fingerprints: tuple[str, ...] = ()
