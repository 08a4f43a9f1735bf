"""The alerts at the head of a query's page: which, what they say, and that nothing in them is markup."""

from tests.ui.alerting_factories import alert
from tests.ui.factories import HOSTILE, NOW, query_id
from ui.alerting import firing_alerts
from ui.kit import action_checks

MINE = query_id(4)


def test_only_what_fires_for_this_query_is_chosen() -> None:
    found = [
        alert(now=NOW, name="Mine", query_id=MINE),
        alert(now=NOW, name="Pending", query_id=MINE, state="pending"),
        alert(now=NOW, name="Other", query_id=query_id(5)),
    ]
    assert [each["name"] for each in action_checks.firing_alerts_of({"alerts": found}, MINE)] == ["Mine"]
    assert action_checks.firing_alerts_of(None, MINE) == []


def test_marks_say_why_nobody_need_be_told() -> None:
    taken = {"by": HOSTILE, "at": None, "comment": ""}
    marked = alert(now=NOW, acknowledged=taken, silenced_by=["x"], inhibited_by=[{"name": "Y"}])
    words = [word for word, _ in firing_alerts.badges(marked)]
    assert words[1:] == ["silenced", "inhibited"]
    assert "<img" not in words[0].replace("\\<img", "")
    assert firing_alerts.badges(alert(now=NOW, acknowledged=None, silenced_by=[], inhibited_by=[])) == []


def test_a_summary_is_one_short_line_and_the_reason_where_there_is_none() -> None:
    long = alert(now=NOW, annotations={"summary": "a\nb " + "x" * 5000})
    assert len(firing_alerts.summary(long)) == firing_alerts.MAX_SUMMARY_CHARS
    assert firing_alerts.summary(alert(now=NOW, annotations={}, reason="it holds")) == "it holds"
