"""Applications page, run as a script before a fake client."""

from __future__ import annotations

import json

from streamlit.testing.v1 import AppTest

from tests.ui.app_factories import agent
from tests.ui.app_factories import app as application
from tests.ui.conftest import FakeClient
from tests.ui.fake_server import World
from tests.ui.test_checkpoint_pages import later, texts
from ui.kit.answers import ServerRefused


def on_applications(app: AppTest, **params: str) -> AppTest:
    app.run()
    for name, value in params.items():
        app.query_params[name] = value
    app.switch_page("app_pages/applications.py").run()
    assert not app.exception
    return app


def test_every_application_is_listed_with_desired_beside_actual(app: AppTest) -> None:
    table = on_applications(app).dataframe[0].value
    assert table["app"].to_list() == ["billing", "clicks"]
    assert list(map(list, table["state"])) == [["Running"], ["Ended"]]
    assert list(map(list, table["desired"])) == [[], ["Not as desired"]]
    assert table["version"].to_list() == ["7 (declared: 8)", "8"]


def test_the_panel_shows_facts_queries_drivers_and_output(app: AppTest) -> None:
    on_applications(app, application="billing")
    shown = texts(app)
    assert "running, set by ada" in shown
    assert "DB_PASSWORD" in shown
    assert app.dataframe[1].value["query"].to_list() == ["orders"]
    assert app.dataframe[2].value["spark"].to_list() == ["4.3.0"]
    app.toggle(key="app_output").set_value(True).run()
    assert app.code[0].value == "the last line of :material/home: `x`"


def test_all_drivers_are_listed_worst_first_also_where_no_application_is_declared(
    app: AppTest, client: FakeClient, world: World
) -> None:
    world.apps.known = []
    on_applications(app)
    (table,) = (json.loads(table.proto.json) for table in app.get("bidi_component"))
    assert [row["cells"][0]["text"] for row in table["rows"]] == ["clicks", "billing"]
    assert [row["cells"][1]["text"] for row in table["rows"]] == ["Silent", "Running"]
    assert "2 drivers: 1 silent, 1 running" in texts(app)
    world.apps.drivers = []
    later(app, client, 5)
    assert not app.get("bidi_component")


def test_a_driver_has_a_panel_with_its_host_and_what_each_deploy_changed(app: AppTest, world: World) -> None:
    before = agent(state="ended", name="aaaaaaaaaaaa", labels={"version": "6"}, spark_version="4.2.0")
    world.apps.drivers = [*world.apps.drivers, before]
    on_applications(app, driver="0123456789abcdef")
    tables = [json.loads(table.proto.json) for table in app.get("bidi_component")]
    deploys = next(table for table in tables if table["label"].startswith("Starts of this application"))
    assert [row["cells"][2] for row in deploys["rows"]] == ["version 6 → 7; Spark 4.2.0 → 4.3.0", ""]
    assert "version=7" in texts(app)
    app.button(key="close_driver").click().run()
    assert "driver" not in app.query_params
    on_applications(app, driver="gone")
    assert "does not know this driver" in texts(app)


def test_a_confirmed_stop_is_requested_once_with_its_reason(app: AppTest, world: World) -> None:
    on_applications(app, application="billing")
    assert app.button(key="app_start").disabled
    app.button(key="app_stop").click().run()
    app.text_input(key="app_reason").set_value("maintenance").run()
    app.toggle(key="app_drain").set_value(True).run()
    app.button(key="app_yes").click().run()
    ((name, body, key),) = world.apps.posted
    assert (name, body) == ("billing", {"action": "stop", "drain": True, "reason": "maintenance"})
    assert key


def test_only_an_admin_may_force_a_refused_start(app: AppTest, world: World) -> None:
    world.role = "admin"
    on_applications(app, application="clicks")
    app.button(key="app_start").click().run()
    world.apps.refusal = ServerRefused("Another driver may still run.", "driver_may_live")
    app.button(key="app_yes").click().run()
    assert "Another driver may still run" in app.error[0].value
    app.checkbox(key="app_force").set_value(True).run()
    app.button(key="app_yes").click().run()
    (_, first, first_key), (_, second, second_key) = world.apps.posted
    assert ("force" in first, second["force"]) == (False, True)
    assert first_key != second_key


def test_a_viewer_sees_no_output_and_cannot_act(app: AppTest, world: World) -> None:
    world.role = "viewer"
    on_applications(app, application="billing")
    assert all(app.button(key=f"app_{action}").disabled for action in ("start", "stop", "restart"))
    assert not [toggle for toggle in app.toggle if toggle.key == "app_output"]


def test_nothing_declared_and_an_old_server_have_different_texts(
    app: AppTest, client: FakeClient, world: World
) -> None:
    world.apps.known = []
    on_applications(app)
    assert "No applications are declared." in texts(app)
    world.apps.known = None
    later(app, client, 5)
    assert "older than this dashboard" in app.info[0].value


def test_hostile_names_stay_text(app: AppTest, world: World) -> None:
    world.apps.known = [application("a", reason="**bold** :material/home:", version="<b>1</b>")]
    on_applications(app)
    assert "**bold** :material/home:" in texts(app)
