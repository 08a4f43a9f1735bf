"""Checkpoints page, checkpoint panel and confirmation, run as scripts before a fake client."""

from __future__ import annotations

import time

import pytest
from streamlit.testing.v1 import AppTest

from tests.ui import factories
from tests.ui.checkpoint_factories import checkpoint, finding, found, note
from tests.ui.conftest import FakeClient
from tests.ui.fake_server import World
from tests.ui.test_pages import on_query
from tests.ui.test_pages import texts as as_markdown
from ui.kit import cached_reads
from ui.kit.answers import ServerRefused, ServerUnreachable
from ui.kit.markup import WORD_JOINER

BROKEN, UNKNOWN, RISKY, FINE = (factories.query_id(number) for number in (1, 2, 3, 10))


def on_checkpoints(app: AppTest, **params: str | list[str]) -> AppTest:
    app.run()
    for name, value in params.items():
        app.query_params[name] = value
    app.switch_page("app_pages/checkpoints.py").run()
    assert not app.exception
    return app


def texts(app: AppTest) -> str:
    """The texts of the page, without the characters that escape them."""
    return as_markdown(app).replace("\\", "").replace(WORD_JOINER, "")


def later(app: AppTest, client: FakeClient, seconds: float) -> AppTest:
    client.now += seconds
    cached_reads.clear()
    return app.run()


def test_every_checkpoint_is_listed_worst_first_with_counts(app: AppTest, world: World) -> None:
    on_checkpoints(app)
    table = app.dataframe[0].value
    assert len(table) == len(world.queries)
    assert table["verdict"].iloc[0] == ["Broken"]
    assert table["query"].iloc[0] == "orders-enriched"
    assert app.button(key="tile_broken").label == ":red[**2**] Broken"


def test_filters_come_from_the_address_and_a_tile_toggles_one(app: AppTest) -> None:
    on_checkpoints(app, verdict=["broken", "risky"], seek="lake")
    assert app.dataframe[0].value["query"].to_list() == ["orders-enriched", "sessions"]
    app.button(key="tile_broken").click().run()
    assert app.dataframe[0].value["query"].to_list() == ["sessions"]


def test_no_match_no_checkpoint_and_an_old_server_have_different_texts(
    app: AppTest, client: FakeClient, world: World
) -> None:
    on_checkpoints(app, seek="nothing like this")
    assert "No checkpoint matches the filters." in texts(app)
    world.checkpoints.known = {}
    later(app, client, 5)
    assert "No checkpoints yet." in texts(app)
    world.checkpoints.unsupported = True
    later(app, client, 5)
    assert "older than this dashboard" in app.info[0].value
    assert not app.error


def test_the_last_table_stays_under_a_banner_while_the_server_is_unreachable(
    app: AppTest, client: FakeClient
) -> None:
    on_checkpoints(app)
    client.error = ServerUnreachable("No connection to the server.")
    later(app, client, 5)
    assert len(app.dataframe[0].value) > 20
    assert "This page shows the state of" in app.warning[0].value


def test_a_thousand_checkpoints_are_one_table(app: AppTest, world: World) -> None:
    many = {factories.query_id(n): found(checkpoint(n, time.time())) for n in range(1000)}
    world.checkpoints.known = many
    on_checkpoints(app)
    assert len(app.dataframe[0].value) == 1000


def test_the_panel_shows_the_verdict_and_folds_the_rest(app: AppTest) -> None:
    on_query(app, BROKEN)
    assert "Batch 4411 cannot load its state" in texts(app)
    assert "restore the named files" not in texts(app)
    on_query(app, BROKEN, checkpoint="true")
    assert not app.exception
    for part in (
        "restore the named files",
        "The restart fails, in the first batch",
        "2 of 8 cannot load the",
    ):
        assert part in texts(app)
    assert {"Planned": "4411", "Committed": "4410", "Next": "4411"}.items() <= {
        metric.label: metric.value for metric in app.metric
    }.items()
    assert "controlplane repair s3://lake/checkpoints/orders-enriched --dry-run" in [
        c.value for c in app.code
    ]


def test_a_requested_check_is_awaited_and_its_result_shown(
    app: AppTest, client: FakeClient, world: World
) -> None:
    on_query(app, BROKEN)
    world.checkpoints.results[BROKEN] = {
        "checkpoint": {"verdict": "ok", "summary": "Mended."},
        "findings": [],
    }
    app.button(key="check_now").click().run()
    assert "The driver's agent is checking" in texts(app)
    assert app.button(key="check_now").disabled
    later(app, client, 2)
    assert "Mended." in texts(app)
    assert not app.button(key="check_now").disabled
    assert len(world.checkpoints.requests) == 1


