"""Command line and environment of the dashboard's Streamlit process.

`controlplane ui` and `controlplane up` call `command` and `environment` and start the process. The hardening
options are on the command line, where neither a config file nor the user's environment can undo them; themes
and the rest are in `ui/.streamlit/config.toml`.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ui.kit import role_map
from ui.proxy_check import networks_of

ENTRY = Path(__file__).with_name("security_headers.py")
LOOPBACK_NAMES = ("127.0.0.1", "localhost", "::1")
#: Set by `LogIn.variables` alone.
LOG_IN_VARIABLES = (
    "CONTROLPLANE_AUTH_FILE",
    "CONTROLPLANE_TRUSTED_PROXIES",
    "CONTROLPLANE_PROXY_USER_HEADER",
    "CONTROLPLANE_PROXY_GROUPS_HEADER",
    "CONTROLPLANE_ROLE_MAP",
)
AUTH_KEYS = ("redirect_uri", "cookie_secret", "client_id", "client_secret", "server_metadata_url")
MIN_SECRET_CHARS = 32  # who knows the secret can sign a cookie for anybody


@dataclass(frozen=True)
class LogIn:
    """How people log in: by OpenID Connect (`auth_file`, Streamlit's secrets), by a proxy, or not at all."""

    auth_file: Path | None = None
    trusted_proxies: Sequence[str] = ()
    user_header: str = "X-Forwarded-User"
    groups_header: str = "X-Forwarded-Groups"
    role_map: Path | None = None

    def variables(self) -> dict[str, str]:
        """The environment that `ui.kit.sign_in` reads."""
        values = {"CONTROLPLANE_ROLE_MAP": str(self.role_map.absolute())} if self.role_map else {}
        if self.auth_file:
            return {**values, "CONTROLPLANE_AUTH_FILE": str(self.auth_file.absolute())}
        if not self.trusted_proxies:
            return {}
        return {
            **values,
            "CONTROLPLANE_TRUSTED_PROXIES": ",".join(self.trusted_proxies),
            "CONTROLPLANE_PROXY_USER_HEADER": self.user_header,
            "CONTROLPLANE_PROXY_GROUPS_HEADER": self.groups_header,
            "FORWARDED_ALLOW_IPS": "",  # uvicorn must leave the peer's address as it is
        }

    def check(self) -> None:
        """Raise ValueError with one sentence for what cannot work."""
        if self.auth_file and self.trusted_proxies:
            raise ValueError("--auth and --trusted-proxy are two ways to log in; give one of them")
        if self.role_map and not (self.auth_file or self.trusted_proxies):
            raise ValueError("--role-map needs a log-in: --auth or --trusted-proxy")
        role_map.load(self.role_map)
        networks_of(",".join(self.trusted_proxies))
        if self.auth_file:
            _check_auth(self.auth_file)


def _check_auth(path: Path) -> None:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    section = document.get("auth")
    if not isinstance(section, dict):
        raise ValueError(f"{path}: there is no section [auth]")
    if missing := [key for key in AUTH_KEYS if not isinstance(section.get(key), str)]:
        raise ValueError(f"{path}: [auth] needs the text {missing[0]}")
    if len(section["cookie_secret"]) < MIN_SECRET_CHARS:
        raise ValueError(f"{path}: cookie_secret must have at least {MIN_SECRET_CHARS} random characters")
    if not section["redirect_uri"].endswith("/oauth2callback"):
        raise ValueError(
            f"{path}: redirect_uri must be the dashboard's address with the path /oauth2callback"
        )
    if named := [key for key, value in section.items() if isinstance(value, dict) and "client_id" in value]:
        raise ValueError(f"{path}: one provider is supported; remove [auth.{named[0]}]")


def command(
    port: int = 8501,
    host: str = "127.0.0.1",
    allowed_hosts: Sequence[str] = (),
    log_in: LogIn | None = None,
    tls: tuple[Path, Path] | None = None,
) -> list[str]:
    """The argument list that serves the dashboard on `host:port`, without the server's address.

    Only the names in `allowed_hosts` are accepted as Host, against DNS rebinding; by default the loopback names and
    `host`. `*` accepts every name. `tls`: the files of the certificate and its key.
    """
    hosts = list(allowed_hosts) or [*LOOPBACK_NAMES, host]
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
    if tls:
        flags += [f"--server.sslCertFile={tls[0].absolute()}", f"--server.sslKeyFile={tls[1].absolute()}"]
    if log_in and log_in.auth_file:
        flags.append(f"--secrets.files={log_in.auth_file.absolute()}")
    return [sys.executable, "-m", "streamlit", "run", str(ENTRY), *flags]


def environment(
    server_url: str,
    token: str | None = None,
    token_file: str | Path | None = None,
    base: Mapping[str, str] | None = None,
    log_in: LogIn | None = None,
    ca_file: Path | None = None,
) -> dict[str, str]:
    """The process's environment: `base` with the server's address and the token or its file.

    A token file is read at each request.
    """
    values = {name: value for name, value in (base or {}).items() if name not in LOG_IN_VARIABLES}
    values |= (log_in or LogIn()).variables()
    values["CONTROLPLANE_URL"] = server_url
    if ca_file:
        values["CONTROLPLANE_CA_FILE"] = str(ca_file.absolute())
    if token:
        values["CONTROLPLANE_TOKEN"] = token
    elif token_file:
        values.pop("CONTROLPLANE_TOKEN", None)
        values["CONTROLPLANE_TOKEN_FILE"] = str(token_file)
    return values
