"""DNS rebinding, and paths that lead out: requests as a browser or an attacker sends them."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from tests.acceptance.live import LiveServer
from tests.ui import browser

FOREIGN = "evil.example"


@pytest.fixture(scope="module")
def dashboard(server: LiveServer) -> Iterator[str]:
    """The dashboard as the image starts it: on every interface, with one name for people."""
    names = ["localhost", "127.0.0.1", "plane.example"]
    with browser.streamlit(server.url, server.admin_token, host="0.0.0.0", allowed_hosts=names) as address:
        yield address


def websocket_status(address: str, host: str, origin: str | None = None) -> int:
    """The status of a raw websocket handshake of a dashboard's page."""
    parts = urlsplit(address)
    lines = [
        "GET /_stcore/stream HTTP/1.1",
        f"Host: {host}",
        *([f"Origin: http://{origin}"] if origin else []),
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    ]
    with socket.create_connection((parts.hostname, parts.port), timeout=20) as client:
        client.sendall("\r\n".join([*lines, "", ""]).encode())
        return int(client.recv(4096).split()[1])


def status(address: str, path: str, host: str) -> tuple[int, str]:
    parts = urlsplit(address)
    client = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=20)
    client.request("GET", path, headers={"Host": host})
    answer = client.getresponse()
    text = answer.read().decode()
    client.close()
    assert answer.headers.get("Location") is None
    return answer.status, text


@pytest.mark.parametrize(
    ("host", "origin", "expected"),
    [
        ("plane.example", "plane.example", 101),
        ("127.0.0.1:{port}", "127.0.0.1:{port}", 101),
        (FOREIGN, FOREIGN, 403),  # rebinding
        (FOREIGN, None, 403),
        ("plane.example", FOREIGN, 403),  # cross-site
        ("127.0.0.1:{port}", FOREIGN, 403),
        ("127.0.0.1:{port}", "null", 403),
    ],
)
def test_the_dashboard_opens_its_websocket_for_its_own_names_only(
    dashboard: str, host: str, origin: str | None, expected: int
) -> None:
    port = urlsplit(dashboard).port
    names = [name.format(port=port) if name else None for name in (host, origin)]
    assert websocket_status(dashboard, str(names[0]), names[1]) == expected


def test_the_dashboard_states_why_it_refuses_a_host_and_answers_probes(dashboard: str) -> None:
    code, text = status(dashboard, "/", FOREIGN)
    assert code == 403
    assert "--allowed-host" in text
    assert status(dashboard, "/", "plane.example")[0] == 200
    assert status(dashboard, "/_stcore/health", FOREIGN)[0] == 200


@pytest.mark.parametrize("path", ["/metrics", "/api/v1/queries", "/docs", "/prometheus/api/v1/query"])
def test_the_server_answers_no_page_of_another_site(server: LiveServer, path: str) -> None:
    assert status(server.url, path, FOREIGN)[0] == 403
    assert status(server.url, path, "localhost")[0] != 403


@pytest.mark.parametrize("path", ["/api/v1/queries/", "/metrics/", "/docs/"])
def test_a_slash_at_the_end_leads_nowhere(server: LiveServer, path: str) -> None:
    assert status(server.url, path, "localhost")[0] == 404


TRAVERSALS = (
    "/../../../../etc/passwd",
    "/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
    "/..%2f..%2f..%2fetc%2fpasswd",
    "/static/../../../../../../etc/passwd",
    "/static/%2e%2e/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
    "/static/..%5c..%5c..%5cetc%5cpasswd",
    "/media/..%2f..%2f..%2fetc%2fpasswd",
    "/component/x/..%2f..%2f..%2fetc%2fpasswd",
    "/app/static/..%2fsecurity_headers.py",
    "//etc/passwd",
    "/api/v1/runbooks/..%2f..%2f..%2fpyproject.toml",
    "/api/v1/runbooks/%2fetc%2fpasswd",
)


@pytest.mark.parametrize("path", TRAVERSALS)
def test_no_path_leads_to_a_file_outside(server: LiveServer, dashboard: str, path: str) -> None:
    for address in (server.url, dashboard):
        text = status(address, path, "localhost")[1]
        assert "root:" not in text and "[project]" not in text and "SecurityHeaders" not in text
    with server.client() as client:
        answer = client.get(path)
        assert answer.status_code in (400, 404, 422), answer.text
