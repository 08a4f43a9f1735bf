"""The Rules page, run as a script before a fake client."""

from __future__ import annotations

import json

from streamlit.testing.v1 import AppTest

from alerts.rules import loader
from tests.ui import alerting_factories as factories
from tests.ui.conftest import FakeClient
from tests.ui.fake_server import World
from tests.ui.test_alert_pages import check_markdown, on_alerts, texts
from ui.alerting import rule_panels
from ui.kit import cached_reads
from ui.kit.answers import ServerUnreachable


def on_rules(app: AppTest, **params: str) -> AppTest:
    app.run()
    for name, value in params.items():
        app.query_params[name] = value
    app.switch_page("app_pages/rules.py").run()
    assert not app.exception
    return app


def expressions(app: AppTest) -> list[str]:
    return [str(code.value) for code in app.code]


def test_every_rule_is_shown_with_its_expression_under_its_group(app: AppTest) -> None:
    on_rules(app)
    assert [heading.value for heading in app.subheader] == [
        r"streaming\-availability",
        r"streaming\-progress",
    ]
    assert expressions(app)[0] == 'spark_streaming_query_status{status="failed"} == 1'
    assert len(expressions(app)) == 6
    assert "for 10 min · keeps firing 20 min" in texts(app)


def test_a_failing_rule_shows_its_error_and_a_group_its_missed_evaluations(app: AppTest) -> None:
    on_rules(app)
    assert "many" in app.error[0].value
    assert "3 missed evaluations" in texts(app)


def test_filters_come_from_the_address(app: AppTest) -> None:
    on_rules(app, rule_state="firing", find="lag_rows")
    assert len(expressions(app)) == 1
    assert r"**LagGrowing**" in texts(app)


def test_a_tile_filters_by_its_state_and_another_click_removes_the_filter(app: AppTest) -> None:
    on_rules(app)
    app.button(key="tile_rule_failing").click().run()
    assert len(expressions(app)) == 1
    app.button(key="tile_rule_failing").click().run()
    assert len(expressions(app)) == 6


def test_a_shipped_rule_has_its_meaning(app: AppTest) -> None:
    on_rules(app)
    assert "Warning. The backlog has grown for 10 minutes." in texts(app)


def test_a_rule_is_edited_and_tried_on_history_before_it_is_enabled(app: AppTest, world: World) -> None:
    on_rules(app)
    next(button for button in app.button if button.label == "Try on history").click().run()
    text = str(app.text_area(key="replay_text").value)
    assert loader.load(text)[1] == ()
    app.text_area(key="replay_text").set_value(text.replace("== 1", "== 2")).run()
    app.button(key="replay_run").click().run()
    assert "== 2" in world.alerting.posted[-1]["replay"]
    assert "Would have fired 2 times" in texts(app)
    data = [json.loads(table.proto.json) for table in app.get("bidi_component")]
    (shown,) = [table["rows"] for table in data if table["label"].startswith("When the rule")]
    assert [row["cells"][3] for row in shown] == ["until now", "10 min"]
    app.text_area(key="replay_text").set_value("nothing").run()
    app.button(key="replay_run").click().run()
    assert "no groups" in app.error[0].value
    app.button(key="replay_close").click().run()
    assert not app.text_area


def test_a_viewer_replays_nothing(app: AppTest, world: World) -> None:
    world.role = "viewer"
    on_rules(app)
    assert all(button.disabled for button in app.button if button.label == "Try on history")


def test_the_alerts_of_a_rule_are_one_click_away(app: AppTest) -> None:
    on_rules(app)
    link = next(link.proto for link in app.get("page_link") if "words=Stuck" in str(link.proto))
    assert link.label == "1 firing" and "view=firing" in str(link)
    on_alerts(app, view="firing", words="Stuck")
    assert app.dataframe[0].value["alert"].to_list() == ["Stuck"]


def test_many_rules_are_split_into_pages(app: AppTest, world: World) -> None:
    many = [factories.rule(f"R{number}") for number in range(120)]
    world.alerting.groups = [factories.group("many", many)]
    on_rules(app)
    assert len(expressions(app)) == 50
    assert "**R0**" in texts(app) and "**R50**" not in texts(app)


def test_no_rules_and_no_match_have_sentences(app: AppTest, world: World) -> None:
    on_rules(app, find="nothing like this")
    assert "No rule matches the filters." in texts(app)
    world.alerting.groups = []
    cached_reads.clear()
    app.run()
    assert "No rules are loaded." in texts(app)


def test_the_last_rules_stay_under_a_banner_while_the_server_is_unreachable(
    app: AppTest, client: FakeClient
) -> None:
    on_rules(app)
    client.error = ServerUnreachable("No connection to the server.")
    cached_reads.clear()
    app.run()
    assert len(expressions(app)) == 6
    assert "This page shows the state of" in app.warning[0].value


def test_a_rule_without_an_evaluation_is_marked() -> None:
    new = factories.rule(evaluated_at=None, evaluation_seconds=None, health="unknown")
    assert rule_panels.evaluation(new, 0.0) == "not evaluated yet"


def test_hostile_rules_never_reach_markdown_unescaped(app: AppTest, world: World) -> None:
    hostile = f"{factories.HOSTILE} {factories.RTL}"
    bad = factories.rule(hostile, labels={"team": hostile, "x": factories.HUGE}, health="err", error=hostile)
    world.alerting.groups = [factories.group(hostile, [bad], file=hostile, key="k")]
    on_rules(app)
    check_markdown(app)
