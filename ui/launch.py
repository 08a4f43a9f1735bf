"""How the UI is started: the command line and the environment of the Streamlit process.

`controlplane ui` and `controlplane up` call `command` and `environment` and start the process themselves.
The options that harden it stand on the command line, where neither a config file nor the environment of the
user can undo them; themes and the rest come from `ui/.streamlit/config.toml`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ENTRY = Path(__file__).with_name("security_headers.py")
LOOPBACK_NAMES = ("127.0.0.1", "localhost", "::1")


def command(port: int = 8501, host: str = "127.0.0.1", allowed_hosts: Sequence[str] = ()) -> list[str]:
    """The argument list that serves the UI on `host:port`; where the server is goes into `environment`.

    On a loopback address only loopback names are accepted (DNS rebinding); elsewhere name the hosts that
    people type in `allowed_hosts`, or every name is accepted.
    """
    hosts = list(allowed_hosts) or (list(LOOPBACK_NAMES) if host in LOOPBACK_NAMES else [])
    options = {
        "server.address": host,
        "server.port": str(port),
        "server.headless": "true",
        "server.enableCORS": "true",
        "server.enableXsrfProtection": "true",
        "server.enableStaticServing": "false",
        "server.enableAgentApi": "false",
        "server.fileWatcherType": "none",
        "browser.gatherUsageStats": "false",
        "client.showErrorDetails": "none",
        "client.showErrorLinks": "false",
        "client.toolbarMode": "viewer",
    }
    flags = [f"--{name}={value}" for name, value in options.items()]
    flags += [f"--server.allowedHosts={name}" for name in hosts]
    return [sys.executable, "-m", "streamlit", "run", str(ENTRY), *flags]


def environment(
    server_url: str,
    token: str | None = None,
    token_file: str | Path | None = None,
    base: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The process' environment: where the server is, which token to show (a file is read at each request)."""
    values = dict(base or {})
    values["CONTROLPLANE_URL"] = server_url
    if token:
        values["CONTROLPLANE_TOKEN"] = token
    elif token_file:
        values.pop("CONTROLPLANE_TOKEN", None)
        values["CONTROLPLANE_TOKEN_FILE"] = str(token_file)
    return values
