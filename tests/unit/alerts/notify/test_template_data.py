"""What templates of a message see."""

from __future__ import annotations

from alerts.notify.template_data import template_data
from tests.unit.alerts.notify.messages import FIRING, KEY, PAGE, RESOLVED, message


def test_the_fields_are_those_of_alertmanager() -> None:
    data = template_data(message(FIRING, RESOLVED))
    assert (data["Receiver"], data["Status"], data["ExternalURL"], data["GroupKey"]) == (
        "team",
        "firing",
        PAGE,
        KEY,
    )
    assert data["GroupLabels"] == {"app": "shop"}
    assert data["NotificationReason"] == "first notification"
    first, second = data["Alerts"]
    assert (first["Status"], second["Status"]) == ("firing", "resolved")
    assert first["EndsAt"].year == 1
    assert second["EndsAt"].timestamp() == RESOLVED.resolved_at


def test_an_alert_has_links_and_facts_where_the_server_knows_them() -> None:
    first, second = template_data(message(FIRING, RESOLVED))["Alerts"]
    assert first["SilenceURL"] == f"{PAGE}/alerts?silence=f1"
    assert first["Facts"] == {"Probable cause": "out of memory"}
    assert (second["QueryURL"], second["IncidentURL"], second["Facts"]) == ("", "", {})
