"""TLS contexts from `tls_config`: authority, client certificate, versions."""

from __future__ import annotations

import contextlib
import ssl
import tempfile
from collections.abc import Iterator

from alerts.notify.configuration.schema import Settings

_VERSIONS = {
    "TLS10": ssl.TLSVersion.TLSv1,
    "TLS11": ssl.TLSVersion.TLSv1_1,
    "TLS12": ssl.TLSVersion.TLSv1_2,
    "TLS13": ssl.TLSVersion.TLSv1_3,
}


def tls_context(settings: Settings | None) -> ssl.SSLContext:
    """The context of a `tls_config`; the defaults without one. Raises OSError or ValueError for unusable files."""
    if not settings:
        return ssl.create_default_context()
    context = ssl.create_default_context(cafile=settings["ca_file"] or None, cadata=settings["ca"] or None)
    if settings["min_version"]:
        context.minimum_version = _VERSIONS[settings["min_version"]]
    if settings["max_version"]:
        context.maximum_version = _VERSIONS[settings["max_version"]]
    if settings["insecure_skip_verify"]:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    _load_client_certificate(context, settings)
    return context


def _load_client_certificate(context: ssl.SSLContext, settings: Settings) -> None:
    with _as_file(settings["cert"]) as cert, _as_file(settings["key"]) as key:
        certificate = settings["cert_file"] or cert
        if certificate:
            context.load_cert_chain(certificate, key or None)


@contextlib.contextmanager
def _as_file(text: str) -> Iterator[str]:
    """A temporary file with a text, readable by this user only: the library loads certificates from files."""
    if not text:
        yield ""
        return
    with tempfile.NamedTemporaryFile("w", suffix=".pem", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        yield file.name
