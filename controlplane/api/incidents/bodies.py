"""Bodies of incidents. The conventions are those of `controlplane.api.bodies`."""

from __future__ import annotations

from controlplane.api.alerting_bodies import AcknowledgedBody, AlertBody, NoteBody
from controlplane.api.bodies import ActionBody, Body, Stamp
from controlplane.api.supervision.bodies import LedgerEntryBody


class IncidentMemberBody(Body):
    """A query of an incident: first down at `began_at`, last at `since`; `until` is null while it is down."""

    query_id: str
    app: str
    name: str | None
    run_id: str | None
    status: str
    began_at: str
    since: str
    until: Stamp
    driver: str


class TrialRestartBody(Body):
    """The restart that the others wait for: `trying`, `helped` or `failed`. `acted`: false if only considered."""

    query_id: str
    entry_id: str
    acted: bool
    at: str
    state: str


class IncidentBody(Body):
    """Queries that failed with one cause. `kind` and `cause`: what they share; `down`: how many are down.

    `receivers`: who was notified; `acknowledged`: who works on it.
    """

    id: str
    kind: str
    cause: str
    sentence: str
    began_at: str
    ended_at: Stamp
    down: int
    members: list[IncidentMemberBody]
    trial: TrialRestartBody | None
    receivers: list[str]
    acknowledged: AcknowledgedBody | None


class IncidentsBody(Body):
    """Open incidents and those that ended in the range, newest first."""

    incidents: list[IncidentBody]


class IncidentEventBody(Body):
    """An entry of the timeline.

    `kind`: `status`, `alert`, `notification`, `acknowledgement`, `action` or `decision`.
    """

    at: str
    kind: str
    query_id: str | None
    text: str


class IncidentDetailBody(Body):
    """An incident with what is stored about its queries while it was open, newest first; `timeline`: oldest first."""

    incident: IncidentBody
    alerts: list[AlertBody]
    notifications: list[NoteBody]
    actions: list[ActionBody]
    decisions: list[LedgerEntryBody]
    timeline: list[IncidentEventBody]