def test_a_check_that_cannot_be_made_shows_the_reason(app: AppTest, world: World) -> None:
    on_query(app, BROKEN)
    world.checkpoints.refusal = "the agent is gone"
    app.button(key="check_now").click().run()
    assert "The checkpoint cannot be checked now: the agent is gone" in texts(app)


def test_a_viewer_cannot_request_a_check_and_sees_why(app: AppTest, world: World) -> None:
    world.role = "viewer"
    on_query(app, BROKEN)
    assert app.button(key="check_now").disabled
    assert "Checkpoint checks require the role operator" in app.button(key="check_now").help


def unfolded(app: AppTest, query_id: str) -> AppTest:
    app.query_params["checkpoint"] = "true"
    return on_query(app, query_id)


def test_a_rewind_is_previewed_for_the_batch_that_is_selected(app: AppTest, world: World) -> None:
    unfolded(app, FINE)
    app.button(key="rewind_list").click().run()
    assert "Batch 6 runs next, as of" in texts(app)
    table = next(t.value for t in app.dataframe if "next" in t.value)
    assert table["next"].to_list() == ["yes", "yes", "no: offsets/2 does not exist"]
    assert app.selectbox(key="rewind_to").options == ["5", "4"]
    app.selectbox(key="rewind_to").select(4).run()
    for part in ("batch 4 runs next, instead of batch 6", "2.4k rows", "rows already delivered"):
        assert part in texts(app)
    command = "controlplane rewind s3://lake/orders --resume-at 4"
    assert {command, f"{command} --dry-run"} <= {c.value for c in app.code}
    app.run()  # a refresh reads nothing again
    assert world.checkpoints.rewinds == [(FINE, None), (FINE, 4)]
    assert not app.exception


def test_a_rewind_that_cannot_be_previewed_shows_the_reason(app: AppTest, world: World) -> None:
    unfolded(app, FINE)
    world.checkpoints.refusal = "its local path is not below a checkpoint root of the server"
    app.button(key="rewind_list").click().run()
    assert world.checkpoints.refusal in texts(app)
    assert not app.exception


def test_a_rewind_is_requested_once_it_is_confirmed(app: AppTest, world: World) -> None:
    unfolded(app, FINE)
    app.button(key="rewind_list").click().run()
    app.selectbox(key="rewind_to").select(4).run()
    app.button(key="rewind_do").click().run()
    assert "copies every file that changes to a backup" in texts(app)
    app.text_input(key="change_reason").input("bad records").run()
    assert world.checkpoints.changes == []
    app.button(key="change_yes").click().run()
    assert world.checkpoints.changes == [("rewind", {"resume_at": 4, "reason": "bad records"})]
    assert not app.exception


def test_a_change_that_is_cancelled_is_not_requested(app: AppTest, world: World) -> None:
    unfolded(app, FINE)
    app.button(key="rewind_list").click().run()
    app.selectbox(key="rewind_to").select(5).run()
    app.button(key="rewind_do").click().run()
    app.button(key="change_no").click().run()
    assert world.checkpoints.changes == []
    assert "change_yes" not in {button.key for button in app.button}


def test_what_the_server_would_refuse_cannot_be_pressed(app: AppTest, world: World) -> None:
    world.checkpoints.running = True
    unfolded(app, FINE)
    app.button(key="rewind_list").click().run()
    app.selectbox(key="rewind_to").select(4).run()
    button = app.button(key="rewind_do")
    assert button.disabled
    assert "The query is running" in button.help


def test_a_repair_is_offered_confirmed_and_requested(app: AppTest, world: World) -> None:
    unfolded(app, FINE)
    app.button(key="repair_list").click().run()
    for part in ("Not possible: the query id is not known", "a whole partition", "A rewind to batch 4"):
        assert part in texts(app)
    assert "repair_do" not in {button.key for button in app.button}
    app.checkbox(key="repair_confirm_R-OFF-1").check().run()
    app.button(key="repair_do").click().run()
    app.button(key="change_yes").click().run()
    assert world.checkpoints.changes == [("repair", {"confirm": ["R-OFF-1"], "reason": ""})]
    assert not app.exception


def test_a_viewer_cannot_list_rewinds(app: AppTest, world: World) -> None:
    world.role = "viewer"
    unfolded(app, FINE)
    assert app.button(key="rewind_list").disabled
    assert "Rewinds require the role operator" in app.button(key="rewind_list").help


def test_a_temporary_checkpoint_is_one_line(app: AppTest, world: World) -> None:
    world.details[FINE] = {"facts": {"checkpoint_is_temporary": True}}
    on_query(app, FINE)
    assert "It is temporary" in texts(app)
    with pytest.raises(KeyError):
        app.button(key="check_now")


