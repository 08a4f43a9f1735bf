"""An action on the queries that the Fleet page's filters show, run as a script before a fake client."""

from __future__ import annotations

from streamlit.testing.v1 import AppTest

from tests.ui.conftest import FakeClient
from tests.ui.fake_server import World
from tests.ui.test_checkpoint_pages import texts
from ui.kit.answers import ClientError


def opened(app: AppTest, application: str = "clicks") -> AppTest:
    app.query_params["app"] = application
    app.run()
    app.button(key="ask_bulk").click().run()
    assert not app.exception
    return app


def test_the_shown_queries_are_restarted_once_the_refused_are_left_out(app: AppTest, world: World) -> None:
    shown = [query["query_id"] for query in world.queries if query["app"] == "clicks"]
    world.bulk.refused = {shown[0]: "the checkpoint is broken"}
    opened(app)
    table = app.dataframe[-1].value
    assert len(table) == len(shown) and table["Refused"][0] == "the checkpoint is broken"
    assert f"{len(shown) - 1} of {len(shown)} queries can take this action now" in texts(app)
    app.text_input(key="bulk_reason").set_value("new credentials").run()
    assert app.button(key="bulk_yes").disabled
    app.checkbox(key="bulk_skip").set_value(True).run()
    app.number_input(key="bulk_parallel").set_value(2).run()
    app.button(key="bulk_yes").click().run()
    ((body, key),) = world.bulk.posted
    assert sorted(body["query_ids"]) == sorted(shown) and key
    assert (body["action"], body["reason"], body["max_parallel"]) == ("restart", "new credentials", 2)
    assert (body["skip_refused"], body["halt_on_failure"], body["drain"]) == (True, True, False)
    assert "queries by test: 1 running" in texts(app)
    world.bulk.error = ClientError("the server is away")
    app.button(key="bulk_cancel").click().run()
    assert not app.exception and "the server is away" in "\n".join(error.value for error in app.error)
    world.bulk.error = None
    app.button(key="bulk_cancel").click().run()
    assert world.bulk.cancelled and "Cancelled: cancelled by test" in texts(app)


def test_an_action_without_a_reason_or_a_plan_is_not_sent(
    app: AppTest, client: FakeClient, world: World
) -> None:
    opened(app)
    assert app.button(key="bulk_yes").disabled and app.button(key="bulk_yes").help == "Give a reason."
    client.error = ClientError("the server is away")
    app.segmented_control(key="bulk_choice").set_value("stop").run()
    assert "the server is away" in "\n".join(error.value for error in app.error)
    assert not world.bulk.posted


def test_a_viewer_cannot_open_it(app: AppTest, world: World) -> None:
    world.role = "viewer"
    app.run()
    assert app.button(key="ask_bulk").disabled and "viewer" in app.button(key="ask_bulk").help
