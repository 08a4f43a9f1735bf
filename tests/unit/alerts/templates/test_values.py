"""Methods of the values that message templates see."""

from __future__ import annotations

from datetime import UTC, datetime

from alerts.templates.values import AlertList, KeyValues, method


def test_labels_are_sorted_with_the_alert_name_first() -> None:
    labels = KeyValues({"b": "2", "alertname": "Lag", "a": "1"})
    assert labels.names() == ["alertname", "a", "b"]
    assert labels.values_by_name() == ["Lag", "1", "2"]
    assert labels.remove(["a", "x"]) == {"b": "2", "alertname": "Lag"}


def test_a_method_is_found_by_the_type_of_the_value() -> None:
    firing = method(AlertList([{"Status": "firing"}, {"Status": "resolved"}]), "Firing")
    assert firing is not None
    assert firing() == [{"Status": "firing"}]
    unix = method(datetime(1970, 1, 2, tzinfo=UTC), "Unix")
    assert unix is not None
    assert unix() == 86_400
    assert method({}, "Firing") is None
    assert method("text", "Upper") is None
