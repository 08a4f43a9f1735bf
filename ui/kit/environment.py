"""Where the server is and how to reach it: address, token and certificates from the environment.

`ui.kit.client` and `ui.kit.several_servers` read `CONTROLPLANE_URL`, `CONTROLPLANE_TOKEN` or `CONTROLPLANE_TOKEN_FILE`, and
`CONTROLPLANE_CA_FILE`.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from pathlib import Path

DEFAULT_SERVER = "http://127.0.0.1:8420"


def server_url(environ: Mapping[str, str] = os.environ) -> str:
    """The server's address from the environment, or several separated by commas, without trailing slashes."""
    parts = environ.get("CONTROLPLANE_URL", "").split(",")
    return ",".join(part.strip().rstrip("/") for part in parts if part.strip()) or DEFAULT_SERVER


def token(environ: Mapping[str, str] = os.environ) -> str | None:
    """The token from the environment, else from the file it names (read at each call: tokens are rotated)."""
    if value := environ.get("CONTROLPLANE_TOKEN", "").strip():
        return value
    path = environ.get("CONTROLPLANE_TOKEN_FILE", "")
    try:
        return Path(path).read_text(encoding="utf-8").strip() or None if path else None
    except OSError:
        return None  # the server then answers 401


def tls_context(environ: Mapping[str, str] = os.environ) -> ssl.SSLContext:
    """The system's certificates, and those of a private CA in the file that CONTROLPLANE_CA_FILE names."""
    context = ssl.create_default_context()
    if path := environ.get("CONTROLPLANE_CA_FILE"):
        context.load_verify_locations(path)
    return context
