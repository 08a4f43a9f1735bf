"""Fleet, Query and Actions pages run as scripts before a fake client."""

from __future__ import annotations

import json
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from tests.ui import factories
from tests.ui.alerting_factories import alert
from tests.ui.conftest import FakeClient
from tests.ui.fake_server import World
from ui.kit import cached_reads, time_range
from ui.kit.answers import ServerNotFound, ServerRefused, ServerUnreachable, TokenRefused
from ui.kit.markup import plain
from ui.kit.widgets import chosen_id

RUNNING = factories.query_id(4)
FAILED = factories.query_id(1)


def on_query(app: AppTest, query_id: str = RUNNING, **params: str) -> AppTest:
    app.run()
    app.query_params["query_id"] = query_id
    for name, value in params.items():
        app.query_params[name] = value
    app.switch_page("app_pages/query.py").run()
    assert not app.exception
    return app


def listed(app: AppTest) -> list[list[str]]:
    """The cells of the Fleet page's table as texts."""
    (table,) = app.get("bidi_component")
    rows = json.loads(table.proto.json)["rows"]
    return [
        [cell if isinstance(cell, str) else str(cell.get("text")) for cell in row["cells"]] for row in rows
    ]


def names(app: AppTest) -> list[str]:
    return [row[0] for row in listed(app)]


def texts(app: AppTest) -> str:
    return "\n".join(str(element.value) for element in [*app.text, *app.code, *app.caption, *app.markdown])


def test_fleet_lists_every_query_worst_first(app: AppTest, world: World) -> None:
    app.run()
    assert not app.exception
    assert len(listed(app)) == len(world.queries)
    assert listed(app)[0][1] == "Failed"
    assert app.button(key="tile_running").label == ":green[**24**] Running"
    assert app.button(key="tile_finished").label == ":gray[**0**] Finished"


@pytest.mark.parametrize("page", ["fleet", "alerts", "actions"])
def test_every_page_has_a_banner_while_nobody_is_notified(app: AppTest, world: World, page: str) -> None:
    app.run()
    assert not app.error
    world.alerting.delivery_problem = {
        "summary": "Nobody is notified of alerts: the receiver default has no integration",
        "remedy": "Start the server with --webhook URL.",
    }
    cached_reads.clear()
    app.switch_page(f"app_pages/{page}.py").run()
    assert [error.value for error in app.error] == [plain(world.alerting.delivery_problem["summary"])]
    assert "Start the server with --webhook URL." in texts(app)


def test_fleet_filters_come_from_the_address(app: AppTest) -> None:
    app.query_params["status"] = ["failed", "stuck"]
    app.query_params["search"] = "sessions"
    app.run()
    assert names(app) == ["sessions"]
    assert app.button(key="tile_stuck").label == "**1** Stuck"  # marked as chosen at once


def test_a_click_on_a_tile_filters_and_another_removes_the_filter(app: AppTest, world: World) -> None:
    app.run()
    app.button(key="tile_lagging").click().run()
    assert names(app) == ["pageviews-to-lake"]
    assert app.button(key="tile_lagging").label == "**1** Lagging"  # color on color would be unreadable
    app.button(key="tile_lagging").click().run()
    assert len(listed(app)) == len(world.queries)


def test_a_click_finds_its_query_by_name_though_rows_have_moved_since() -> None:
    rows = [("a", "id-a"), ("twin", "id-1"), ("b", "id-b"), ("twin", "id-2")]
    assert chosen_id(rows, 0, "b") == "id-b"
    assert chosen_id(rows, 3, "twin") == "id-2"
    assert chosen_id(rows, 0, "twin") == "id-1"
    assert chosen_id(rows, 0, "gone") is None


def test_the_order_and_the_page_are_in_the_address(app: AppTest, world: World) -> None:
    world.queries = [factories.fleet_query(number, lag_rows=number) for number in range(1, 251)]
    app.query_params["sort"] = "-lag_rows"
    app.query_params["from_row"] = "200"
    app.run()
    assert names(app) == [f"query-{number}" for number in range(50, 0, -1)]
    app.query_params["sort"] = "drop table"
    app.query_params["from_row"] = "900"
    app.run()
    app.button[-1].click().run()
    assert len(names(app)) == 100
    app.text_input(key="search").set_value("query-25").run()
    assert sorted(names(app)) == ["query-25", "query-250"]


