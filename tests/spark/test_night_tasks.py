"""Each task of a night on call, in a browser on the running demonstration: in at most three clicks, without an error.

A soak: the demonstration needs minutes until every trouble has its alert.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.spark.demonstration import FIRST_FIGURES, Demo
from tests.spark.night_tasks import TASKS, OnCall, Task, ready
from tests.ui import browser
from tests.webhook_receiver import WebhookReceiver, running_webhook

pytestmark = [pytest.mark.spark, pytest.mark.browser, pytest.mark.soak]

ALERTS = 420


@pytest.fixture(scope="module")
def webhook() -> Iterator[WebhookReceiver]:
    with running_webhook() as receiver:
        yield receiver


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory, webhook: WebhookReceiver) -> Iterator[Demo]:
    running = Demo(tmp_path_factory.mktemp("demo"), "--webhook", webhook.url)
    running.until(running.shows_figures, FIRST_FIGURES, running.queries)
    running.until(lambda: ready(running), ALERTS, running.pages)
    yield running
    running.close()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    path = browser.need_chromium()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=path, args=browser.FLAGS)
        yield launched
        launched.close()


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.question)
def test_the_question_is_answered_in_few_clicks(chromium: Any, demo: Demo, task: Task) -> None:
    context = chromium.new_context(viewport={"width": 1440, "height": 900})
    context.set_default_timeout(browser.TIMEOUT_MILLISECONDS)
    page, errors = context.new_page(), []
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    night = OnCall(page, f"http://127.0.0.1:{demo.ui_port}", demo)
    task.answer(night)
    context.close()
    assert night.clicks <= task.at_most
    assert errors == []
