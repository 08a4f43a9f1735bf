"""Checkpoints in Chromium: the page, the panel, the confirmation."""

from __future__ import annotations

import pytest

from tests.ui import factories
from tests.ui.browser import Screen, until
from tests.ui.fake_server import FakeServer

pytestmark = pytest.mark.browser

BROKEN = factories.query_id(1)


def test_a_click_on_a_checkpoint_leads_to_its_querys_open_panel(screen: Screen) -> None:
    screen.go("/checkpoints")
    until(lambda: "orders-enriched" in screen.first_row())
    assert "Broken" in screen.first_row()
    screen.click_name(0)
    screen.page.wait_for_url(f"**/query?query_id={BROKEN}&checkpoint=true**")
    panel = screen.page.locator(".st-key-checkpoint_panel")
    panel.get_by_text("restore the named files from a backup").first.wait_for()
    assert screen.foreign == []


def test_a_check_shows_the_new_verdict_and_keeps_the_panel_in_place(
    screen: Screen, server: FakeServer
) -> None:
    repaired = {"checkpoint": {"verdict": "ok", "summary": "A start resumes at batch 4411."}, "findings": []}
    server.world.checkpoints.results[BROKEN] = repaired
    screen.go(f"/query?query_id={BROKEN}")
    panel = screen.page.locator(".st-key-checkpoint_panel")
    panel.get_by_text("Broken").first.wait_for()
    panel.evaluate("node => { node.marked = true }")
    height = panel.bounding_box()["height"]
    screen.page.get_by_role("button", name="Check now").focus()
    screen.page.keyboard.press("Enter")
    panel.get_by_text("A start resumes at batch 4411.").wait_for()
    until(lambda: panel.bounding_box()["height"] == height)
    assert panel.evaluate("node => node.marked === true")
    # Streamlit may run the script of one click twice; the server then returns the request in progress.
    assert {query_id for query_id, _ in server.world.checkpoints.requests} == {BROKEN}


def test_a_start_from_a_broken_checkpoint_needs_the_checkbox_and_a_reason(
    screen: Screen, server: FakeServer
) -> None:
    screen.go(f"/query?query_id={BROKEN}")
    screen.page.get_by_role("button", name="Start", exact=True).click()
    dialog = screen.page.get_by_role("dialog")
    reason = dialog.get_by_label("Reason")
    reason.click()
    reason.press_sequentially("the file ", delay=50)
    dialog.get_by_text("A start will fail:").wait_for()  # the verdict arrives while the person types
    start = dialog.get_by_role("button", name="Start", exact=True)
    assert start.is_disabled()
    dialog.get_by_text("Continue anyway").click()
    reason.click()
    reason.press("End")
    reason.press_sequentially("is back")
    until(start.is_enabled)
    assert reason.input_value() == "the file is back"
    start.click()
    dialog.wait_for(state="detached")
    ((_, body, _),) = server.world.posted
    assert (body["force"], body["reason"]) == (True, "the file is back")
