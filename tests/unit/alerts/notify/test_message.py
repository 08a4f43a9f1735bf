"""What is said about a group."""

from __future__ import annotations

from alerts.notify.message import Message, firing_first
from alerts.notify.reasons import Reason
from alerts.state import Alert
from tests.unit.alerts.examples import alert, resolved


def message(*alerts: Alert) -> Message:
    return Message(
        "hook", "{}:{}", {"app": "shop"}, firing_first(alerts), "http://here", Reason.FIRST, 0.0, {}
    )


def test_a_message_fires_while_any_of_its_alerts_does() -> None:
    fires, over = alert("A", app="shop"), resolved(alert("B", app="shop"), 1100)
    assert message(fires, over).status == "firing"
    assert message(over).status == "resolved"
    assert message(over, fires).alerts == (fires, over)


def test_labels_and_annotations_in_common_are_those_that_all_alerts_agree_on() -> None:
    item, two = alert("A", app="shop", query="x", team="data"), alert("A", app="shop", query="y", team="data")
    assert message(item, two).common_labels == {"alertname": "A", "app": "shop", "team": "data"}
    assert message(item, two).common_annotations == {}
    assert message(item).common_annotations == item.annotations


def test_two_messages_of_one_state_are_alike() -> None:
    item, two = alert("A", query="x"), alert("A", query="y")
    assert message(item, two) == message(two, item)
