"""Log-in to the dashboard: a real OpenID Connect provider, and a proxy that names people, in Chromium.

Server, dashboard, provider and proxy are real; what a person does must arrive in the audit log with the person's name.
"""

from __future__ import annotations

import http.client
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from controlplane.model import Role
from controlplane.store import audit
from tests.acceptance.live import LiveServer
from tests.acceptance.simulated import SimulatedAgent, SimulatedQuery
from tests.ports import free_port
from tests.security.forwarding import forwarding
from tests.ui import browser
from tests.ui.browser import until
from ui.launch import LogIn

pytestmark = [pytest.mark.browser, pytest.mark.long]

PEOPLE = {
    "olga@corp.example": {"groups": ["streaming-oncall", "everybody"]},
    "vera@corp.example": {"groups": ["everybody"]},
    "nils@corp.example": {"groups": ["strangers"]},
}
ROLES = """default = "none"
[roles]
streaming-oncall = "operator"
everybody = "viewer"
"""


def auth_file(folder: Path, provider: str, port: int) -> Path:
    path = folder / "auth.toml"
    path.write_text(f"""[auth]
redirect_uri = "http://127.0.0.1:{port}/oauth2callback"
cookie_secret = "{"s" * 40}"
client_id = "dashboard"
client_secret = "not so secret"
server_metadata_url = "{provider}/.well-known/openid-configuration"
""")
    return path


@pytest.fixture(scope="module")
def provider() -> Iterator[str]:
    from oidc_provider_mock import User, run_server_in_thread

    people = [User(sub=name, claims={"email": name, **more}) for name, more in PEOPLE.items()]
    with run_server_in_thread(user_claims=people) as running:
        yield f"http://localhost:{running.server_port}"


@pytest.fixture
def query(server: LiveServer) -> Iterator[SimulatedQuery]:
    driver: SimulatedAgent = server.agent()
    driver.begin()
    started = SimulatedQuery("invoices")
    driver.start(started)
    driver.send(driver.progress(started), driver.progress(started))
    yield started
    driver.close()


