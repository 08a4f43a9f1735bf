"""The Alerts and Rules pages before the real server: an alert is seen, acknowledged and silenced."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.acceptance.live import LiveServer, live_server
from tests.acceptance.simulated import SimulatedQuery
from tests.ui import browser
from tests.ui.browser import Screen, until

pytestmark = pytest.mark.browser

RULES = """groups:
  - name: own
    interval: 1s
    rules:
      - alert: QueryFailed
        expr: spark_streaming_query_status{status="failed"} == 1
        labels: {severity: critical}
        annotations:
          summary: '{{ $labels.query }} <b>has failed</b>'
          runbook_url: https://runbooks.example/QueryFailed.md
      - alert: Waits
        expr: spark_streaming_query_status{status="failed"} == 1
        for: 1h
"""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LiveServer, str]]:
    """The server with its own rules, evaluated every second, and the app before it."""
    browser.need_chromium()
    folder = tmp_path_factory.mktemp("dashboard")
    (folder / "rules.yaml").write_text(RULES)
    with (
        live_server(folder / "data", rules=(str(folder / "rules.yaml"),), series_step=1.0) as server,
        browser.streamlit(server.url, server.admin_token) as address,
    ):
        yield server, address


@pytest.fixture
def screen(browser_context: Any, running: tuple[LiveServer, str]) -> Iterator[Screen]:
    page = browser_context.new_page()
    yield Screen(page, running[1])
    page.close()


def test_an_alert_is_seen_acknowledged_silenced_and_notified_again(
    screen: Screen, running: tuple[LiveServer, str]
) -> None:
    query = SimulatedQuery("invoices")
    with closing(running[0].agent()) as agent:
        agent.start(query)
        agent.send(agent.progress(query))
        agent.terminated(query, "java.lang.OutOfMemoryError: Java heap space", "STREAM_FAILED")
        _seen(screen)
        _acknowledged(screen)
        _silenced(screen)
        _expired(screen)
        _listed_under_its_rule(screen)


def _seen(screen: Screen) -> None:
    screen.go("/alerts")
    until(lambda: len(screen.rows()) == 1 and "invoices <b>has failed</b>" in screen.first_row())
    assert "Critical" in screen.first_row()
    until(lambda: screen.page.locator(".st-key-tile_pending").inner_text().split() == ["1", "Pending"])
    box = screen.page.locator('[data-testid="stDataFrame"] canvas').first.bounding_box()
    screen.page.mouse.click(box["x"] + 270, box["y"] + 33 * 1.5)
    screen.page.get_by_role("heading", name="QueryFailed").wait_for()
    link = screen.page.get_by_role("link", name="Runbook")
    assert link.get_attribute("href") == "https://runbooks.example/QueryFailed.md"


def _acknowledged(screen: Screen) -> None:
    screen.page.get_by_role("button", name="Acknowledge").click()
    dialog = screen.page.get_by_role("dialog")
    dialog.get_by_label("Comment").fill("more memory comes")
    dialog.get_by_role("button", name="Acknowledge").click()
    dialog.wait_for(state="detached")
    screen.page.get_by_text("more memory comes").first.wait_for()


def _silenced(screen: Screen) -> None:
    screen.page.get_by_role("button", name="Silence", exact=True).click()
    dialog = screen.page.get_by_role("dialog")
    dialog.get_by_text("Covers 1 firing alert now").wait_for()
    typed = dialog.get_by_role("textbox", name="Matchers")
    typed.fill("{nonsense")
    typed.press("Control+Enter")
    dialog.get_by_role("alert").wait_for()
    assert "The server answered" not in dialog.inner_text()  # the server's own message
    typed.fill('alertname="QueryFailed"\nquery="invoices"')
    typed.press("Control+Enter")
    dialog.get_by_text("Covers 1 firing alert now").wait_for()
    dialog.get_by_label("Comment").fill("deploy")
    dialog.get_by_role("button", name="Silence", exact=True).click()
    dialog.wait_for(state="detached")
    until(lambda: screen.page.locator(".st-key-tile_suppressed").inner_text().split() == ["1", "Suppressed"])
    screen.page.get_by_text("1 alert is silenced or inhibited.").wait_for()


def _expired(screen: Screen) -> None:
    screen.page.locator(".st-key-tile_silences button").click()
    screen.page.get_by_role("button", name="Expire").click()
    dialog = screen.page.get_by_role("dialog")
    dialog.get_by_text("1 firing alert notifies again.").wait_for()
    dialog.get_by_role("button", name="Expire").click()
    dialog.wait_for(state="detached")
    until(lambda: screen.page.locator(".st-key-tile_firing_now").inner_text().split() == ["1", "Firing"])
    screen.page.locator(".st-key-tile_history button").click()
    until(lambda: any("QueryFailed" in row for row in screen.rows()))


def _listed_under_its_rule(screen: Screen) -> None:
    screen.go("/rules?rule_state=pending")
    screen.page.get_by_text("Waits").first.wait_for()
    screen.page.get_by_text("for 1 h").wait_for()
    assert (
        screen.page.locator('[class*="st-key-rule_"] code')
        .text_content()
        .startswith("spark_streaming_query_status")
    )
    screen.page.get_by_test_id("stPageLink-NavLink").get_by_text("1 pending").first.click()
    until(lambda: len(screen.rows()) == 1 and "Waits" in screen.first_row())
