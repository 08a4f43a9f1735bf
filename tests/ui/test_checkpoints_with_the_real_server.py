"""The Checkpoints page, the panel and the confirmation before the real server with a simulated driver."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from controlplane.checkpoints.repair import writer_detection
from tests.acceptance.live import LiveServer, live_server
from tests.acceptance.simulated import SimulatedQuery
from tests.acceptance.test_checkpoints_over_http import inventory, looks, write
from tests.ui import browser
from tests.ui.browser import Screen, until

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("checkpoints")


@pytest.fixture(scope="module")
def running(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LiveServer, str]]:
    browser.need_chromium()
    data, roots = tmp_path_factory.mktemp("dashboard") / "data", (str(root),)
    with (
        live_server(data, checkpoint_roots=roots, checkpoint_changes=True) as server,
        browser.streamlit(server.url, server.admin_token) as address,
    ):
        yield server, address


@pytest.fixture
def screen(browser_context: Any, running: tuple[LiveServer, str]) -> Iterator[Screen]:
    page = browser_context.new_page()
    yield Screen(page, running[1])
    page.close()


def test_a_broken_checkpoint_is_listed_checked_again_and_overridden(
    screen: Screen, running: tuple[LiveServer, str], tmp_path: Path
) -> None:
    query = SimulatedQuery("invoices")
    root = write(tmp_path / "checkpoint", query.query_id, 1)
    with closing(running[0].agent()) as agent:
        agent.start(query)
        agent.send(*(agent.progress(query, stateOperators=[]) for _ in range(2)))
        agent.send(inventory(query, root, "started"))
        agent.serve_commands(looks(query, lambda: root))
        _listed_as_ok(screen)
        (root / "offsets/1").write_text("v1\n")
        _checked_again(screen)
        _overridden(screen)


def _listed_as_ok(screen: Screen) -> None:
    screen.go("/checkpoints")
    until(lambda: "OK" in screen.first_row() and "The next start resumes at batch 2" in screen.first_row())


def _checked_again(screen: Screen) -> None:
    screen.click_name(0)
    panel = screen.page.locator(".st-key-checkpoint_panel")
    panel.get_by_text("because a run started").wait_for()
    screen.page.get_by_role("button", name="Check now").click()
    panel.get_by_text("Broken").first.wait_for()
    panel.locator(".st-key-checkpoint_finding_0").get_by_text("offsets/1").first.wait_for()


def _overridden(screen: Screen) -> None:
    screen.page.get_by_role("button", name="Restart").click()
    dialog = screen.page.get_by_role("dialog")
    dialog.get_by_text("A start will fail:").wait_for()
    dialog.get_by_text("Continue anyway").click()
    dialog.get_by_label("Reason").fill("the batch is known")
    restart = dialog.get_by_role("button", name="Restart")
    until(restart.is_enabled)
    restart.click()
    dialog.wait_for(state="detached")
    screen.page.get_by_text("Forced restart requested by").wait_for()
    screen.page.get_by_text("resumed at batch 2").first.wait_for()


def test_a_stopped_query_is_rewound_and_the_rewind_undone(
    screen: Screen, running: tuple[LiveServer, str], root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_detection, "MIN_PAUSE_SECONDS", 0.1)
    monkeypatch.setattr(writer_detection, "MAX_PAUSE_SECONDS", 0.1)
    query = SimulatedQuery("refunds")
    write(root / "refunds", query.query_id, 3)
    with closing(running[0].agent()) as agent:
        agent.start(query)
        agent.send(("status", agent.status(query, facts={"checkpoint": str(root / "refunds")})))
        agent.send(*(agent.progress(query, stateOperators=[]) for _ in range(4)))
        agent.terminated(query)
        screen.go(f"/query?query_id={query.query_id}&checkpoint=true")
        panel, dialog = screen.page.locator(".st-key-checkpoint_panel"), screen.page.get_by_role("dialog")
        panel.get_by_role("button", name="List batches").click()
        chosen = panel.get_by_role("combobox", name="Batch to run next")
        chosen.click()
        chosen.fill("2")
        chosen.press("Enter")
        panel.get_by_role("button", name="Rewind…").click()
        dialog.get_by_label("Reason").fill("bad records")
        dialog.get_by_role("button", name="Rewind", exact=True).click()
        screen.page.get_by_text("Rewind requested by local admin: bad records").wait_for()
        panel.get_by_role("button", name="Undo…").click()
        assert not (root / "refunds/offsets/2").exists()
        dialog.get_by_role("button", name="Undo", exact=True).click()
        screen.page.get_by_text("files restored").first.wait_for()
    assert (root / "refunds/offsets/3").exists()