def test_a_server_without_checkpoints_leaves_the_confirmation_usable(app: AppTest, world: World) -> None:
    world.checkpoints.unsupported = True
    on_query(app, FINE)
    assert "Checkpoint: not known" in texts(app)
    app.button(key="ask_restart").click().run()
    assert not app.exception
    assert "unknown whether" not in texts(app)
    assert not app.button(key="ask_yes").disabled


def test_a_restart_requests_a_check_and_shows_where_it_resumes(
    app: AppTest, client: FakeClient, world: World
) -> None:
    on_query(app, FINE)
    app.button(key="ask_restart").click().run()
    assert [identity for identity, _ in world.checkpoints.requests] == [FINE]
    assert "checking again" in texts(app) and "A start waits for the result" in texts(app)
    assert "The next start resumes at batch" not in texts(app).partition("A start waits")[2]
    assert not app.button(key="ask_yes").disabled  # usable meanwhile
    later(app, client, 2)
    assert "The next start resumes at batch 1234." in texts(app)
    app.button(key="ask_yes").click().run()
    assert "force" not in world.posted[0][1]


def test_a_broken_checkpoint_is_overridden_only_by_the_checkbox_and_a_reason(
    app: AppTest, client: FakeClient, world: World
) -> None:
    on_query(app, BROKEN)
    app.button(key="ask_start").click().run()
    later(app, client, 2)
    assert "A start will fail:" in texts(app)
    assert app.button(key="ask_yes").disabled
    app.checkbox(key="ask_force").check().run()
    assert "Enter a reason" in app.button(key="ask_yes").help
    app.text_input(key="ask_reason").set_value("the file is back").run()
    app.button(key="ask_yes").click().run()
    body = world.posted[0][1]
    assert (body["action"], body["force"], body["reason"]) == ("start", True, "the file is back")


def test_a_stop_requests_no_check(app: AppTest, world: World) -> None:
    on_query(app, FINE)
    app.button(key="ask_stop").click().run()
    assert world.checkpoints.requests == []
    assert "checking again" not in texts(app)


def test_a_stop_that_no_start_can_follow_is_announced(app: AppTest, world: World) -> None:
    world.details[FINE] = {
        "restart": {"how": "needs_factory", "reason": "the query has no checkpointLocation"}
    }
    on_query(app, FINE)
    app.button(key="ask_stop").click().run()
    (warning,) = app.warning
    assert "cannot be started again from here. The query has no checkpointLocation." in warning.value.replace(
        "\\", ""
    )


def test_after_a_refusal_for_the_checkpoint_the_start_can_be_forced(
    app: AppTest, client: FakeClient, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = []

    def refuse(query_id: str, body: object, key: str) -> None:
        keys.append(key)
        raise ServerRefused("state/0/1/4411.delta is not there", "checkpoint_broken")

    on_query(app, FINE)
    app.button(key="ask_restart").click().run()
    with monkeypatch.context() as patch:
        patch.setattr(client, "act", refuse)
        app.button(key="ask_yes").click().run()
    assert "4411.delta is not there" in app.error[0].value.replace("\\", "")
    app.run()
    app.checkbox(key="ask_force").check().run()
    app.text_input(key="ask_reason").set_value("known").run()
    app.button(key="ask_yes").click().run()
    assert world.posted[0][1]["force"] is True
    assert world.posted[0][2] not in keys  # under the old key the server would answer the old refusal


def test_an_action_refused_for_its_checkpoint_shows_finding_and_remedy(app: AppTest, world: World) -> None:
    evidence = {"code": "checkpoint_broken", "checkpoint": checkpoint(), "findings": [note(), finding()]}
    refused = factories.action(
        9, state="refused", reason="batch 4411 cannot load its state", evidence=evidence, query_id=BROKEN
    )
    world.actions = [{**refused, "key": "k"}]
    app.session_state["tracked_actions"] = {BROKEN: refused["id"]}
    on_query(app, BROKEN)
    assert "The checkpoint is broken: batch 4411 cannot load its state" in texts(app)
    assert "restore the named files from a backup" in texts(app)


def test_text_of_a_checkpoint_never_reaches_markdown_unescaped(app: AppTest) -> None:
    on_query(app, factories.query_id(50), checkpoint="true")
    app.button(key="ask_restart").click().run()
    markdown = [*app.markdown, *app.title, *app.caption, *app.header, *app.subheader]
    labels = [str(element.label) for element in [*app.button, *app.metric, *app.checkbox, *app.expander]]
    tips = [str(button.help or "") for button in app.button]
    for text in [*(str(element.value) for element in markdown), *labels, *tips]:
        assert "![x](" not in text
        assert "[a](" not in text
        assert "<img" not in text.replace("\\<img", "")
    assert not any("controlplane doctor x;" in str(code.value) for code in app.code)  # planted in a remedy
