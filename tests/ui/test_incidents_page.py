"""Incidents page, and the links to it, run as scripts before a fake client."""

from __future__ import annotations

import json
import time

import pytest
from streamlit.testing.v1 import AppTest

from tests.ui import factories, incident_factories
from tests.ui.alerting_factories import alert
from tests.ui.conftest import FakeClient
from tests.ui.fake_server import World
from tests.ui.incident_factories import DRIVER, SINK
from tests.ui.test_checkpoint_pages import later, texts

HOSTILE = "<img src=x onerror=alert(1)> :material/home: **b**"


@pytest.fixture(autouse=True)
def known(world: World) -> None:
    """One open incident, and one that has ended."""
    now = time.time()
    world.incidents.known = [incident_factories.of_driver(now), incident_factories.incident(now)]


def on(app: AppTest, page: str, **params: str) -> AppTest:
    app.run()
    for name, value in params.items():
        app.query_params[name] = value
    app.switch_page(f"app_pages/{page}.py").run()
    assert not app.exception
    return app


def tables(app: AppTest) -> list[list[str]]:
    """The first cell of each row, for each table."""
    drawn = [json.loads(table.proto.json) for table in app.get("bidi_component")]
    first = [[row["cells"][0] for row in table["rows"]] for table in drawn]
    return [[cell if isinstance(cell, str) else cell["text"] for cell in cells] for cells in first]


def links(app: AppTest) -> list[str]:
    return [link.proto.label for link in app.get("page_link")]


def test_the_list_has_open_incidents_first(app: AppTest, client: FakeClient, world: World) -> None:
    assert tables(on(app, "incidents")) == [["Sink s3a://lake/orders", "Driver of billing"]]
    world.incidents.known = []
    assert "No incidents in the last 7 days." in texts(later(app, client, 5))
    world.incidents.known = None
    assert "older than this dashboard" in later(app, client, 5).info[0].value


def test_an_incident_shows_its_queries_what_was_done_and_who_was_notified(app: AppTest, world: World) -> None:
    assert world.incidents.known
    world.incidents.known[1]["sentence"] = world.incidents.known[1]["cause"] = HOSTILE
    on(app, "incidents", incident=SINK)
    queries, done, notified, events = tables(app)
    assert queries == ["query-1", "query-2", "query-3"]
    assert done == ["Page query-1", "Start query-1"]
    assert notified == ["on-call"] and len(events) == 1
    assert HOSTILE in [text.value for text in app.text]
    assert "\\*\\*b\\*\\*" in app.title[0].value
    assert "Nobody has acknowledged it." in texts(app)


def test_it_is_acknowledged_from_its_page(app: AppTest, world: World) -> None:
    now = time.time()
    detail = incident_factories.detail(incident_factories.incident(now), now)
    world.alerting.alerts.append(detail["alerts"][0])
    key = f"acknowledge_{detail['alerts'][0]['fingerprint']}"
    on(app, "incidents", incident=SINK).button(key=key).click().run()
    app.text_input(key="acknowledge_comment").set_value("on it").run()
    app.button(key="answer_yes").click().run()
    assert world.alerting.alerts[-1]["acknowledged"]["comment"] == "on it"


def test_an_ended_incident_and_an_unknown_one(app: AppTest) -> None:
    on(app, "incidents", incident=DRIVER)
    assert "Driver of billing" in app.title[0].value
    assert not [button for button in app.button if str(button.key).startswith("acknowledge")]
    app.button(key="all_incidents").click().run()
    assert "incident" not in app.query_params and app.title[0].value == "Incidents"
    app.query_params["incident"] = "0000"
    assert "there is no incident 0000" in app.run().info[0].value.replace("\\", "")


def test_the_fleet_a_query_and_an_alert_lead_to_the_open_incident(app: AppTest, world: World) -> None:
    label = "**Incident: Sink s3a"
    world.alerting.alerts.append(found := alert("QueryFailed", time.time(), query_id=factories.query_id(2)))
    assert [text for text in links(app.run()) if text.startswith(label)]
    app.query_params["query_id"] = factories.query_id(1)
    assert [text for text in links(app.switch_page("app_pages/query.py").run()) if text.startswith(label)]
    app.query_params["alert"] = str(found["fingerprint"])
    app.switch_page("app_pages/alerts.py").run()
    assert not app.exception
    (link,) = (link.proto for link in app.get("page_link") if link.proto.label == "Open incident")
    assert link.query_string == f"incident={SINK}"
