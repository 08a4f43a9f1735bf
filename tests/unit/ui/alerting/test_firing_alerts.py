"""Firing alerts at the head of a query's page: selection, text, and no markup from others."""

from tests.ui.alerting_factories import alert
from tests.ui.factories import HOSTILE, NOW, query_id
from ui.alerting import firing_alerts
from ui.kit import action_checks

MINE = query_id(4)


def test_only_firing_alerts_of_this_query_are_selected() -> None:
    found = [
        alert(now=NOW, name="Mine", query_id=MINE),
        alert(now=NOW, name="Pending", query_id=MINE, state="pending"),
        alert(now=NOW, name="Other", query_id=query_id(5)),
    ]
    assert [found["name"] for found in action_checks.firing_alerts_of({"alerts": found}, MINE)] == ["Mine"]
    assert action_checks.firing_alerts_of(None, MINE) == []


def test_badges_show_acknowledgement_silence_and_inhibition() -> None:
    acknowledged = {"by": HOSTILE, "at": None, "comment": ""}
    marked = alert(now=NOW, acknowledged=acknowledged, silenced_by=["x"], inhibited_by=[{"name": "Y"}])
    labels = [label for label, _ in firing_alerts.badges(marked)]
    assert labels[1:] == ["silenced", "inhibited"]
    assert "<img" not in labels[0].replace("\\<img", "")
    assert firing_alerts.badges(alert(now=NOW, acknowledged=None, silenced_by=[], inhibited_by=[])) == []


def test_a_summary_is_one_short_line_and_falls_back_to_the_reason() -> None:
    long = alert(now=NOW, annotations={"summary": "a\nb " + "x" * 5000})
    assert len(firing_alerts.summary(long)) == firing_alerts.MAX_SUMMARY_CHARS
    assert firing_alerts.summary(alert(now=NOW, annotations={}, reason="it holds")) == "it holds"
