"""DNS rebinding and cross-site requests in Chromium, with and without a log-in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from controlplane.model import Role
from tests.acceptance.live import LiveServer
from tests.security.foreign_pages import REBINDING, cross_site, rebound
from tests.security.forwarding import forwarding
from tests.served import served
from tests.ui import browser
from ui.launch import LogIn

pytestmark = [pytest.mark.browser, pytest.mark.long]

PAGES = ["/", "/query", "/_stcore/host-config"]
API = ["/metrics", "/api/v1/queries", "/api/v1/whoami", "/openapi.json"]
REFUSED = {"403", "TypeError"}


@pytest.fixture(scope="module")
def foreign_chromium() -> Iterator[Any]:
    path = browser.need_chromium()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=path, args=[*browser.FLAGS, REBINDING])
        yield launched
        launched.close()


@pytest.fixture(params=["without a log-in", "with a log-in"])
def dashboard(request: pytest.FixtureRequest, server: LiveServer) -> Iterator[str]:
    """The dashboard as the image starts it; with a log-in, a proxy names an operator in each request of the browser."""
    options: dict[str, Any] = {"host": "0.0.0.0", "allowed_hosts": ["127.0.0.1"]}
    if request.param == "without a log-in":
        with browser.streamlit(server.url, server.admin_token, **options) as address:
            yield address
        return
    token = server.token(Role.OPERATOR, may_impersonate=True)
    log_in = LogIn(trusted_proxies=["127.0.0.2/32"])
    with (
        browser.streamlit(server.url, token, log_in=log_in, **options) as behind,
        forwarding(behind, "127.0.0.2", {"X-Forwarded-User": "olga"}) as address,
    ):
        yield address


def test_a_foreign_page_reads_nothing(foreign_chromium: Any, server: LiveServer, dashboard: str) -> None:
    assert httpx.get(dashboard, timeout=60).status_code == 200  # it works for its own name
    page = foreign_chromium.new_page()
    page.set_default_timeout(browser.TIMEOUT_MILLISECONDS)
    with served(lambda request: (200, "<title>foreign</title>")) as foreign:
        found = {
            "dashboard rebound": rebound(page, dashboard, PAGES),
            "server rebound": rebound(page, server.url, API),
            "dashboard cross-site": cross_site(page, foreign, dashboard, PAGES),
            "server cross-site": cross_site(page, foreign, server.url, API),
        }
    page.close()
    got = {
        (place, path): answer
        for place, answers in found.items()
        for path, answer in answers.items()
        if answer not in (REFUSED if path != "websocket" else {"refused"})
    }
    assert got == {}
