"""The timeline of an incident."""

from __future__ import annotations

from dataclasses import replace

from alerts.acknowledgements import Acknowledgement
from alerts.state import Alert, AlertState
from controlplane.incident_model import Incident
from controlplane.incidents.timeline import IncidentRecord, concerns, responses, timeline
from controlplane.records import DeliveryOutcome, NotificationLogEntry
from tests.unit.controlplane.actions.views import NOW, requested
from tests.unit.controlplane.incidents.failures import cause, failure
from tests.unit.controlplane.supervision.troubles import entry

INCIDENT = Incident(
    "i1", cause("sink:/out"), "2 queries failed.", NOW, (failure("q1").member, failure("q2").member)
)


def alert(name: str = "QueryFailed", fired_at: float = NOW + 2, **labels: str) -> Alert:
    return Alert(name, {"alertname": name, **labels}, {}, 1.0, AlertState.FIRING, NOW, fired_at, None)


def test_what_is_stored_becomes_one_list_in_order_of_time() -> None:
    record = IncidentRecord(
        INCIDENT,
        [("q1", NOW, "failed", "Failed 1 s ago.")],
        [replace(alert(query_id="q1", query="orders"), resolved_at=NOW + 60)],
        [NotificationLogEntry(NOW + 12, "pager", "g", DeliveryOutcome.SENT, "new alerts", ("f",))],
        [replace(requested(), requested_at=NOW + 30)],
        [replace(entry(), at=NOW + 29)],
    )
    events = timeline(record)
    assert [e.kind for e in events] == ["status", "alert", "notification", "decision", "action", "alert"]
    assert events[0].text == "q1: failed. Failed 1 s ago."
    assert (events[1].text, events[-1].text) == (
        "QueryFailed orders fires.",
        "QueryFailed orders is resolved.",
    )
    assert events[2].text == "pager was notified of 1 alert: new alerts"


def test_alerts_of_the_incident_its_queries_and_their_drivers_concern_it() -> None:
    app = INCIDENT.members[0].app
    assert concerns(alert("FleetIncident", incident="i1"), INCIDENT)
    assert not concerns(alert("FleetIncident", incident="i2"), INCIDENT)
    assert concerns(alert(query_id="q2"), INCIDENT) and not concerns(alert(query_id="q9"), INCIDENT)
    assert concerns(alert("DriverFailed", app=app, layer="driver"), INCIDENT)
    assert not concerns(alert("EventsDropped", app=app, layer="telemetry"), INCIDENT)


def test_who_was_notified_and_who_works_on_it_while_the_incident_was_open() -> None:
    own, of_query = alert("FleetIncident", incident="i1"), alert(query_id="q1", query="orders")
    earlier = replace(own, resolved_at=NOW - 5)
    sent, held = DeliveryOutcome.SENT, DeliveryOutcome.NOT_SENT
    notes = [
        NotificationLogEntry(NOW + 5, "pager", "g", sent, "new alerts", (own.fingerprint,)),
        NotificationLogEntry(NOW + 6, "chat", "g", held, "silenced", (own.fingerprint,)),
        NotificationLogEntry(NOW + 7, "other", "g", sent, "new alerts", ("f",)),
        NotificationLogEntry(NOW + 999, "late", "g", sent, "resolved", (own.fingerprint,)),
    ]
    given = [
        Acknowledgement(own.fingerprint, NOW + 2, "ada", NOW + 8, "on it"),
        Acknowledgement(of_query.fingerprint, NOW + 2, "bob", NOW + 9),
        Acknowledgement(own.fingerprint, NOW - 90, "eve", NOW - 80),
    ]
    found = responses(INCIDENT, NOW + 60, [own, of_query, earlier], notes, given)
    assert found.alerts == [own, of_query]
    assert found.receivers == ("pager",)
    assert found.acknowledgement and found.acknowledgement.by == "ada"
    texts = [event.text for event in timeline(found) if event.kind == "acknowledgement"]
    assert texts == ["ada acknowledged FleetIncident. on it", "bob acknowledged QueryFailed orders."]
