"""Fixtures of the page tests: a fake client for AppTest, and a browser in front of the whole app."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from tests.paths import ROOT
from tests.ui import browser, factories, fake_series
from tests.ui.browser import Screen
from tests.ui.fake_alerting import AlertingAnswers
from tests.ui.fake_server import FakeServer, World
from ui.kit import answers, cached_reads
from ui.kit.answers import ClientError, ServerNotFound
from ui.kit.fleet_page import EVERYTHING, FleetPage

ENTRY = str(ROOT / "ui/app.py")


class FakeClient(AlertingAnswers):
    """`ui.kit.client.ServerClient` without HTTP: answers from a `World`, or raises `error` when it is set."""

    server = "http://127.0.0.1:8420"

    def __init__(self, world: World):
        self.world = world
        self.error: ClientError | None = None
        self.now = time.time()

    def fleet(self, page: FleetPage = EVERYTHING) -> dict[str, Any]:
        return self._or_error(self.world.fleet(self.now, page))

    def fleet_choices(self) -> dict[str, Any]:
        return self._or_error(self.world.choices())

    def query(self, query_id: str) -> dict[str, Any]:
        found = self._or_error(self.world.detail(query_id, self.now))
        if found is None:
            raise ServerNotFound("no such query")
        return found

    def progress(self, query_id: str, start: float, end: float, step: float) -> dict[str, Any]:
        return self._or_error(factories.series(end, 60))

    def batch(self, query_id: str, run_id: str, batch_id: int) -> dict[str, Any]:
        offsets = {"orders": {"0": 100 * batch_id, "1": 900 * batch_id}}
        ends = {"orders": {"0": 100 * batch_id + 100, "1": 900 * batch_id + 900}}
        source = {"startOffset": offsets, "endOffset": ends, "latestOffset": ends}
        return self._or_error({"report": {"batchId": batch_id, "sources": [source]}})

    def about_query(self, query_id: str, part: str, *params: tuple[str, str]) -> dict[str, Any]:
        return self._or_error(self.world.about_query[part])

    def past(self, query_id: str, start: float, end: float) -> dict[str, Any]:
        return self._or_error({"runs": [], "alerts": [], "actions": [], "notes": []})

    def series(self, query: str, start: float, end: float, step: float) -> dict[str, Any]:
        return self._or_error(self.world.series(query, start, end, step))

    def instant(self, query: str) -> dict[str, Any]:
        return self._or_error(fake_series.vector(self.now, self.world.batch_age))

    def query_alerts(self, query_id: str, start: float, end: float) -> dict[str, Any]:
        return self._or_error(self.world.fired(query_id))

    def actions(self) -> dict[str, Any]:
        return self._or_error(
            {"actions": [self.world.seen(action, self.now) for action in self.world.actions]}
        )

    def ledger(self) -> dict[str, Any]:
        return self._or_error(self.world.ledger)

    def incidents(self) -> dict[str, Any]:
        return self._or_error(self.world.incidents.list())

    def incident(self, incident_id: str) -> dict[str, Any]:
        self._or_error(None)
        return self.world.incidents.get(incident_id, self.now)

    def incident_bundle(self, incident_id: str) -> dict[str, Any]:
        return self._or_error(self.world.incidents.bundle(incident_id))

    def action(self, action_id: str) -> dict[str, Any]:
        found = next(action for action in self.world.actions if action["id"] == action_id)
        return self._or_error({"action": self.world.seen(found, self.now)})

    def servers(self) -> dict[str, Any]:
        return self._or_error({"servers": [{"address": self.server, **self.world.about()}]})

    def whoami(self) -> dict[str, Any]:
        return self._or_error({"name": "test", "role": self.world.role})

    def apps(self) -> dict[str, Any]:
        return self._or_error(self.world.apps.list())

    def agents(self) -> dict[str, Any]:
        return self._or_error(self.world.apps.agents())

    def app_logs(self, name: str) -> dict[str, Any]:
        return self._or_error(self.world.apps.logs(name))

    def act_on_app(self, name: str, body: dict[str, Any], idempotency_key: str) -> dict[str, Any]:
        return self._or_error(self.world.apps.act(name, body, idempotency_key))

    def try_receiver(self, receiver: str) -> dict[str, Any]:
        return self._or_error(self.world.alerting.trial(receiver))

    def tokens(self) -> dict[str, Any]:
        return self._or_error({"tokens": factories.tokens()})

    def policies(self) -> dict[str, Any]:
        return self._or_error(factories.policies())

    def saved_views(self) -> dict[str, Any]:
        return self._or_error(self.world.views())

    def save_view(self, name: str, parameters: str) -> dict[str, Any]:
        self._or_error(None)
        self.world.saved_views[name] = parameters
        return {}

    def delete_view(self, name: str) -> dict[str, Any]:
        self._or_error(None)
        del self.world.saved_views[name]
        return self.world.views()

    def checkpoints(self) -> dict[str, Any]:
        return self._or_error(self.world.checkpoints.list(self.now))

    def checkpoint(self, query_id: str) -> dict[str, Any]:
        self._or_error(None)
        return self.world.checkpoints.get(query_id, self.now)

    def request_inventory(self, query_id: str) -> dict[str, Any]:
        self._or_error(None)
        return self.world.checkpoints.request_inventory(query_id, self.now)

    def planned_change(self, query_id: str, kind: str, params: Any = None) -> dict[str, Any]:
        self._or_error(None)
        return self.world.checkpoints.planned_change(query_id, kind, params or [], self.now)

    def change_checkpoint(
        self, query_id: str, kind: str, body: dict[str, Any], idempotency_key: str
    ) -> dict[str, Any]:
        self.world.checkpoints.changes.append((kind, body))
        asked = {"action": kind, "drain": False, "reason": body["reason"]}
        return self._or_error({"action": self.world.ask(query_id, asked, idempotency_key, self.now)})

    def act(self, query_id: str, body: dict[str, Any], idempotency_key: str) -> dict[str, Any]:
        return self._or_error({"action": self.world.ask(query_id, body, idempotency_key, self.now)})

    def set_desired(self, query_id: str, body: dict[str, Any]) -> dict[str, Any]:
        return self._or_error(self.world.desire(query_id, body, self.now))

    def post_bulk_action(self, place: str, body: dict[str, Any], key: str) -> dict[str, Any]:
        return self._or_error(self.world.bulk.post(place, body, key))

    def bulk_action(self, bulk_id: str) -> dict[str, Any]:
        return self._or_error({"bulk_action": self.world.bulk.bulk})

    def _or_error(self, answer: Any) -> Any:
        if self.error:
            raise self.error
        return answer


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def client(world: World, monkeypatch: pytest.MonkeyPatch) -> FakeClient:
    fake, known = FakeClient(world), answers.LastGoodAnswers()
    monkeypatch.setattr(cached_reads, "connection", lambda: fake)
    monkeypatch.setattr(cached_reads, "_last_good", lambda: known)
    cached_reads.clear()
    return fake


@pytest.fixture
def app(client: FakeClient) -> AppTest:
    """The whole app, on its first page, not run yet."""
    return AppTest.from_file(ENTRY, default_timeout=120)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    path = browser.need_chromium()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=path, args=browser.FLAGS)
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def browser_context(chromium: Any) -> Iterator[Any]:
    """One browser profile for all tests: the app's scripts are fetched once."""
    context = chromium.new_context(viewport={"width": 1440, "height": 900}, timezone_id="Europe/Berlin")
    yield context
    context.close()


@pytest.fixture(scope="module")
def stage() -> Iterator[tuple[FakeServer, str]]:
    """The fake server and, in front of it, the app; both serve all browser tests."""
    browser.need_chromium()
    server = FakeServer(World()).start()
    with browser.streamlit(server.url, server.world.token) as address:
        yield server, address
    server.stop()


@pytest.fixture
def server(stage: tuple[FakeServer, str]) -> Iterator[FakeServer]:
    """The fake server with a new world for this test; always running again afterwards."""
    running = stage[0]
    vars(running.world).update(vars(World()))
    yield running
    running.stop()
    running.start()


@pytest.fixture
def screen(browser_context: Any, stage: tuple[FakeServer, str], server: FakeServer) -> Iterator[Screen]:
    page = browser_context.new_page()
    yield Screen(page, stage[1])
    page.close()