@pytest.fixture(scope="module")
def dashboard(
    server: LiveServer, provider: str, chromium: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    folder, port = tmp_path_factory.mktemp("log-in"), free_port()
    (folder / "roles.toml").write_text(ROLES)
    log_in = LogIn(auth_file=auth_file(folder, provider, port), role_map=folder / "roles.toml")
    log_in.check()
    token = server.token(Role.OPERATOR, may_impersonate=True)
    with browser.streamlit(server.url, token, port=port, log_in=log_in) as address:
        yield address


@pytest.fixture
def page(chromium: Any) -> Iterator[Any]:
    context = chromium.new_context(viewport={"width": 1440, "height": 900})
    context.set_default_timeout(browser.TIMEOUT_MILLISECONDS)
    # The provider's pages name a style sheet of another site, which cannot be fetched here.
    context.route("**/*", lambda route: route.abort() if "cdn." in route.request.url else route.continue_())
    yield context.new_page()
    context.close()


def log_in(page: Any, address: str, person: str) -> None:
    page.goto(address)
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("button", name=person, exact=True).click()
    page.wait_for_url(f"{address}/**")


def shown(page: Any, text: str) -> None:
    """Wait for a text; the page has an invisible mark after an @, against links."""
    page.get_by_text(re.compile(re.escape(text).replace("@", "@\u2060?"))).wait_for()


def newest(server: LiveServer) -> dict[str, Any]:
    with server.plane.reading() as conn:
        return audit.read(conn, 1)[0]


def test_nobody_sees_the_fleet_before_the_log_in(
    page: Any, dashboard: str, query: SimulatedQuery, server: LiveServer
) -> None:
    page.goto(f"{dashboard}/query?query_id={query.query_id}")
    page.get_by_role("button", name="Log in").wait_for()
    assert "invoices" not in page.content()
    assert page.get_by_text("Fleet", exact=True).count() == 0
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("button", name="vera@corp.example", exact=True).click()
    page.wait_for_url(f"{dashboard}/query?query_id={query.query_id}")  # where the link led
    shown(page, "vera@corp.example (viewer)")


def test_an_operator_acts_under_her_own_name_and_logs_out(
    page: Any, dashboard: str, query: SimulatedQuery, server: LiveServer
) -> None:
    log_in(page, dashboard, "olga@corp.example")
    shown(page, "olga@corp.example (operator)")
    page.goto(f"{dashboard}/query?query_id={query.query_id}")
    page.get_by_role("button", name="Restart").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill("memory grows")
    dialog.get_by_role("button", name="Restart").click()
    dialog.wait_for(state="detached")
    with server.client() as client:
        until(lambda: bool(client.get("/api/v1/actions").json()["actions"]))
        assert client.get("/api/v1/actions").json()["actions"][0]["actor"] == "olga@corp.example"
    row = newest(server)
    assert (row["actor"], row["via"]) == ("olga@corp.example", "test operator")
    page.get_by_role("button", name="Log out").click()
    page.wait_for_url("**/oauth2/end_session**")  # the provider's own log-out
    page.goto(dashboard)
    page.get_by_role("button", name="Log in").wait_for()


def test_a_viewer_sees_why_the_buttons_are_off(page: Any, dashboard: str, query: SimulatedQuery) -> None:
    log_in(page, dashboard, "vera@corp.example")
    shown(page, "vera@corp.example (viewer)")
    page.goto(f"{dashboard}/query?query_id={query.query_id}")
    button = page.get_by_role("button", name="Restart")
    button.wait_for()
    assert button.is_disabled()
    button.hover(force=True)
    page.get_by_text("Your role is viewer. Actions require the role operator.").wait_for()


def test_a_person_without_a_role_sees_nothing(page: Any, dashboard: str, query: SimulatedQuery) -> None:
    log_in(page, dashboard, "nils@corp.example")
    page.get_by_text("no role is assigned to you").wait_for()
    assert "invoices" not in page.content()


def test_a_forged_cookie_logs_nobody_in(
    page: Any, dashboard: str, query: SimulatedQuery, provider: str
) -> None:
    from streamlit.web.server.starlette.starlette_app_utils import create_signed_value

    user = f'{{"origin":"{dashboard}","is_logged_in":true,"email":"olga@corp.example","iat":9999999999}}'
    forged = create_signed_value("x" * 40, "_streamlit_user", user).decode()
    page.context.add_cookies([{"name": "_streamlit_user", "value": forged, "url": dashboard}])
    page.goto(dashboard)
    page.get_by_role("button", name="Log in").wait_for()


class TestProxy:
    """The same with a proxy that has logged people in."""

    @pytest.fixture(scope="class")
    def behind(
        self, server: LiveServer, chromium: Any, tmp_path_factory: pytest.TempPathFactory
    ) -> Iterator[str]:
        folder = tmp_path_factory.mktemp("proxy")
        (folder / "roles.toml").write_text(ROLES)
        log_in = LogIn(trusted_proxies=["127.0.0.2/32"], role_map=folder / "roles.toml")
        token = server.token(Role.OPERATOR, may_impersonate=True)
        with browser.streamlit(
            server.url, token, host="0.0.0.0", allowed_hosts=["127.0.0.1"], log_in=log_in
        ) as address:
            yield address

    def test_a_person_named_by_the_proxy_acts_under_this_name(
        self, page: Any, behind: str, query: SimulatedQuery, server: LiveServer
    ) -> None:
        given = {"X-Forwarded-User": "olga", "X-Forwarded-Groups": "everybody, streaming-oncall"}
        with forwarding(behind, "127.0.0.2", given) as address:
            page.goto(f"{address}/query?query_id={query.query_id}")
            page.get_by_text("olga (operator)").wait_for()
        assert page.get_by_role("button", name="Log out").count() == 0

    @pytest.mark.parametrize("headers", [{}, {"X-Forwarded-For": "127.0.0.2"}])
    def test_who_comes_past_the_proxy_is_refused(self, behind: str, headers: dict[str, str]) -> None:
        forged = {"X-Forwarded-User": "olga", "X-Forwarded-Groups": "streaming-oncall", **headers}
        answer = httpx.get(behind, headers=forged, timeout=20)
        assert (answer.status_code, "--trusted-proxy" in answer.text) == (403, True)
        assert handshake(behind, list(forged.items())) == 403
        assert httpx.get(f"{behind}/_stcore/health", timeout=20).status_code == 200

    def test_a_header_that_the_proxy_only_added_is_refused(self, behind: str) -> None:
        twice = [("X-Forwarded-User", "admin"), ("X-Forwarded-User", "vera")]
        with ExitStack() as stack:
            address = stack.enter_context(forwarding(behind, "127.0.0.2", {}))
            assert handshake(address, twice) == 403
            assert handshake(address, twice[1:]) == 101


def handshake(address: str, headers: list[tuple[str, str]]) -> int:
    """The status of a websocket handshake with these headers."""
    parts = urlsplit(address)
    client = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=20)
    client.putrequest("GET", "/_stcore/stream")
    upgrade = [
        ("Connection", "Upgrade"),
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ]
    for name, value in [*upgrade, *headers]:
        client.putheader(name, value)
    client.endheaders()
    try:
        return client.getresponse().status
    finally:
        client.close()
