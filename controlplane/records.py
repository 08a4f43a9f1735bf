"""The rows that events change: agents, queries and runs, and the ledger of those under change. Pure.

`controlplane.store.unit_of_work` fills a ledger and saves it, `controlplane.events.lifecycle` and `controlplane.events.run_resolution`
change it in between.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from controlplane.model import Agent, ProgressSample, Run, RunFacts, StatusSample

NO_FACTS = RunFacts()


@dataclass(frozen=True)
class Gap:
    """Batches `first` to `last`; `run_id` is the run whose report showed it, `seen_at` our time then."""

    run_id: str
    first: int
    last: int
    seen_at: float
    counted: bool = False

    @property
    def size(self) -> int:
        return self.last - self.first + 1


@dataclass(frozen=True)
class ReportedBatches:
    """Which batches of a query were reported: all from the first one heard of up to `high`, but the gaps.

    `forgotten`: batches of gaps that were given up before they counted; they count next.
    """

    high: int | None = None
    gaps: tuple[Gap, ...] = ()
    forgotten: int = 0


NOTHING = ReportedBatches()


@dataclass(frozen=True)
class AgentRow:
    """An agent with what only the store and this ledger need. `info`: its last app_started and heartbeat."""

    agent: Agent
    described_at: float = 0.0
    polled_at: float | None = None
    end_exception: str | None = None
    pruned_seq: int = 0
    info: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class QueryRow:
    """A query. `described_at`: time of what told its name and labels; `totals`: its counters, see `Window.totals`.

    `reported`: which of its batches were reported.
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
    """What the agent of a run calls its query, and when it last said so. The newest run's word counts."""

    at: float
    agent: str
    app: str
    name: str | None
    labels: Mapping[str, str]


@dataclass(frozen=True)
class RunRow:
    """A run with what its verdict needs.

    `ended_by` is what told that it is over: `terminated` (Spark), else `app_ended` (its driver's end),
    else inferred: `lost` (another driver took its place) or `superseded` (by a later run in its own driver).
    A stronger one corrects a weaker one; `lost` stays when the run is heard again.
    """

    run: Run
    last_event_at: float
    ended_by: str | None = None
    facts: RunFacts = NO_FACTS
    idle_at: float | None = None
    status: StatusSample | None = None
    naming: QueryNaming | None = None


@dataclass(frozen=True)
class References:
    """What a group of events names: the keys by which their rows are loaded.

    `ending_agents`: agents that reported their end; `names`: (app, name) of failed starts without a query id.
    """

    agents: set[str]
    ending_agents: set[str]
    query_ids: set[str]
    run_ids: set[str]
    names: set[tuple[str, str | None]]


@dataclass(frozen=True)
class Changes:
    """Rows that a commit changed and the batches it added, each with its query's id."""

    agents: list[AgentRow] = field(default_factory=list)
    queries: list[QueryRow] = field(default_factory=list)
    runs: list[RunRow] = field(default_factory=list)
    batches: list[tuple[str, ProgressSample]] = field(default_factory=list)


@dataclass
class UnitOfWork:
    """The rows that a group of events may concern, and which of them changed."""

    agents: dict[str, AgentRow] = field(default_factory=dict)
    queries: dict[str, QueryRow] = field(default_factory=dict)
    runs: dict[str, RunRow] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set)  # ids of changed rows
    ended_agents: set[str] = field(default_factory=set)
    counts: dict[str, Counter[str]] = field(default_factory=dict)  # query id -> what to add to its totals

    def put_agent(self, row: AgentRow) -> None:
        self.agents[row.agent.agent] = row
        self.changed.add(row.agent.agent)

    def put_query(self, row: QueryRow) -> None:
        self.queries[row.query_id] = row
        self.changed.add(row.query_id)

    def put_run(self, row: RunRow) -> None:
        self.runs[row.run.run_id] = row
        self.changed.add(row.run.run_id)

    def count(self, query_id: str, name: str, by: int = 1) -> None:
        self.counts.setdefault(query_id, Counter())[name] += by


class DeliveryOutcome(StrEnum):
    """What became of a look at a group of alerts for one receiver."""

    SENT = "sent"
    FAILED = "failed"
    NOT_SENT = "not_sent"


@dataclass(frozen=True)
class NotificationLogEntry:
    """One line of the log of notifications. `words` say why it was sent, or why not."""

    at: float
    receiver: str
    group_key: str
    outcome: DeliveryOutcome
    words: str
    fingerprints: tuple[str, ...] = ()