def test_a_saved_view_brings_back_filters_order_and_columns(app: AppTest, world: World) -> None:
    app.query_params["sort"] = "-lag_rows"
    app.run()
    app.multiselect(key="status").set_value(["failed", "stuck"]).run()
    app.multiselect(key="column").set_value(["Backlog", "Spark"]).run()
    app.text_input(key="view_name").set_value("In trouble")
    next(button for button in app.button if button.label == "Save this view").click().run()
    assert world.saved_views == {
        "In trouble": "status=failed&status=stuck&sort=-lag_rows&column=Backlog&column=Spark"
    }
    wanted = names(app)
    app.multiselect(key="status").set_value([]).run()
    app.multiselect(key="column").set_value([]).run()
    app.query_params["sort"] = "name"
    app.run()
    assert names(app) != wanted
    app.button(key="open_view_In trouble").click().run()
    assert (names(app), app.multiselect(key="column").value) == (wanted, ["Backlog", "Spark"])
    assert app.query_params["sort"] == "-lag_rows"
    app.button(key="delete_view_In trouble").click().run()
    assert world.saved_views == {}
    assert "No view is saved yet." in texts(app)


def test_a_viewer_opens_saved_views_and_changes_none(app: AppTest, world: World) -> None:
    world.role, world.saved_views = "viewer", {"mine": "app=gone&label=team%3Dgone&column=label%20zone"}
    app.run()
    assert app.button(key="delete_view_mine").disabled
    app.button(key="open_view_mine").click().run()
    assert not app.exception
    assert "No query matches the filters." in texts(app)


def test_fleet_reports_that_no_query_matches(app: AppTest) -> None:
    app.query_params["search"] = "nothing like this"
    app.run()
    assert not app.get("bidi_component")
    assert "No query matches the filters." in texts(app)


def test_an_empty_fleet_explains_how_to_attach_the_first_driver(app: AppTest, world: World) -> None:
    world.queries = []
    app.run()
    assert "controlplane run --app" in texts(app)
    assert "CONTROLPLANE_URL=http://127.0.0.1:8420" in texts(app)


def test_the_last_data_stays_under_a_banner_while_the_server_is_unreachable(
    app: AppTest, client: FakeClient, world: World
) -> None:
    from ui.kit import cached_reads

    app.run()
    client.error = ServerUnreachable("No connection to the server.")
    cached_reads.clear()
    app.run()
    assert not app.exception
    assert len(listed(app)) == len(world.queries)
    assert "This page shows the state of" in app.warning[0].value


def test_a_server_that_was_never_reachable_is_an_error_without_traceback(
    app: AppTest, client: FakeClient
) -> None:
    client.error = ServerUnreachable("No connection to the server.")
    app.run()
    assert not app.exception
    assert "No connection" in app.error[0].value


def test_a_refused_token_names_the_settings(app: AppTest, client: FakeClient) -> None:
    client.error = TokenRefused("The server refused the token (401): no such token")
    app.run()
    assert "CONTROLPLANE_TOKEN_FILE" in app.error[0].value


def test_query_shows_verdict_numbers_charts_and_tables(app: AppTest) -> None:
    on_query(app)
    assert app.title[0].value == r"pageviews\-to\-lake"
    assert "84k rows behind and growing" in texts(app)
    assert [metric.label for metric in app.metric] == [
        "Backlog", "Backlog age", "Input rate", "Last batch", "State", "Watermark",
    ]  # fmt: skip
    assert app.metric[0].value == "84\\.3k rows"
    assert len(app.get("echarts_chart")) == 14  # the timeline, four of the reports, nine of the series
    assert app.dataframe[0].value["end"].to_list() == ["running", "failed"]
    assert len(app.json) == 1


def one_of(value: str | list[str]) -> str:
    return value if isinstance(value, str) else value[0]


def charts(app: AppTest) -> list[str]:
    return [str(chart.proto.id).rpartition("chart_")[2] for chart in app.get("echarts_chart")]


