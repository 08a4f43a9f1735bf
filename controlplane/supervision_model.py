"""Desired state of a query, and the entries of the ledger: who wants it to run, and what was decided about it.

Part of the server's domain model (`controlplane.model`), with the same conventions. The store keeps these values,
`controlplane.supervision` makes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from controlplane.incident_model import IncidentMembership


class DesiredState(StrEnum):
    """What a person wants of a query. `suspended` is a stop that is meant to end."""

    RUNNING = "running"
    SUSPENDED = "suspended"
    STOPPED = "stopped"


@dataclass(frozen=True)
class Desired:
    """The desired state of a query as a person set it at `at`, Unix seconds."""

    query_id: str
    state: DesiredState
    actor: str
    at: float
    reason: str = ""


@dataclass(frozen=True)
class RestartHold:
    """Policy `policy` in mode `act` has given up on a query since `since`: a person is needed.

    `code`: a reason for programs, such as `cannot_help`; `why`: a sentence.
    """

    policy: str
    code: str
    why: str
    since: float


@dataclass(frozen=True)
class CheckpointWriter:
    """An open run that writes to a checkpoint, with its driver: agent and app, when that ended and was last seen.

    `checkpoint`: see `controlplane.locations.checkpoint_key`.
    """

    query_id: str
    run_id: str
    started_at: float
    checkpoint: str
    agent: str
    app: str
    last_contact_at: float
    agent_ended_at: float | None = None

    def was_seen(self, now: float, seconds: float) -> bool:
        """Whether its driver has not ended and was seen within `seconds`."""
        return self.agent_ended_at is None and now - self.last_contact_at <= seconds


@dataclass(frozen=True)
class CheckpointLease:
    """The driver that may write to a checkpoint (`controlplane.locations.checkpoint_key`), since `taken_at`.

    `number` rises with each driver that takes it, so a higher number is a later holder. `previous_app`: the application
    of the holder before, where that was another one.
    """

    checkpoint: str
    number: int
    query_id: str
    run_id: str
    agent: str
    app: str
    taken_at: float
    previous_app: str | None = None


@dataclass(frozen=True)
class Supervised:
    """What supervision knows of a query. `desired`: None where nobody set it, which means running.

    `incident`: the open incident of a query that is down.
    """

    desired: Desired | None = None
    hold: RestartHold | None = None
    lease: CheckpointLease | None = None
    incident: IncidentMembership | None = None

    @property
    def state(self) -> DesiredState:
        """The desired state."""
        return self.desired.state if self.desired is not None else DesiredState.RUNNING


NOT_SUPERVISED = Supervised()


class DecisionKind(StrEnum):
    """What a policy decided about a query in trouble."""

    RESTART = "restart"
    WAIT = "wait"
    HOLD = "hold"
    PAGE = "page"
    NOTHING = "nothing"


class DecisionOutcome(StrEnum):
    """What became of the query after the decision. `overruled`: a person stopped, suspended or retired it."""

    OPEN = "open"
    RECOVERED = "recovered"
    FAILED_AGAIN = "failed_again"
    RECOVERED_WITHOUT_US = "recovered_without_us"
    OVERRULED = "overruled"


class Assessment(StrEnum):
    """Whether the decision was, or would have been, right."""

    HELPED = "helped"
    USELESS = "useless"
    WRONG = "wrong"


@dataclass(frozen=True)
class LedgerEntry:
    """A decision about a query, taken (`acted`) or only considered.

    `trigger`: the status that led to it; `code`: its reason for programs, `why`: as a sentence. `inputs`: what it was
    decided from. `outcome` is None for decisions that are neither a restart nor a page.
    """

    id: str
    at: float
    query_id: str
    app: str
    name: str | None
    policy: str
    mode: str
    trigger: str
    decision: DecisionKind
    code: str
    why: str
    acted: bool = False
    action_id: str | None = None
    run_id: str | None = None
    condition: str | None = None
    trouble_since: float = 0.0
    inputs: Mapping[str, Any] = field(default_factory=dict)
    outcome: DecisionOutcome | None = None
    outcome_at: float | None = None
    outcome_why: str = ""
    assessment: Assessment | None = None

    @property
    def is_open(self) -> bool:
        """Whether its outcome is still to come."""
        return self.outcome is DecisionOutcome.OPEN
