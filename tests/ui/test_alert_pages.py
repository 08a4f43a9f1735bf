"""Alerts page run as a script before a fake client: its views, dialogs and escaping."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from tests.ui.conftest import FakeClient
from tests.ui.factories import rfc3339
from tests.ui.fake_server import World
from ui.kit import cached_reads
from ui.kit.answers import ServerUnreachable


def on_alerts(app: AppTest, **params: str) -> AppTest:
    app.run()
    for name, value in params.items():
        app.query_params[name] = value
    app.switch_page("app_pages/alerts.py").run()
    assert not app.exception
    return app


def texts(app: AppTest) -> str:
    return "\n".join(str(element.value) for element in [*app.text, *app.code, *app.caption, *app.markdown])


def fingerprint(world: World, name: str) -> str:
    return next(str(alert["fingerprint"]) for alert in world.alerting.alerts if alert["name"] == name)


def names(app: AppTest) -> list[str]:
    return [str(name) for name in app.dataframe[0].value["alert"]]


def test_what_fires_comes_first_with_a_count_for_each_view(app: AppTest) -> None:
    on_alerts(app)
    assert names(app)[:3] == ["QueryFailed", "Stuck", "LagGrowing"]
    tiles = {button.key: button.label for button in app.button if str(button.key).startswith("tile_")}
    assert tiles["tile_firing_now"] == "**4** Firing"
    assert tiles["tile_pending"] == ":yellow[**1**] Pending"
    assert tiles["tile_suppressed"] == ":violet[**2**] Suppressed"
    assert tiles["tile_silences"] == ":blue[**1**] Silences"
    assert tiles["tile_notifications"] == ":blue[**3**] Notifications"


def test_a_tile_chooses_its_view_and_the_address_keeps_it(app: AppTest) -> None:
    on_alerts(app)
    app.button(key="tile_suppressed").click().run()
    assert app.query_params["view"] in ("suppressed", ["suppressed"])
    assert names(app) == ["LagSecondsHigh", "Overrun"]
    assert app.dataframe[0].value["suppressed_by"].to_list()[1] == "inhibited by QueryFailed"
    app.button(key="tile_pending").click().run()
    assert app.dataframe[0].value["reason"].to_list() == ["the condition holds for 45 s of 120 s"]


def test_filters_come_from_the_address(app: AppTest) -> None:
    on_alerts(app, severity="critical", words="hangs")
    assert names(app) == ["Stuck"]


def test_filters_that_hide_everything_are_reported(app: AppTest) -> None:
    on_alerts(app, words="nothing like this")
    assert not app.dataframe
    assert "None of 4 alerts matches the filters." in texts(app)


def test_without_firing_alerts_the_last_resolved_are_shown(app: AppTest, world: World) -> None:
    world.alerting.alerts = [alert for alert in world.alerting.alerts if alert["state"] == "resolved"]
    on_alerts(app)
    assert "No alert needs attention." in texts(app)
    assert "WatermarkStuck resolved 4 min ago" in texts(app)


def test_history_lists_past_alerts_newest_first(app: AppTest) -> None:
    on_alerts(app, view="history")
    assert names(app)[0] == "QueryFailed"
    assert len(names(app)) == 10
    assert names(app)[-3:] == ["LagGrowing"] * 3
    rules = app.dataframe[1].value
    assert rules[["rule", "firings", "useless"]].values.tolist() == [["LagGrowing", 3, 2]]
    assert rules["advice"][0] == "2 of 3 firings ended by themselves."


def test_notifications_list_sent_and_suppressed_ones(app: AppTest) -> None:
    on_alerts(app, view="notifications", words="webhook")
    assert app.dataframe[0].value["outcome"].to_list() == [["Failed"]]


def test_an_alert_in_the_address_is_shown_whole(app: AppTest, world: World) -> None:
    on_alerts(app, alert=fingerprint(world, "LagGrowing"))
    for part in (
        "for 7 min",
        "the condition holds for 540 s",
        "84213",
        "84.2k rows of orders wait",
        "Not notified",
    ):
        assert part in texts(app) + "".join(str(badge.value) for badge in app.markdown)
    assert not app.button(key=f"acknowledge_{fingerprint(world, 'LagGrowing')}").disabled
    app.button(key="close_alert").click().run()
    assert "alert" not in app.query_params


def test_an_unknown_alert_is_reported(app: AppTest) -> None:
    on_alerts(app, alert="0123456789abcdef")
    assert "The server does not have this alert." in texts(app)
    assert names(app)


def test_an_acknowledged_alert_shows_by_whom(app: AppTest, world: World) -> None:
    on_alerts(app, alert=fingerprint(world, "Stuck"))
    button = app.button(key=f"acknowledge_{fingerprint(world, 'Stuck')}")
    assert button.disabled
    assert "ada" in button.help
    assert "looking at the executors" in texts(app)


def test_an_acknowledgement_is_posted_with_its_comment_and_shown_at_once(app: AppTest, world: World) -> None:
    on_alerts(app, alert=fingerprint(world, "LagGrowing"))
    app.button(key=f"acknowledge_{fingerprint(world, 'LagGrowing')}").click().run()
    app.text_input(key="acknowledge_comment").set_value("adding executors").run()
    app.button(key="answer_yes").click().run()
    assert not app.exception
    assert world.alerting.posted == [{"comment": "adding executors"}]
    assert "adding executors" in texts(app)
    with pytest.raises(KeyError):
        app.button(key="answer_yes")


def test_a_refused_acknowledgement_stays_open_with_the_reason(app: AppTest, world: World) -> None:
    on_alerts(app, alert=fingerprint(world, "LagGrowing"))
    app.button(key=f"acknowledge_{fingerprint(world, 'LagGrowing')}").click().run()
    next(alert for alert in world.alerting.alerts if alert["name"] == "LagGrowing")["state"] = "resolved"
    app.button(key="answer_yes").click().run()
    assert "only a firing alert can be acknowledged" in app.error[0].value
    assert world.alerting.posted == []


def test_a_silence_is_prefilled_shows_what_it_covers_and_is_posted(app: AppTest, world: World) -> None:
    on_alerts(app, alert=fingerprint(world, "LagGrowing"))
    app.button(key=f"silence_{fingerprint(world, 'LagGrowing')}").click().run()
    assert app.text_area(key="silence_matchers").value.splitlines()[:2] == [
        'alertname="LagGrowing"',
        'app="clicks"',
    ]
    assert "Covers **1 firing alert** now" in texts(app)
    app.text_area(key="silence_matchers").set_value('app="clicks"').run()
    assert "Covers **2 firing alerts** now" in texts(app)
    assert "Stuck clicks/sessions" in texts(app)
    app.segmented_control(key="silence_duration").set_value("4h").run()
    app.text_input(key="silence_comment").set_value("brokers move").run()
    app.button(key="answer_yes").click().run()
    assert not app.exception
    (posted,) = world.alerting.posted
    assert (posted["matchers"], posted["duration_seconds"]) == (['app="clicks"'], 14_400)
    assert posted["comment"] == "brokers move"
    assert "brokers move" in texts(app)  # the alert now states what inhibits it
    assert names(app) == ["QueryFailed", names(app)[1]]


def test_the_link_of_a_notification_opens_a_silence_for_its_alert_once(app: AppTest, world: World) -> None:
    on_alerts(app, alert=fingerprint(world, "LagGrowing"), silence="new")
    assert 'alertname="LagGrowing"' in app.text_area(key="silence_matchers").value
    assert "silence" not in app.query_params


def test_a_silence_may_have_an_end_time(app: AppTest, world: World) -> None:
    on_alerts(app, view="silences")
    app.button(key="silence_new").click().run()
    assert app.button(key="answer_yes").disabled  # no matcher yet
    app.text_area(key="silence_matchers").set_value('team="x"').run()
    assert "Covers **0 firing alerts** now." in texts(app)
    app.segmented_control(key="silence_duration").set_value("until …").run()
    app.button(key="answer_yes").click().run()
    assert not app.exception
    (posted,) = world.alerting.posted
    assert posted["duration_seconds"] is None
    assert posted["ends_at"].endswith("Z")


def test_an_invalid_matcher_is_reported_before_the_silence_is_sent(app: AppTest, world: World) -> None:
    on_alerts(app, view="silences")
    app.button(key="silence_new").click().run()
    app.text_area(key="silence_matchers").set_value("no matcher").run()
    assert "bad matcher format" in app.error[0].value.replace("\\", "")
    app.button(key="answer_yes").click().run()
    assert "bad matcher format" in app.error[-1].value.replace("\\", "")
    assert world.alerting.posted == []


def test_a_silence_is_expired_after_a_confirmation(app: AppTest, world: World) -> None:
    on_alerts(app, view="silences")
    identity = world.alerting.silences[0]["id"]
    app.button(key=f"expire_{identity}").click().run()
    assert "1 firing alert notifies again." in texts(app)
    assert world.alerting.posted == []
    app.button(key="answer_yes").click().run()
    assert world.alerting.posted == [{"expire": identity}]
    assert app.dataframe[0].value["comment"].to_list() == [
        "upgrade of the billing brokers",
        "a test of the pager",
    ]


def test_a_cancelled_dialog_requests_nothing(app: AppTest, world: World) -> None:
    on_alerts(app, view="silences")
    app.button(key=f"expire_{world.alerting.silences[0]['id']}").click().run()
    app.button(key="answer_no").click().run()
    assert world.alerting.posted == []
    with pytest.raises(KeyError):
        app.button(key="answer_yes")


def test_a_viewer_sees_everything_and_why_the_buttons_are_off(app: AppTest, world: World) -> None:
    world.role = "viewer"
    on_alerts(app, alert=fingerprint(world, "LagGrowing"))
    for kind in ("acknowledge", "silence"):
        button = app.button(key=f"{kind}_{fingerprint(world, 'LagGrowing')}")
        assert button.disabled and "viewer" in button.help
    app.button(key="tile_silences").click().run()
    assert app.button(key="silence_new").disabled
    assert app.button(key=f"expire_{world.alerting.silences[0]['id']}").disabled


def test_the_last_alerts_stay_under_a_banner_while_the_server_is_unreachable(
    app: AppTest, client: FakeClient
) -> None:
    on_alerts(app)
    client.error = ServerUnreachable("No connection to the server.")
    cached_reads.clear()
    app.run()
    assert not app.exception
    assert len(names(app)) == 4
    assert "This page shows the state of" in app.warning[0].value


def test_a_server_that_was_never_reachable_is_an_error_without_traceback(
    app: AppTest, client: FakeClient
) -> None:
    client.error = ServerUnreachable("No connection to the server.")
    on_alerts(app)
    assert "No connection" in app.error[0].value


def test_lists_shown_only_by_their_length_are_read_rarely(
    app: AppTest, client: FakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    requested: list[float] = []
    read = client.alert_history
    monkeypatch.setattr(client, "alert_history", lambda start, end: requested.append(end) or read(start, end))
    on_alerts(app)
    cached_reads._fetch.clear()
    app.run()
    assert len(requested) == 1


def test_hostile_alerts_never_reach_markdown_unescaped(app: AppTest, world: World) -> None:
    hostile = next(alert for alert in world.alerting.alerts if alert["name"].startswith(":material"))
    world.alerting.notes[0] |= {"fingerprints": [hostile["fingerprint"]], "receiver": hostile["query"]}
    world.alerting.silences[0] |= {"comment": hostile["query"], "created_by": hostile["query"]}
    hostile["acknowledged"] = {"by": hostile["query"], "at": rfc3339(0), "comment": hostile["query"]}
    on_alerts(app, alert=hostile["fingerprint"])
    check_markdown(app)
    app.button(key="tile_silences").click().run()
    check_markdown(app)
    app.button(key=f"expire_{world.alerting.silences[0]['id']}").click().run()
    check_markdown(app)


def check_markdown(app: AppTest) -> None:
    assert not app.exception
    drawn = [*app.markdown, *app.title, *app.caption, *app.header, *app.subheader, *app.error]
    tips = [button.help or "" for button in app.button]
    labels = [button.label for button in app.button]
    for text in [*(str(element.value) for element in drawn), *labels, *tips]:
        for trick in ("![x](", "[a](", "[Evil](", "\u202e"):
            assert trick not in text
        assert "<" not in text.replace("\\<", "").replace("<style>", "").replace("</style>", "")
