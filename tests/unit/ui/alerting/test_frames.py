"""Alerts, silences and notifications into tables: spans stay spans, the unknown stays missing, text is inert."""

import pandas as pd

from tests.ui import alerting_factories as factories
from tests.ui.factories import HOSTILE, NOW, rfc3339
from ui.alerting import columns, frames


def test_an_alert_row_tells_what_fires_for_how_long_and_who_knows() -> None:
    row = frames.alerts([factories.alert()], {}, NOW).iloc[0]
    assert row["severity"] == ["Warning"]
    assert row["age"] == pd.Timedelta(seconds=420)
    assert (row["alert"], row["query"], row["app"]) == ("LagGrowing", "pageviews-to-lake", "clicks")
    assert row["told"] == "on-call, 2 min ago"
    assert (row["works"], row["muted"]) == ("", "")


def test_a_pending_alert_counts_from_when_its_condition_began() -> None:
    pending = factories.alert(state="pending", fired_at=None, notified=None, active_at=rfc3339(NOW - 45))
    row = frames.alerts([pending], {}, NOW).iloc[0]
    assert row["age"] == pd.Timedelta(seconds=45)
    assert row["told"] == "on-call, once it fires"


def test_what_is_not_known_of_an_alert_is_missing_and_not_zero() -> None:
    row = frames.alerts([{"fingerprint": "f"}], {}, NOW).iloc[0]
    assert pd.isna(row["age"])
    assert row["severity"] == ["None"]
    assert (row["alert"], row["told"]) == ("an alert without a name", "not yet: nobody")


def test_a_muted_alert_names_the_silence_its_maker_and_the_cause() -> None:
    silence = factories.silence(1)
    muted = factories.alert(
        silenced_by=[silence["id"], "0badcafe-gone"],
        inhibited_by=[{"fingerprint": "f", "name": "QueryFailed"}],
        notified=None,
    )
    row = frames.alerts([muted], {silence["id"]: silence}, NOW).iloc[0]
    assert row["muted"] == (
        "grace@example.com: upgrade of the billing brokers, silence 0badcafe, QueryFailed fires"
    )
    assert row["told"] == "nobody: muted"


def test_an_episode_lasts_until_it_is_resolved_and_on_while_it_fires() -> None:
    over = factories.alert(state="resolved", fired_at=rfc3339(NOW - 900), resolved_at=rfc3339(NOW - 300))
    frame = frames.history([over, factories.alert()], NOW)
    assert frame["lasted"].to_list() == [pd.Timedelta(seconds=600), pd.Timedelta(seconds=420)]
    assert frame["state"].to_list() == [["Resolved"], ["Firing"]]
    assert pd.isna(frame["resolved"].iloc[1])


def test_a_notification_says_whether_it_was_told_and_why() -> None:
    notes = [factories.note(), factories.note(outcome="not_sent", words="nothing new")]
    frame = frames.notifications(notes)
    assert frame["outcome"].to_list() == [["Told"], ["Not told"]]
    assert frame["words"].iloc[1] == "nothing new"


def test_tables_of_nothing_keep_their_columns() -> None:
    assert list(frames.alerts([], {}, NOW).columns) == frames.ALERT_COLUMNS
    assert list(frames.history([], NOW).columns) == frames.HISTORY_COLUMNS
    assert list(frames.silences([]).columns) == frames.SILENCE_COLUMNS
    assert list(frames.notifications([]).columns) == frames.NOTIFICATION_COLUMNS


def test_every_column_of_a_view_is_one_that_its_table_has() -> None:
    for view, names in columns.VIEW_COLUMNS.items():
        history = view == "history"
        known = frames.HISTORY_COLUMNS if history else frames.ALERT_COLUMNS
        assert set(names) <= set(known)
        assert {"severity", "alert", "query"} <= set(columns.order(view, narrow=True))


def test_ages_are_told_in_their_largest_unit() -> None:
    ages = {2: "just now", 45: "45 s ago", 125: "2 min ago", 9000: "2 h ago", 200_000: "2 d ago"}
    for seconds, words in ages.items():
        assert frames.ago(rfc3339(NOW - seconds), NOW) == words
    assert frames.ago(None, NOW) == "–"


def test_hostile_texts_stay_on_one_line_and_cannot_reorder_it() -> None:
    frame = frames.alerts([factories.hostile_alert(NOW)], {}, NOW)
    row = frame.iloc[0]
    assert "\u202e" not in "".join(str(value) for value in row)
    assert not row["alert"].startswith(":material/")  # a table's button would draw it as an icon
    assert HOSTILE in row["summary"]
