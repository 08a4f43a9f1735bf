"""Incidents: failures of several queries with one cause, and the trial restart that decides whether automation goes on.

Part of the server's domain model (`controlplane.model`), with the same conventions. `controlplane.incidents` makes these
values, the store keeps them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class CauseKind(StrEnum):
    """What the failed queries share. Where a query shares several causes with others, the first in this order counts."""

    HOST = "host"
    DRIVER = "driver"
    CATALOG = "catalog"
    SINK = "sink"
    SOURCE = "source"
    CONDITION = "condition"


@dataclass(frozen=True)
class Cause:
    """A possible cause of a failure, such as the sink `/data/out` or the condition `network`."""

    kind: CauseKind
    value: str


@dataclass(frozen=True)
class IncidentMember:
    """A query of an incident: down with this `status` since `since`, for the first time since `began_at`.

    `until`: when it was up again, None while it is down. `driver`: the Spark application of its driver, else the agent.
    """

    query_id: str
    app: str
    name: str | None
    run_id: str | None
    status: str
    began_at: float
    since: float
    until: float | None = None
    driver: str = ""


class TrialState(StrEnum):
    """What became of the trial restart."""

    TRYING = "trying"
    HELPED = "helped"
    FAILED = "failed"


@dataclass(frozen=True)
class TrialRestart:
    """The one restart of an incident that is tried while automation waits: an entry of the ledger.

    `acted`: by a policy in mode `act`; one that only observes does not make others wait. `at`: of the state.
    """

    query_id: str
    entry_id: str
    acted: bool
    at: float
    state: TrialState = TrialState.TRYING


@dataclass(frozen=True)
class Incident:
    """Queries that failed with one cause. `ended_at`: when the last of them was up again; None while it is open."""

    id: str
    cause: Cause
    sentence: str
    began_at: float
    members: tuple[IncidentMember, ...]
    trial: TrialRestart | None = None
    ended_at: float | None = None

    @property
    def down(self) -> tuple[IncidentMember, ...]:
        """The members that are still down."""
        return tuple(member for member in self.members if member.until is None)


@dataclass(frozen=True)
class IncidentMembership:
    """The open incident of a query that is down."""

    id: str
    cause: Cause
    sentence: str
    trial: TrialRestart | None = None
