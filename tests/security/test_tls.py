"""TLS of server and dashboard: renewed while requests run, and refused by clients where it is not the right one."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from controlplane.console.client import ApiClient
from controlplane.console.errors import Unreachable
from listeners.delivery.transport import HttpTransport
from listeners.protocol.errors import TransportError
from tests.acceptance.live import LiveServer, eventually, live_server
from tests.certificates import Authority
from tests.ui import browser
from ui.kit.answers import ServerUnreachable
from ui.kit.client import ServerClient

pytestmark = pytest.mark.long


@dataclass
class Files:
    authority: Authority
    cert: Path
    key: Path

    def renew(self, name: str = "127.0.0.1") -> int:
        return self.authority.issue(self.cert, self.key, name)

    @property
    def trusting(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.authority.file))


@pytest.fixture
def files(tmp_path: Path) -> Files:
    made = Files(Authority.create(tmp_path), tmp_path / "tls.crt", tmp_path / "tls.key")
    made.renew()
    return made


@pytest.fixture
def server(files: Files, tmp_path: Path) -> Iterator[LiveServer]:
    with live_server(tmp_path / "data", tls_cert=files.cert, tls_key=files.key) as running:
        yield running


def serial(url: str) -> int:
    """The serial number of the certificate that a new connection gets."""
    from cryptography import x509

    parts, anybody = urlsplit(url), ssl.create_default_context()
    anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection((parts.hostname, parts.port), 10) as raw, anybody.wrap_socket(raw) as tls:
        return x509.load_der_x509_certificate(tls.getpeercert(binary_form=True) or b"").serial_number


class Traffic:
    """Requests on one lasting connection and on new ones, until it is stopped; `problems` must stay empty."""

    def __init__(self, url: str, trusting: ssl.SSLContext):
        self.url, self.trusting = url, trusting
        self.problems: list[str] = []
        self.answered = 0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        with httpx.Client(verify=self.trusting, timeout=20) as lasting:
            while not self._end.is_set():
                for ask in (lasting.get, lambda url: httpx.get(url, verify=self.trusting, timeout=20)):
                    try:
                        assert ask(self.url).status_code == 200
                        self.answered += 1
                    except Exception as error:
                        self.problems.append(repr(error))

    def __enter__(self) -> Traffic:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join(30)


def failures(server: LiveServer, files: Files) -> float:
    page = httpx.get(f"{server.url}/metrics", verify=files.trusting, timeout=20).text
    (line,) = (
        line for line in page.splitlines() if line.startswith("controlplane_tls_renewal_failures_total")
    )
    return float(line.split()[1])


def test_a_certificate_is_renewed_during_traffic_and_a_wrong_one_is_not_taken(
    server: LiveServer, files: Files, tmp_path: Path
) -> None:
    with Traffic(f"{server.url}/healthz", files.trusting) as traffic:
        renewed = files.renew()
        assert eventually(lambda: serial(server.url) == renewed)
        files.authority.issue(tmp_path / "other.crt", files.key)  # a key that does not fit
        certificate = server.plane.certificate
        assert certificate is not None
        assert eventually(lambda: certificate.failures == 1)
        assert serial(server.url) == renewed
        seen = traffic.answered
        assert eventually(lambda: traffic.answered > seen + 4)
    assert traffic.problems == []
    assert eventually(lambda: failures(server, files) == 1)


def test_clients_take_the_right_certificate_only(server: LiveServer, files: Files) -> None:
    answer = httpx.get(f"{server.url}/healthz", verify=files.trusting)
    assert answer.headers["Strict-Transport-Security"] == "max-age=31536000"
    with pytest.raises(httpx.HTTPError):
        httpx.get(server.url.replace("https", "http") + "/healthz")
    secret, ca = server.agent_token, files.authority.file
    HttpTransport(server.url, secret, str(ca)).send([])
    assert ApiClient(server.url, server.admin_token, ca_file=ca).get("/api/v1/whoami")["role"] == "admin"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CONTROLPLANE_CA_FILE", str(ca))
        assert ServerClient(server.url, lambda: server.admin_token).whoami()["role"] == "admin"
    refused_everywhere(server, None)
    files.renew("other.example")
    assert eventually(lambda: serial(server.url) and not _accepts(server, files))
    refused_everywhere(server, ca)


def _accepts(server: LiveServer, files: Files) -> bool:
    try:
        return httpx.get(f"{server.url}/healthz", verify=files.trusting).is_success
    except httpx.HTTPError:
        return False


def refused_everywhere(server: LiveServer, ca: Path | None) -> None:
    with pytest.raises(TransportError, match=r"(?i)certificate"):
        HttpTransport(server.url, server.agent_token, str(ca) if ca else None).send([])
    with pytest.raises(Unreachable, match=r"(?i)certificate"):
        ApiClient(server.url, server.admin_token, ca_file=ca).get("/api/v1/whoami")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CONTROLPLANE_CA_FILE", str(ca or ""))
        with pytest.raises(ServerUnreachable):
            ServerClient(server.url, lambda: server.admin_token).whoami()


def test_the_dashboard_renews_its_certificate_too(server: LiveServer, files: Files, tmp_path: Path) -> None:
    with browser.streamlit(server.url, server.admin_token, tls=(files.cert, files.key)) as address:
        with Traffic(f"{address}/_stcore/health", files.trusting) as traffic:
            renewed = files.renew()
            assert eventually(lambda: serial(address) == renewed)
            files.authority.issue(tmp_path / "other.crt", files.key)
            seen = traffic.answered
            assert eventually(lambda: traffic.answered > seen + 4)
        assert traffic.problems == []
        assert serial(address) == renewed
        assert httpx.get(address, verify=files.trusting).headers["Strict-Transport-Security"]
