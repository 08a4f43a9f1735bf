"""Command line and environment of the dashboard's Streamlit process.

`controlplane ui` and `controlplane up` call `command` and `environment` and start the process. The hardening
options are on the command line, where neither a config file nor the user's environment can undo them; themes
and the rest are in `ui/.streamlit/config.toml`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ENTRY = Path(__file__).with_name("security_headers.py")
LOOPBACK_NAMES = ("127.0.0.1", "localhost", "::1")


def command(port: int = 8501, host: str = "127.0.0.1", allowed_hosts: Sequence[str] = ()) -> list[str]:
    """The argument list that serves the dashboard on `host:port`, without the server's address.

    On a loopback address only loopback names are accepted, against DNS rebinding. On another address, list
    the host names that people use in `allowed_hosts`; otherwise every name is accepted.
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
    """The process's environment: `base` with the server's address and the token or its file.

    A token file is read at each request.
    """
    values = dict(base or {})
    values["CONTROLPLANE_URL"] = server_url
    if token:
        values["CONTROLPLANE_TOKEN"] = token
    elif token_file:
        values.pop("CONTROLPLANE_TOKEN", None)
        values["CONTROLPLANE_TOKEN_FILE"] = str(token_file)
    return values