def test_a_chart_that_does_not_apply_is_not_drawn(app: AppTest, world: World) -> None:
    world.details[RUNNING] = {"operators": [], "watermark": None}
    on_query(app)
    assert "watermark_lag" not in charts(app)
    assert not any(name.startswith("rocksdb") for name in charts(app))
    assert "executors" in charts(app)


def test_without_series_the_charts_show_captions(
    app: AppTest, client: FakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(*_: object) -> None:
        raise ServerNotFound("no such path")

    monkeypatch.setattr(client, "series", unknown)
    monkeypatch.setattr(client, "query_alerts", unknown)
    on_query(app)
    assert not app.error
    assert "The number of executors is not reported." in texts(app)
    assert charts(app)[:2] == ["timeline", "rates"]


def test_firing_alerts_are_at_the_head_with_their_acknowledgement(
    app: AppTest, client: FakeClient, world: World
) -> None:
    acknowledged = {"by": "ada", "at": factories.rfc3339(client.now), "comment": ""}
    world.alerting.alerts = [
        alert(now=client.now, name="Mine", query_id=RUNNING, acknowledged=acknowledged, silenced_by=["x"]),
        alert(now=client.now, name="Another", query_id=FAILED),
        alert(now=client.now, name="Waiting", query_id=RUNNING, state="pending"),
    ]
    on_query(app)
    links = [link.proto for link in app.get("page_link")]
    assert [link.label for link in links] == ["Fleet", "clicks", "**Mine**"]
    assert "app=clicks" in str(links[1])
    assert f"alert={world.alerting.alerts[0]['fingerprint']}" in str(links[2])
    badges = " ".join(str(badge.value) for badge in app.markdown)
    assert "acknowledged by ada" in badges
    assert "silenced" in badges


def test_a_range_in_the_address_is_the_range_of_the_charts(
    app: AppTest, client: FakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    requested: list[tuple[float, float]] = []

    def progress(query_id: str, start: float, end: float, step: float) -> dict[str, object]:
        requested.append((start, end))
        return factories.series(end, 60)

    monkeypatch.setattr(client, "progress", progress)
    on_query(app, **{"from": "2026-11-18T10:00:00Z", "to": "2026-11-18T11:00:00Z"})
    assert requested == [(1_794_996_000.0, 1_794_999_600.0)]
    app.button(key="range_now").click().run()
    assert "from" not in app.query_params
    assert requested[-1][1] > 1_795_000_000


def test_an_ended_query_opens_on_its_last_active_range_and_back_to_now_stays_there(
    app: AppTest, world: World
) -> None:
    last = factories.rfc3339(1_795_000_000.0)
    world.queries[0] |= {"last_progress_at": last}
    world.details[FAILED] = {"last_progress_at": last}
    on_query(app, FAILED)
    assert one_of(app.query_params["to"]) == factories.rfc3339(1_795_000_060.0)
    app.button(key="range_now").click().run()
    assert "to" not in app.query_params


def test_the_server_page_names_slow_stages_refusals_and_the_role(app: AppTest, world: World) -> None:
    app.run()
    app.switch_page("app_pages/server.py").run()
    assert not app.exception
    data = [json.loads(table.proto.json) for table in app.get("bidi_component")]
    assert [table["label"] for table in data] == ["Servers", "Stages", "Store and quotas"]
    assert data[0]["rows"][0]["cells"][2] == "Slow: Slot lateness."
    assert data[2]["rows"][2]["cells"][2].endswith("Refused since the start: clicks (12).")
    assert "with the role operator" in texts(app)


def test_a_receiver_is_tested_from_the_server_page(app: AppTest, world: World) -> None:
    integrations = [{"name": name, "failing_since": None, "error": None} for name in ("chat", "broken")]
    world.alerting.known_receivers = [
        {"name": "nobody", "routed": True, "integrations": []},
        {"name": "on-call", "routed": True, "integrations": integrations},
    ]
    app.run()
    app.switch_page("app_pages/server.py").run()
    assert app.selectbox(key="trial_receiver").options == ["on-call"]
    app.button(key="trial_send").click().run()
    good, bad = [text for text in (each.value for each in app.caption) if "on\\-call" in text]
    assert "took the test" in good
    assert "404 \\*gone\\*" in bad
    world.role = "viewer"
    cached_reads.clear()
    app.run()
    assert app.button(key="trial_send").disabled


def test_an_admin_sees_the_tokens_without_secrets_valid_ones_first(app: AppTest, world: World) -> None:
    def tokens() -> list[list[Any]]:
        data = [json.loads(table.proto.json) for table in app.get("bidi_component")]
        return [row["cells"] for table in data if table["label"] == "Tokens" for row in table["rows"]]

    app.run()
    app.switch_page("app_pages/server.py").run()
    assert tokens() == []
    world.role = "admin"
    cached_reads.clear()
    app.run()
    assert [row[0]["text"] for row in tokens()] == ["local admin", "orders agent", "old"]
    assert tokens()[1][2].startswith("Only for the application orders. Expires in")


def test_the_ledger_shows_the_policies_in_force(app: AppTest) -> None:
    app.run()
    app.switch_page("app_pages/ledger.py").run()
    assert app.expander[0].label == plain("Policies in force: version 0, built in")
    assert "mode: observe" in app.code[0].value


def test_pin_puts_the_shown_range_in_the_address(app: AppTest) -> None:
    on_query(app)
    app.button(key="range_pin").click().run()
    pinned = time_range.from_address({name: str(one_of(app.query_params[name])) for name in ("from", "to")})
    assert pinned is not None
    assert pinned.seconds == 900
    assert app.button(key="range_now")


def test_fleet_counts_alerts_with_the_worst_severity(app: AppTest, world: World) -> None:
    world.queries[0] |= {"alerts": 3, "alert_severity": "critical"}
    app.run()
    assert listed(app)[0][3] == "3 critical"


def test_fleet_label_filters_come_from_the_address(app: AppTest, world: World) -> None:
    world.queries[2] |= {"labels": {"team": "web"}}
    app.query_params["label"] = ["team=web"]
    app.run()
    assert names(app) == ["sessions"]


def test_a_failed_query_shows_condition_root_cause_advice_and_what_changed(app: AppTest) -> None:
    on_query(app, FAILED)
    assert "Run 5c8f03aa started." in texts(app)
    assert "2 min 30 s before" in texts(app)
    for part in ("FAILED_READ_FILE.FILE_NOT_EXIST", "java.io.FileNotFoundException", "Restart once"):
        assert part in texts(app)
    assert not app.button(key="ask_start").disabled
    assert app.button(key="ask_stop").disabled


def test_an_unknown_query_is_reported(app: AppTest) -> None:
    on_query(app, "nobody")
    assert "no such query" in app.error[0].value


def test_a_query_page_opened_without_a_server_fills_once_it_is_reachable(
    app: AppTest, client: FakeClient
) -> None:

    client.error = ServerUnreachable("No connection to the server.")
    on_query(app)
    assert "No connection" in app.error[0].value
    client.error = None
    cached_reads.clear()
    app.run()
    assert app.title[0].value == r"pageviews\-to\-lake"


def test_without_a_query_in_the_address_one_can_be_chosen(app: AppTest) -> None:
    app.run()
    app.switch_page("app_pages/query.py").run()
    app.selectbox[0].select(RUNNING).run()
    assert app.query_params["query_id"] in (RUNNING, [RUNNING])
    assert app.title[0].value == r"pageviews\-to\-lake"


def test_a_query_with_a_newer_checkpoint_leads_there(app: AppTest, world: World) -> None:
    world.details[RUNNING] = {"superseded_by": FAILED}
    on_query(app)
    app.button(key="go_newer").click().run()
    assert app.title[0].value == r"orders\-enriched"


@pytest.mark.parametrize(
    "overrides", [{"restart": {"how": "needs_factory", "reason": "the writer was reused"}}]
)
def test_a_query_that_needs_a_factory_has_its_restart_disabled_with_the_reason(
    app: AppTest, world: World, overrides: dict[str, object]
) -> None:
    world.details[RUNNING] = overrides
    on_query(app)
    assert app.button(key="ask_restart").disabled
    assert "the writer was reused" in app.button(key="ask_restart").help
    assert not app.button(key="ask_stop").disabled


def test_a_viewer_may_read_but_not_act(app: AppTest, world: World) -> None:
    world.role = "viewer"
    on_query(app)
    assert all(app.button(key=f"ask_{action}").disabled for action in ("restart", "stop", "start", "suspend"))


def test_a_restart_is_explained_posted_and_tracked(app: AppTest, client: FakeClient, world: World) -> None:
    on_query(app)
    app.button(key="ask_restart").click().run()
    assert "after its last committed batch, 1233 so far, from its checkpoint" in texts(app)
    app.toggle(key="ask_drain").set_value(True).run()
    assert "may finish first" in texts(app)
    assert "which has run for 48 s" in texts(app)
    app.text_input(key="ask_reason").set_value("memory grows").run()
    app.button(key="ask_yes").click().run()
    assert not app.exception
    ((query_id, body, key),) = world.posted
    assert query_id == RUNNING
    assert (body["action"], body["drain"], body["reason"]) == ("restart", True, "memory grows")
    assert "actor" not in body  # a log-in names the person in a header
    assert key
    assert "Restart with drain requested by" in texts(app)
    assert "Waiting for the driver to fetch the command." in texts(app)

    client.now += 30
    cached_reads.clear()
    app.run()
    assert "resumed at batch 1234" in texts(app)


def test_a_query_is_suspended_and_resumed(app: AppTest, client: FakeClient, world: World) -> None:
    on_query(app)
    app.button(key="ask_suspend").click().run()
    assert "No policy starts the query until it is resumed or started." in texts(app)
    app.toggle(key="ask_drain").set_value(True)
    app.text_input(key="ask_reason").set_value("source moves").run()
    app.button(key="ask_yes").click().run()
    assert not app.exception
    ((_, body, _),) = world.posted
    assert (body["state"], body["drain"], body["act"], body["reason"]) == (
        "suspended",
        True,
        True,
        "source moves",
    )
    assert "Stop with drain requested by" in texts(app)

    client.now += 30
    world.details[RUNNING] = {"status": "stopped", "action": None}
    cached_reads.clear()
    app.run()
    assert "desired: suspended" in texts(app)
    app.button(key="ask_resume").click().run()
    app.button(key="ask_yes").click().run()
    assert not app.exception
    assert world.posted[-1][1]["action"] == "start"


def test_an_action_of_another_user_is_shown(app: AppTest, world: World) -> None:
    world.details[RUNNING] = {"action": factories.action(9, state="delivered", actor="grace")}
    on_query(app)
    assert "Restart requested by grace: memory grows" in texts(app)
    assert "The driver has received the command." in texts(app)
    assert app.button(key="ask_stop").disabled


def test_a_cancelled_dialog_requests_nothing(app: AppTest, world: World) -> None:
    on_query(app)
    app.button(key="ask_stop").click().run()
    app.button(key="ask_no").click().run()
    assert world.posted == []
    with pytest.raises(KeyError):
        app.button(key="ask_yes")


def test_a_refusal_is_shown_in_the_dialog(
    app: AppTest, client: FakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise ServerRefused("Another action is under way.", "action_in_progress")

    monkeypatch.setattr(client, "act", refuse)
    on_query(app)
    app.button(key="ask_stop").click().run()
    app.button(key="ask_yes").click().run()
    assert "Another action is under way" in app.error[0].value


def test_actions_are_listed(app: AppTest, world: World) -> None:
    world.actions = [factories.action(1, state="failed", reason="the writer is gone"), factories.action(2)]
    app.run()
    app.switch_page("app_pages/actions.py").run()
    assert not app.exception
    assert app.dataframe[0].value["outcome"].to_list() == ["the writer is gone", ""]
    app.multiselect(key="state").select("requested").run()
    assert len(app.dataframe[0].value) == 1


def test_an_empty_actions_page_has_a_sentence(app: AppTest) -> None:
    app.run()
    app.switch_page("app_pages/actions.py").run()
    assert "No actions yet." in texts(app)


def test_the_ledger_has_the_figures_of_the_week_and_each_decision(app: AppTest, world: World) -> None:
    entry = {
        **factories.action(1),
        "policy": "payments",
        "mode": "observe",
        "why": "2 of 5 in 1 h",
        "at": None,
    }
    judged = {
        "decision": "restart",
        "outcome": "recovered_without_us",
        "outcome_why": "ada",
        "assessment": "helped",
    }
    world.ledger["entries"] = [{**entry, **judged}, {**entry, "decision": "page", "outcome": "open"}]
    world.ledger["figures"] = {"observe": {"helped": 1, "useless": 0, "wrong": 0, "open": 1}}
    app.run()
    app.switch_page("app_pages/ledger.py").run()
    assert not app.exception
    assert (app.metric[0].label, app.metric[0].value) == ("Would have helped", "1")
    assert app.dataframe[0].value["outcome"].to_list() == ["recovered without us (helped): ada", "open"]
    app.multiselect(key="decision").select("page").run()
    assert len(app.dataframe[0].value) == 1


def test_hostile_text_is_never_given_to_markdown_as_it_is(app: AppTest, world: World) -> None:
    hostile = factories.HOSTILE
    world.queries[0] |= {"name": hostile, "app": hostile, "reason": hostile}
    world.details[FAILED] = {
        "failure": factories.failure(condition=hostile, message=hostile, advice=hostile),
        "action": factories.action(7, actor=hostile, reason=hostile, request_reason=hostile),
        "restart": {"how": "needs_factory", "reason": hostile},
    }
    on_query(app, FAILED)
    markdown = [*app.markdown, *app.title, *app.caption, *app.header, *app.subheader]
    labels = [element.label for element in [*app.button, *app.metric]]
    tips = [button.help or "" for button in app.button]
    for text in [*(str(element.value) for element in markdown), *labels, *tips]:
        assert "![x](" not in text
        assert "[a](" not in text
        assert "<img" not in text.replace("\\<img", "")


def test_capacity_and_a_slow_batch_are_explained(app: AppTest) -> None:
    on_query(app, capacity="true")
    assert plain("busy 42 % · headroom at least 180/s · bottleneck: tasks") in texts(app)
    assert "The state reaches its limit." in texts(app)
    assert "Each batch runs 200 state tasks on 2 cores." in texts(app)
    app.toggle(key="show_batches").set_value(True).run()
    names = app.selectbox(key="batch").options
    app.selectbox(key="batch").set_value(app.selectbox(key="batch").options[0]).run()
    assert not app.exception and names[0].startswith("Batch ")
    tables = [frame.value for frame in app.dataframe]
    assert next(table for table in tables if "Part" in table.columns)["Of the batch"].to_list() == [
        "75 %",
        "25 %",
    ]
    phases = next(table for table in tables if "Phase" in table.columns)
    assert phases["Phase"][0] == "addBatch"
    spread = next(table for table in tables if "Partition" in table.columns)
    assert spread["Rows"].to_list() == [900, 100]


def test_a_query_is_compared_with_its_past_and_the_address_holds_the_choice(
    app: AppTest, world: World
) -> None:
    on_query(app)
    picker = app.selectbox(key=f"compare_with_{RUNNING}")
    assert picker.options[:2] == ["a day before", "a week before"]
    picker.set_value("1d").run()
    assert not app.exception
    assert app.query_params["compare"] in ("1d", ["1d"])
    assert "Compared with a day before" in [heading.value for heading in app.subheader]


def test_a_link_with_another_query_compares_with_it(app: AppTest, world: World) -> None:
    app_of = {query["query_id"]: query["app"] for query in world.queries}
    (sibling, *_) = [q for q in world.queries if q["app"] == app_of[RUNNING] and q["query_id"] != RUNNING]
    on_query(app, compare=str(sibling["query_id"]))
    assert f"Compared with {sibling['name']}" in [plain_text(heading.value) for heading in app.subheader]
    drawn = [alt for alt in charts(app) if alt.startswith("compare_")]
    assert drawn == ["compare_rate", "compare_duration", "compare_backlog"]
    assert "Not known of both in this range" in texts(app)


def plain_text(value: str) -> str:
    return value.replace("\\", "")
