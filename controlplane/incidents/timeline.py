"""The timeline of an incident, put together from what the store has about its queries. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from alerts.acknowledgements import Acknowledgement
from alerts.state import Alert
from controlplane.incident_model import Incident
from controlplane.model import Action
from controlplane.records import DeliveryOutcome, NotificationLogEntry
from controlplane.supervision_model import LedgerEntry

MAX_EVENTS = 500


@dataclass(frozen=True)
class IncidentEvent:
    """Something that happened at `at`, Unix seconds.

    `kind`: `status`, `alert`, `notification`, `acknowledgement`, `action` or `decision`.
    """

    at: float
    kind: str
    query_id: str | None
    text: str


@dataclass(frozen=True)
class IncidentRecord:
    """What is stored about an incident's queries. `statuses`: (query id, time, status, reason)."""

    incident: Incident
    statuses: Sequence[tuple[str, float, str, str]] = ()
    alerts: Sequence[Alert] = ()
    notifications: Sequence[NotificationLogEntry] = ()
    actions: Sequence[Action] = ()
    decisions: Sequence[LedgerEntry] = ()
    acknowledgements: Sequence[Acknowledgement] = ()

    @property
    def receivers(self) -> tuple[str, ...]:
        """Who was notified, in alphabetical order."""
        sent = {note.receiver for note in self.notifications if note.outcome is DeliveryOutcome.SENT}
        return tuple(sorted(sent))

    @property
    def acknowledgement(self) -> Acknowledgement | None:
        """The newest acknowledgement: who works on it. One of the incident's own alert comes before those of queries."""
        own = {alert.fingerprint for alert in self.alerts if not alert.labels.get("query_id")}
        return max(self.acknowledgements, key=lambda a: (a.fingerprint in own, a.at), default=None)


def responses(
    incident: Incident,
    until: float,
    alerts: Iterable[Alert],
    notifications: Iterable[NotificationLogEntry],
    acknowledgements: Iterable[Acknowledgement],
) -> IncidentRecord:
    """The alerts that concern the incident and fired while it was open, in the order given, with who was notified and who
    acknowledged. `until`: end of what belongs to it, Unix seconds.
    """
    mine = [
        alert for alert in alerts if _fired(alert, incident.began_at, until) and concerns(alert, incident)
    ]
    shown = {alert.fingerprint for alert in mine}
    return IncidentRecord(
        incident,
        alerts=mine,
        notifications=[
            note
            for note in notifications
            if incident.began_at <= note.at <= until and not shown.isdisjoint(note.fingerprints)
        ],
        acknowledgements=[
            a for a in acknowledgements if a.fingerprint in shown and incident.began_at <= a.at <= until
        ],
    )


def timeline(record: IncidentRecord) -> list[IncidentEvent]:
    """The events, oldest first; the newest `MAX_EVENTS` of them."""
    return sorted(_events(record), key=lambda event: (event.at, event.kind, event.text))[-MAX_EVENTS:]


def _events(record: IncidentRecord) -> Iterator[IncidentEvent]:
    names = {m.query_id: m.name or m.query_id[:8] for m in record.incident.members}
    for query_id, at, status, reason in record.statuses:
        yield IncidentEvent(
            at, "status", query_id, f"{names.get(query_id, query_id[:8])}: {status}. {reason}"
        )
    yield from _alert_events(record.alerts)
    for note in record.notifications:
        yield IncidentEvent(note.at, "notification", None, _notification(note))
    yield from _acknowledgement_events(record)
    for action in record.actions:
        name = names.get(action.query_id, action.query_id[:8])
        text = (
            f"{action.actor} requested the {action.action} of {name}: {action.state.value}. {action.reason}"
        )
        yield IncidentEvent(action.requested_at, "action", action.query_id, text)
    for entry in record.decisions:
        text = f"Policy {entry.policy} on {names.get(entry.query_id, entry.query_id[:8])}: {entry.decision.value}. {entry.why}"
        yield IncidentEvent(entry.at, "decision", entry.query_id, text)


_OUTCOMES = {
    DeliveryOutcome.SENT: "was notified",
    DeliveryOutcome.FAILED: "could not be notified",
    DeliveryOutcome.NOT_SENT: "was not notified",
}


def _notification(note: NotificationLogEntry) -> str:
    count = len(note.fingerprints)
    alerts = "1 alert" if count == 1 else f"{count} alerts"
    return f"{note.receiver} {_OUTCOMES[note.outcome]} of {alerts}: {note.reason}"


def _acknowledgement_events(record: IncidentRecord) -> Iterator[IncidentEvent]:
    named = {alert.fingerprint: _what(alert) for alert in record.alerts}
    for given in record.acknowledgements:
        text = f"{given.by} acknowledged {named.get(given.fingerprint, 'an alert')}. {given.comment}".strip()
        yield IncidentEvent(given.at, "acknowledgement", None, text)


def _alert_events(alerts: Iterable[Alert]) -> Iterator[IncidentEvent]:
    for alert in alerts:
        query_id, what = alert.labels.get("query_id"), _what(alert)
        if alert.fired_at is not None:
            yield IncidentEvent(alert.fired_at, "alert", query_id, f"{what} fires.")
        if alert.resolved_at is not None:
            yield IncidentEvent(alert.resolved_at, "alert", query_id, f"{what} is resolved.")


def _fired(alert: Alert, since: float, until: float) -> bool:
    return (alert.fired_at or until) <= until and (alert.resolved_at or until) >= since


def _what(alert: Alert) -> str:
    return f"{alert.rule} {alert.labels.get('query', '')}".strip()


def concerns(alert: Alert, incident: Incident) -> bool:
    """Whether an alert is about the incident, one of its queries, or the driver of one."""
    labels = alert.labels
    if labels.get("incident"):
        return labels["incident"] == incident.id
    if labels.get("query_id"):
        return any(labels["query_id"] == member.query_id for member in incident.members)
    return labels.get("layer") in ("agent", "driver") and any(
        labels.get("app") == member.app for member in incident.members
    )
