"""Tables of alerts, silences and notifications: durations, missing values, escaped text."""

import pandas as pd

from tests.ui import alerting_factories as factories
from tests.ui.factories import HOSTILE, NOW, rfc3339
from ui.alerting import columns, frames


def test_an_alert_row_holds_age_and_last_notification() -> None:
    row = frames.alerts([factories.alert()], {}, NOW).iloc[0]
    assert row["severity"] == ["Warning"]
    assert row["age"] == pd.Timedelta(seconds=420)
    assert (row["alert"], row["query"], row["app"]) == ("LagGrowing", "pageviews-to-lake", "clicks")
    assert row["notified"] == "on-call, 2 min ago"
    assert (row["acknowledged_by"], row["suppressed_by"]) == ("", "")


def test_a_pending_alert_counts_from_when_its_condition_began() -> None:
    pending = factories.alert(state="pending", fired_at=None, notified=None, active_at=rfc3339(NOW - 45))
    row = frames.alerts([pending], {}, NOW).iloc[0]
    assert row["age"] == pd.Timedelta(seconds=45)
    assert row["notified"] == "on-call, once it fires"


def test_unknown_values_of_an_alert_are_missing_and_not_zero() -> None:
    row = frames.alerts([{"fingerprint": "f"}], {}, NOW).iloc[0]
    assert pd.isna(row["age"])
    assert row["severity"] == ["None"]
    assert (row["alert"], row["notified"]) == ("unnamed alert", "Not notified: no receiver is configured.")


def test_an_alert_whose_receiver_has_no_webhook_is_not_announced_as_pending() -> None:
    row = frames.alerts([factories.alert(notified=None, deliverable=False)], {}, NOW).iloc[0]
    assert row["notified"] == "Not notified: on-call has no integration."


def test_a_suppressed_alert_names_the_silence_its_creator_and_the_inhibiting_alert() -> None:
    silence = factories.silence(1)
    suppressed = factories.alert(
        silenced_by=[silence["id"], "0badcafe-gone"],
        inhibited_by=[{"fingerprint": "f", "name": "QueryFailed"}],
        notified=None,
    )
    row = frames.alerts([suppressed], {silence["id"]: silence}, NOW).iloc[0]
    assert row["suppressed_by"] == (
        "silenced by grace@example.com: upgrade of the billing brokers, silence 0badcafe, "
        "inhibited by QueryFailed"
    )
    assert row["notified"] == f"Not notified: {row['suppressed_by']}"


def test_an_episode_ends_when_resolved_and_runs_on_while_it_fires() -> None:
    resolved = factories.alert(state="resolved", fired_at=rfc3339(NOW - 900), resolved_at=rfc3339(NOW - 300))
    frame = frames.history([resolved, factories.alert()], NOW)
    assert frame["duration"].to_list() == [pd.Timedelta(seconds=600), pd.Timedelta(seconds=420)]
    assert frame["state"].to_list() == [["Resolved"], ["Firing"]]
    assert pd.isna(frame["resolved"].iloc[1])


def test_a_notification_row_holds_outcome_and_reason() -> None:
    notes = [factories.note(), factories.note(outcome="not_sent", reason="nothing new")]
    frame = frames.notifications(notes)
    assert frame["outcome"].to_list() == [["Notified"], ["Not notified"]]
    assert frame["reason"].iloc[1] == "nothing new"


def test_empty_tables_keep_their_columns() -> None:
    assert list(frames.alerts([], {}, NOW).columns) == frames.ALERT_COLUMNS
    assert list(frames.history([], NOW).columns) == frames.HISTORY_COLUMNS
    assert list(frames.silences([]).columns) == frames.SILENCE_COLUMNS
    assert list(frames.notifications([]).columns) == frames.NOTIFICATION_COLUMNS


def test_every_column_of_a_view_is_in_its_table() -> None:
    for view, names in columns.VIEW_COLUMNS.items():
        history = view == "history"
        known = frames.HISTORY_COLUMNS if history else frames.ALERT_COLUMNS
        assert set(names) <= set(known)
        assert {"severity", "alert", "query"} <= set(columns.order(view, narrow=True))


def test_durations_are_shown_in_their_largest_unit() -> None:
    durations = {2: "just now", 45: "45 s ago", 125: "2 min ago", 9000: "2 h ago", 200_000: "2 d ago"}
    for seconds, text in durations.items():
        assert frames.ago(rfc3339(NOW - seconds), NOW) == text
    assert frames.ago(None, NOW) == "–"


def test_hostile_texts_stay_on_one_line_and_cannot_reorder_it() -> None:
    frame = frames.alerts([factories.hostile_alert(NOW)], {}, NOW)
    row = frame.iloc[0]
    assert "\u202e" not in "".join(str(value) for value in row)
    assert not row["alert"].startswith(":material/")  # a table's button would draw it as an icon
    assert HOSTILE in row["summary"]
