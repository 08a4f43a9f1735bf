"""TLS certificate of the server: loaded from files at the start, and again when they have changed.

`controlplane.app` loads it; the HTTP server checks the files every few seconds. A renewed certificate is loaded into
the live context: connections go on, new handshakes get it. The dashboard has the same in `ui.certificate`.
"""

from __future__ import annotations

import logging
import os
import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from controlplane.errors import SettingsError
from controlplane.settings import Settings

log = logging.getLogger(__name__)


class ServerCertificate:
    """A certificate with its key, both in PEM files. `context` is for the HTTP server."""

    def __init__(self, cert: Path, key: Path):
        """Raises SettingsError if the files cannot be used together."""
        self._cert, self._key = cert, key
        self.failures = 0
        self._seen = self._stamp()
        try:
            self.context = _context(cert, key)
            self.expires_at = _expiry(cert)
        except (OSError, ValueError) as error:
            raise SettingsError(f"the TLS certificate cannot be used: {_reason(error, cert, key)}") from None

    def renew(self) -> bool:
        """Load the files if they have changed; whether that was done. A mistake keeps the old certificate."""
        stamp = self._stamp()
        if stamp == self._seen:
            return False
        self._seen = stamp
        try:
            _context(self._cert, self._key)  # a failure must not leave half a pair in the live context
            expires_at = _expiry(self._cert)
            self.context.load_cert_chain(self._cert, self._key)
        except (OSError, ValueError) as error:
            self.failures += 1
            reason = _reason(error, self._cert, self._key)
            log.warning("the renewed TLS certificate cannot be used, the old one stays: %s", reason)
            return False
        self.expires_at = expires_at
        log.info("TLS certificate renewed; it expires at %s", datetime.fromtimestamp(expires_at, UTC))
        return True

    def figures(self) -> dict[str, Any]:
        """Values of `ServerMetrics`."""
        return {"tls_expires_at": self.expires_at, "tls_renewal_failures": self.failures}

    def _stamp(self) -> tuple[tuple[int, int, int] | None, ...]:
        return tuple(map(_file_stamp, (self._cert, self._key)))


def certificate_of(settings: Settings) -> ServerCertificate | None:
    """The certificate that the settings name; None without one."""
    return (
        ServerCertificate(settings.tls_cert, settings.tls_key)
        if settings.tls_cert and settings.tls_key
        else None
    )


def _file_stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None  # while it is replaced, or for good: loading it names the reason
    return found.st_mtime_ns, found.st_ino, found.st_size


def _context(cert: Path, key: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(cert, key, _no_password)
    return context


def _no_password() -> str:
    raise ValueError("the key is encrypted; it must have no password")  # OpenSSL would ask at the terminal


def _expiry(cert: Path) -> float:
    """When the certificate expires, Unix seconds."""
    from cryptography import x509  # only a server with TLS loads it

    return x509.load_pem_x509_certificates(cert.read_bytes())[0].not_valid_after_utc.timestamp()


def _reason(error: Exception, cert: Path, key: Path) -> str:
    if isinstance(error, ssl.SSLError):
        mismatch = error.reason == "KEY_VALUES_MISMATCH"
        what = "is not the key of" if mismatch else "or"
        return f"{key} {what} {cert}" + (
            "" if mismatch else f" is no PEM file that OpenSSL reads ({error.reason})"
        )
    if isinstance(error, OSError):
        names = [str(path) for path in (cert, key) if not os.access(path, os.R_OK)]
        return f"{', '.join(names) or cert}: {error.strerror or error}"
    return str(error)
