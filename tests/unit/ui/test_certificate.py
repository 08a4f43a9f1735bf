"""Renewal of the dashboard's certificate; in the running dashboard: tests/security/test_tls.py."""

import ssl
from pathlib import Path

from tests.certificates import Authority
from ui import certificate


def test_a_pair_that_does_not_fit_is_not_loaded(tmp_path: Path) -> None:
    authority, cert, key = Authority.create(tmp_path), tmp_path / "tls.crt", tmp_path / "tls.key"
    authority.issue(cert, key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    before = certificate.stamps(cert, key)
    assert certificate.renew(context, cert, key)
    authority.issue(tmp_path / "other.crt", key)
    assert certificate.stamps(cert, key) != before
    assert not certificate.renew(context, cert, key)
    key.unlink()
    assert certificate.stamps(cert, key)[1] is None
    assert not certificate.renew(context, cert, key)


def test_no_context_is_found_where_no_server_runs() -> None:
    assert certificate.live_context() is None
