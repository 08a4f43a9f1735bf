"""A lagging query of the demo from alert to recovery: webhook notification, restart in Chromium, no row lost.

Real Spark under `controlplane demo`, the real server and dashboard, a real browser and a real receiver.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.spark.demonstration import FIRST_FIGURES, Demo
from tests.ui import browser
from tests.ui.browser import Screen
from tests.webhook_receiver import WebhookReceiver, running_webhook

pytestmark = [pytest.mark.spark, pytest.mark.browser, pytest.mark.soak]

FLAGGED = 300


@pytest.fixture(scope="module")
def webhook() -> Iterator[WebhookReceiver]:
    with running_webhook() as receiver:
        yield receiver


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory, webhook: WebhookReceiver) -> Iterator[Demo]:
    """One demonstration for both nights: a query that lags, and one whose checkpoint is damaged."""
    troubles = ("slow_consumer", "damaged_checkpoint")
    running = Demo(tmp_path_factory.mktemp("demo"), "--webhook", webhook.url, "--only", *troubles)
    running.until(running.shows_figures, FIRST_FIGURES, running.queries)
    yield running
    running.close()


@pytest.fixture
def screen(demo: Demo) -> Iterator[Screen]:
    path = browser.need_chromium()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=path, args=browser.FLAGS)
        page = launched.new_page(viewport={"width": 1440, "height": 900})
        yield Screen(page, f"http://127.0.0.1:{demo.ui_port}")
        launched.close()


def batches(demo: Demo, query_id: str) -> list[dict[str, Any]]:
    """Spark's own reports of a query that read something, in the order of their arrival."""
    found: list[dict[str, Any]] = []
    after: int | None = 0
    while after is not None:
        page = demo.call(f"queries/{query_id}/events?type=progress&limit=1000&after={after}")
        found += [event["data"] for event in page["events"]]
        after = page["next"]
    return [report for report in found if report["numInputRows"]]


def test_the_lagging_query_is_notified_and_restarted_and_no_row_is_lost_or_repeated(
    demo: Demo, screen: Screen, webhook: WebhookReceiver
) -> None:
    demo.until(lambda: webhook.alerts("LagGrowing"), FLAGGED, demo.pages)
    (output, *_) = webhook.alerts("LagGrowing")
    query = demo.queries()["clicks_slow"]
    assert output["labels"]["query_id"] == query["query_id"]
    assert output["generatorURL"].startswith(f"http://127.0.0.1:{demo.ui_port}/alerts?alert=")

    screen.page.goto(output["generatorURL"])
    screen.page.get_by_role("heading", name="LagGrowing").wait_for()
    screen.page.get_by_text("is falling behind").first.wait_for()
    screen.page.get_by_text("Open query").first.click()
    screen.page.get_by_role("heading", name="clicks_slow").wait_for()
    screen.page.get_by_text("Lagging").first.wait_for()
    screen.page.get_by_role("button", name="Restart").click()
    dialog = screen.page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill("it lags")
    dialog.get_by_role("button", name="Restart").click()
    screen.page.get_by_text("Succeeded").first.wait_for(timeout=120_000)

    demo.until(lambda: demo.queries()["clicks_slow"]["run_id"] != query["run_id"], 60, demo.queries)
    after = demo.queries()["clicks_slow"]
    assert after["query_id"] == query["query_id"]
    demo.until(lambda: demo.queries()["clicks_slow"]["batch_id"] > after["batch_id"] + 2, 90, demo.queries)
    reports = batches(demo, query["query_id"])
    assert len({report["runId"] for report in reports}) == 2
    assert [report["batchId"] for report in reports] == list(range(len(reports)))
    ends = [report["sources"][0]["endOffset"] for report in reports]
    assert [report["sources"][0]["startOffset"] for report in reports][1:] == ends[:-1]
    screen.page.get_by_role("tab", name="Runs").click()
    assert screen.foreign == []


def test_a_damaged_checkpoint_fails_the_restart_with_sparks_own_condition_and_nothing_loops(
    demo: Demo, screen: Screen, webhook: WebhookReceiver
) -> None:
    demo.until(lambda: webhook.alerts("CheckpointTrouble"), FLAGGED, demo.pages)
    query = demo.queries()["balances_damaged"]
    starts = query["starts"]

    screen.page.goto(f"{screen.address}/query?query_id={query['query_id']}")
    screen.page.get_by_role("heading", name="balances_damaged").wait_for()
    screen.page.get_by_text("CANNOT_LOAD_STATE_STORE").first.wait_for()
    screen.page.get_by_role("button", name="Start", exact=True).click()
    dialog = screen.page.get_by_role("dialog")
    dialog.get_by_text("A start will fail:").wait_for()  # before the button is used
    start = dialog.get_by_role("button", name="Start", exact=True)
    assert start.is_disabled()
    dialog.get_by_text("Continue anyway").click()
    dialog.get_by_label("Reason").fill("to see it fail")
    dialog.get_by_label("Reason").press("Tab")
    browser.until(start.is_enabled)
    start.click()
    screen.page.get_by_text("requested by").first.wait_for()
    demo.until(lambda: demo.call("actions")["actions"][0]["state"] == "failed", 120, demo.queries)
    action = demo.call("actions")["actions"][0]
    assert "CANNOT_LOAD_STATE_STORE" in action["reason"]
    screen.page.get_by_text("Failed").first.wait_for()

    settled = demo.queries()["balances_damaged"]["starts"]
    assert (
        settled <= starts + 2
    )  # one start by command; Spark may count its failure inside start() as another
    screen.page.wait_for_timeout(20_000)
    assert demo.queries()["balances_damaged"]["starts"] == settled
    assert demo.queries()["balances_damaged"]["status"] == "failed"
    assert "demo-billing ended" not in demo.printed()
