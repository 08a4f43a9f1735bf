"""Texts that drivers and people store, on every page of the dashboard, in its CSV files and in the report: text only.

Events, silences and rules go through the real server. A browser would run the script that a text carries; none may.
"""

from __future__ import annotations

import csv
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.live import LiveServer, eventually, live_server
from tests.acceptance.simulated import SimulatedAgent, SimulatedQuery
from tests.ui import browser
from tests.ui.browser import until
from tests.unit.controlplane.pipeline.report.test_page import day, made

pytestmark = [pytest.mark.browser, pytest.mark.long]

RUN = "window.ran=(window.ran||0)+1"
HOSTILE = (
    f'=HYPERLINK("//evil.example")<img src=x onerror="{RUN}"><script>{RUN}</script><svg onload={RUN}>'
    f"[a](javascript:{RUN}) ![x](http://evil.example/p.png) </textarea><iframe src=//evil.example>"
)
SHORT = HOSTILE[:200]
RULES = f"""groups:
  - name: own
    interval: 1s
    rules:
      - alert: Failed
        expr: spark_streaming_query_status{{status="failed"}} == 1
        annotations:
          summary: '{SHORT.replace("'", "''")} {{{{ $labels.query }}}}'
          description: '{{{{ $labels.team }}}} {SHORT.replace("'", "''")}'
          runbook_url: 'javascript:{RUN}'
"""
FORMULA = ("=", "+", "-", "@", "\t", "\r")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LiveServer, str]]:
    browser.need_chromium()
    folder = tmp_path_factory.mktemp("texts")
    (folder / "rules.yaml").write_text(RULES)
    rules = (str(folder / "rules.yaml"),)
    with (
        live_server(folder / "data", rules=rules, series_step=1.0) as server,
        browser.streamlit(server.url, server.admin_token) as address,
    ):
        yield server, address


@pytest.fixture
def query(running: tuple[LiveServer, str]) -> Iterator[SimulatedQuery]:
    server = running[0]
    found = SimulatedQuery(SHORT)
    labels = {"team": HOSTILE[:128]}
    with closing(SimulatedAgent(server.url, server.agent_token, app=SHORT, labels=labels)) as agent:
        agent.begin()
        agent.start(found)
        (kind, progress) = agent.progress(found)
        progress["sources"][0]["description"] = progress["sink"]["description"] = HOSTILE
        agent.send((kind, progress))
        agent.terminated(
            found, f"org.apache.spark.SparkException: {HOSTILE}\n\tat {HOSTILE}", "STREAM_FAILED"
        )
        with server.client() as client:
            silence = {"matchers": ['a="b"'], "duration_seconds": 600, "comment": HOSTILE, "actor": SHORT}
            client.post("/api/v1/silences", json=silence).raise_for_status()
            asked = {"action": "stop", "reason": HOSTILE, "actor": SHORT}
            client.post(f"/api/v1/queries/{found.query_id}/actions", json=asked)
            assert eventually(lambda: client.get("/api/v1/alerts").json()["alerts"])
        yield found


class Watched:
    """A page that remembers what a text managed to do."""

    def __init__(self, context: Any, own: str):
        self.page = context.new_page()
        self.page.set_default_timeout(browser.TIMEOUT_MILLISECONDS)
        self.did: list[str] = []
        self.page.on("dialog", lambda box: (self.did.append(f"dialog {box.message}"), box.dismiss()))
        self.page.on("request", lambda request: self._note(request.url, own))
        # Without it the browser would ask for a place to save a file.
        self.page.add_init_script("delete window.showSaveFilePicker")

    def _note(self, url: str, own: str) -> None:
        if not url.startswith((own, own.replace("http", "ws"), "data:", "blob:")):
            self.did.append(f"request {url}")

    def check(self) -> None:
        body = self.page.locator("body")
        tricks = (
            'img[onerror], svg[onload], a[href*="//evil"], a[href^="javascript"], iframe, [src*="//evil"]'
        )
        assert body.locator(tricks).count() == 0
        assert self.page.evaluate("window.ran") is None
        assert self.did == []


@pytest.fixture
def watched(chromium: Any, running: tuple[LiveServer, str]) -> Iterator[Watched]:
    context = chromium.new_context(viewport={"width": 1440, "height": 900}, accept_downloads=True)
    yield Watched(context, running[1])
    context.close()


def test_every_page_shows_stored_texts_as_text(
    watched: Watched, running: tuple[LiveServer, str], query: SimulatedQuery
) -> None:
    page, address = watched.page, running[1]
    with running[0].client() as client:
        fingerprint = client.get("/api/v1/alerts").json()["alerts"][0]["fingerprint"]
    named = "%3Cscript%3Ewindow.ran=1%3C/script%3E"
    pages = {  # whether the page must show a text
        f"/query?query_id={query.query_id}&checkpoint=true": True,
        f"/alerts?alert={fingerprint}": True,
        "/alerts?view=silences": True,
        "/actions": True,
        "/": False,
        "/rules": False,
        "/checkpoints": False,
        "/alerts?view=history": False,
        "/alerts?view=notifications": False,
        f"/runbook?alert={named}": False,
        f"/query?query_id={named}": False,
    }
    for path, shows in pages.items():
        page.goto(address + path)
        page.locator('[data-testid="stMain"]').first.wait_for()
        if shows:
            until(lambda: "HYPERLINK" in page.content())
        page.wait_for_timeout(1500)  # what a text does, it does after it is drawn
        watched.check()


def test_a_saved_table_has_no_formula(
    watched: Watched, running: tuple[LiveServer, str], query: SimulatedQuery, tmp_path: Path
) -> None:
    for path in ("/actions", "/alerts"):
        watched.page.goto(running[1] + path)
        table = watched.page.locator('[data-testid="stDataFrame"]').first
        table.wait_for()
        table.hover()
        with watched.page.expect_download() as download:
            watched.page.get_by_role("button", name="Download as CSV").first.click()
        download.value.save_as(tmp_path / "table.csv")
        text = (tmp_path / "table.csv").read_text(encoding="utf-8-sig")
        assert "HYPERLINK" in text
        cells = [cell for row in csv.reader(text.splitlines()) for cell in row]
        assert [cell for cell in cells if cell.startswith(FORMULA) and not _is_number(cell)] == []


def _is_number(cell: str) -> bool:
    try:
        return bool(float(cell)) or True
    except ValueError:
        return False


def test_the_report_shows_stored_texts_as_text(chromium: Any, tmp_path: Path) -> None:
    from controlplane.pipeline.report.page import render_html

    days = [day(n, HOSTILE, app=HOSTILE, slo_good=5, state_rows_max=100.0 + n * 50) for n in range(20)]
    (tmp_path / "report.html").write_text(render_html(made(days, queries=(HOSTILE,), app=HOSTILE)))
    context = chromium.new_context()
    with closing(context):
        watched = Watched(context, (tmp_path / "report.html").as_uri())
        watched.page.goto((tmp_path / "report.html").as_uri())
        assert "HYPERLINK" in watched.page.inner_text("body")
        time.sleep(0.5)  # a broken image reports its error later
        watched.check()
