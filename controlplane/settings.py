"""Settings of the server: one frozen value read from the environment.

Built by the command line and passed on; the agent and the UI read their own settings. Every variable has the prefix
`CONTROLPLANE_`. Secrets may also come from a file (`CONTROLPLANE_TOKEN_FILE`, `CONTROLPLANE_DATABASE_URL_FILE`) and
do not appear in `repr`. All mistakes are reported at once, each with the variable's name.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from controlplane.errors import SettingsError
from controlplane.locations import is_root
from controlplane.server_urls import named_servers

PREFIX = "CONTROLPLANE_"
MIB = 1024 * 1024
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
#: Addresses that stand for all interfaces, and the loopback address of each.
WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}


@dataclass(frozen=True)
class Settings:
    """All settings. Sizes are in bytes and times in seconds unless the name has another unit."""

    host: str = "127.0.0.1"
    port: int = 8420
    ui_port: int = 8501
    data_dir: Path = Path("controlplane-data")
    database_url: str | None = field(default=None, repr=False)
    external_url: str | None = None
    allowed_hosts: tuple[
        str, ...
    ] = ()  # names by which clients reach server and dashboard, beside the local ones
    retention_days: float = 14.0
    retention_bytes: int = 10 * 1024 * MIB
    lake: str | None = None  # lake for events older than `hot_days`: a path, or a URL that fsspec opens
    hot_days: float = 3.0  # with a lake: age up to which events stay in the store
    offload_hours: float = 6.0  # with a lake: interval of the offload of older events
    window_length: int = 120
    rules: tuple[str, ...] = ()  # rule files; none: the built-in rules
    rules_scale: float = 1.0  # factor of the windows and `for` times of the built-in rules
    notify: Path | None = None  # notification configuration; none: the webhook, if it is set
    webhook: str | None = field(default=None, repr=False)
    series_step: float = 15.0
    max_series: int = 500_000
    max_queries: int = 10_000  # quotas of ingest, see `controlplane.ingest.quotas`
    max_queries_per_app: int = 1_000
    max_agents: int = 5_000
    max_agents_per_app: int = 500
    max_events_per_second_per_app: float = 2_000.0
    checkpoint_roots: tuple[str, ...] = ()  # the server itself may read checkpoints below these
    checkpoint_changes: bool = False  # the server may rewind and repair checkpoints below the roots
    launchers: tuple[str, ...] = ()  # kinds of launchers that may start applications; none: all are off
    metrics_need_token: bool | None = None  # None: where the server listens beyond loopback
    max_body_bytes: int = 16 * MIB
    max_decompressed_bytes: int = 64 * MIB
    max_bodies_bytes: int = 160 * MIB  # of all request bodies in memory together
    advertise_url: str | None = None  # where clients reach this server, if another one shares its database
    url: str | None = None  # the server, for clients; several addresses are separated by commas
    token: str | None = field(default=None, repr=False)  # for clients
    token_file: Path | None = None  # for clients; read at each use, so a renewed token is found
    ca_file: Path | None = None  # for clients: certificates of a private CA, beside those of the system
    tls_cert: Path | None = (
        None  # certificate and key of server and dashboard; changed files are loaded again
    )
    tls_key: Path | None = None
    auth_file: Path | None = None  # log-in of the dashboard by OpenID Connect: Streamlit's secrets
    trusted_proxies: tuple[str, ...] = ()  # networks of the proxies that log people in for the dashboard
    proxy_user_header: str = "X-Forwarded-User"
    proxy_groups_header: str = "X-Forwarded-Groups"
    role_map: Path | None = None  # roles of the dashboard's people

    @property
    def store_days(self) -> float:
        """Days that events stay in the store at least."""
        return self.retention_days if self.lake is None else min(self.hot_days, self.retention_days)

    @property
    def server_url(self) -> str:
        """URL of the server for clients with these settings, or several, separated by commas."""
        url = self.url or f"{self.scheme}://{connect_host(self.host)}:{self.port}"
        return ",".join(address.rstrip("/") for address in _listed(url))

    @property
    def advertised_url(self) -> str:
        """Where clients reach this server."""
        host = socket.gethostname() if self.host in WILDCARDS else connect_host(self.host)
        return (self.advertise_url or f"{self.scheme}://{host}:{self.port}").rstrip("/")

    @property
    def dashboard_url(self) -> str:
        """URL of the dashboard; links in alerts begin with it."""
        return (self.external_url or f"{self.scheme}://{connect_host(self.host)}:{self.ui_port}").rstrip("/")

    @property
    def scheme(self) -> str:
        """`https` if server and dashboard have a certificate."""
        return "https" if self.tls_cert else "http"

    @property
    def host_names(self) -> tuple[str, ...]:
        """Host names of server and dashboard: the local ones, `allowed_hosts` and that of the external URL.

        On an address beyond loopback, also that address, or for a wildcard the name of this machine.
        """
        names = [*LOOPBACK_NAMES, *self.allowed_hosts]
        if self.listens_beyond_loopback:
            names.append(socket.gethostname() if self.host in WILDCARDS else self.host)
        if self.external_url:
            names.append(urlsplit(self.external_url).hostname or "")
        return tuple(dict.fromkeys(name.lower().rstrip(".") for name in names if name))

    @property
    def listens_beyond_loopback(self) -> bool:
        """Whether other machines can reach the server's address."""
        return self.host not in LOOPBACK_NAMES and not self.host.startswith("127.")

    @property
    def metrics_are_open(self) -> bool:
        """Whether `/metrics` is answered without a token."""
        closed = self.metrics_need_token
        return not (self.listens_beyond_loopback if closed is None else closed)

    @property
    def admin_token_file(self) -> Path:
        """File of the local admin token."""
        return self.data_dir / "admin.token"

    @property
    def agent_token_file(self) -> Path:
        """File of the local agent token."""
        return self.data_dir / "agent.token"


def connect_host(host: str) -> str:
    """The host for a URL on this machine, given a listening address: a wildcard becomes the loopback address."""
    host = WILDCARDS.get(host, host)
    return f"[{host}]" if ":" in host else host


def load(environ: Mapping[str, str], overrides: Mapping[str, Any] | None = None) -> Settings:
    """Settings from the environment; `overrides` (the command line's values, None is ignored) take precedence.

    SettingsError names all mistakes, one per line; `detail["mistakes"]` holds them as a list.
    """
    values: dict[str, Any] = {}
    mistakes: list[str] = []
    for name in (f.name for f in fields(Settings)):
        try:
            text = _raw_value(environ, name)
            if text is not None:
                values[name] = PARSERS[name](text)
        except ValueError as error:
            mistakes.append(f"{PREFIX}{name.upper()}: {error}")
    values |= {name: value for name, value in (overrides or {}).items() if value is not None}
    settings = replace(Settings(), **values)
    mistakes += [line for line in check(settings) if line.split(":")[0] not in _variables(mistakes)]
    if mistakes:
        raise SettingsError("\n".join(mistakes), detail={"mistakes": mistakes})
    return settings


def _variables(mistakes: Iterable[str]) -> set[str]:
    return {line.split(":")[0] for line in mistakes}


def check(settings: Settings) -> list[str]:
    """Mistakes in these values, one line each."""
    rules: list[tuple[bool, str, str]] = [
        (0 <= settings.port <= 65535, "port", "must be 0 to 65535"),
        (0 <= settings.ui_port <= 65535, "ui_port", "must be 0 to 65535"),
        (settings.retention_days > 0, "retention_days", "must be above 0"),
        (settings.hot_days > 0, "hot_days", "must be above 0"),
        (
            settings.hot_days <= settings.retention_days or settings.lake is None,
            "hot_days",
            f"must be at most retention_days ({settings.retention_days:g})",
        ),
        (settings.offload_hours > 0, "offload_hours", "must be above 0"),
        (settings.retention_bytes >= MIB, "retention_bytes", "must be at least 1 MiB (1048576)"),
        (2 <= settings.window_length <= 10_000, "window_length", "must be 2 to 10000 samples"),
        (0 < settings.rules_scale <= 1000, "rules_scale", "must be above 0 and at most 1000"),
        (_is_url(settings.webhook), "webhook", "must be a URL like https://host/path"),
        (
            settings.webhook is None or settings.notify is None,
            "webhook",
            "must not be set together with notify",
        ),
        (0.5 <= settings.series_step <= 300, "series_step", "must be 0.5 to 300 seconds"),
        (settings.max_series >= 1000, "max_series", "must be at least 1000"),
        *((getattr(settings, name) >= 1, name, "must be at least 1") for name in QUOTAS),
        (settings.max_events_per_second_per_app > 0, "max_events_per_second_per_app", "must be above 0"),
        (
            all(map(is_root, settings.checkpoint_roots)),
            "checkpoint_roots",
            "must be absolute paths, or URLs with a bucket or host, separated by commas",
        ),
        (set(settings.launchers) <= set(LAUNCHERS), "launchers", f"must be of {', '.join(LAUNCHERS)}"),
        (settings.max_body_bytes > 0, "max_body_bytes", "must be above 0"),
        (
            settings.max_decompressed_bytes >= settings.max_body_bytes,
            "max_decompressed_bytes",
            "must be at least max_body_bytes",
        ),
        (
            settings.max_bodies_bytes >= settings.max_body_bytes + settings.max_decompressed_bytes,
            "max_bodies_bytes",
            "must be at least max_body_bytes and max_decompressed_bytes together",
        ),
        (
            all(map(_is_host_pattern, settings.allowed_hosts)),
            "allowed_hosts",
            "must be host names without scheme and port, such as plane.example.com or *.example.com",
        ),
        (
            (settings.tls_cert is None) == (settings.tls_key is None),
            "tls_cert",
            "must be set together with tls_key",
        ),
        (_is_url(settings.external_url), "external_url", "must be a URL like https://host"),
        (_is_url(settings.advertise_url), "advertise_url", "must be a URL like http://host:8420"),
        (
            settings.url is None or _are_servers(settings.url),
            "url",
            "must be a URL like http://host:8420, several separated by commas, or NAME=URL separated by semicolons",
        ),
    ]
    return [f"{PREFIX}{name.upper()}: {rule}" for good, name, rule in rules if not good]


def _are_servers(text: str) -> bool:
    try:
        addresses = named_servers(text).values() or [text]
    except ValueError:
        return False
    return all(_is_url(url) for address in addresses for url in _listed(address) or ("",))


def _is_url(value: str | None) -> bool:
    if value is None:
        return True
    try:
        parts = urlsplit(value)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        return False


def _is_host_pattern(name: str) -> bool:
    return re.fullmatch(r"\*|(\*\.)?[\w.-]+|[0-9A-Fa-f:]+", name) is not None


def _raw_value(environ: Mapping[str, str], name: str) -> str | None:
    variable = PREFIX + name.upper()
    text = environ.get(variable)
    path = environ.get(variable + "_FILE") if name in SECRETS else None
    if not path or text:
        return text or None
    try:
        return Path(path).read_text(encoding="utf-8").strip() or None
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(
            f"cannot read the file {path} ({getattr(error, 'strerror', None) or error})"
        ) from None


def _number(kind: type[int] | type[float]) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        try:
            value = kind(text)
        except ValueError:
            word = "a whole number" if kind is int else "a number"
            raise ValueError(f"must be {word}, not {text[:40]!r}") from None
        if value != value or value in (float("inf"), float("-inf")):
            raise ValueError(f"must be a finite number, not {text[:40]!r}")
        return value

    return read


def _bytes(text: str) -> int:
    """`1048576`, `512 MiB`, `10GiB` → bytes."""
    units = {"kib": 1024, "mib": MIB, "gib": 1024 * MIB, "tib": 1024 * 1024 * MIB}
    unit = text.strip().lower()[-3:]
    if unit in units:
        return int(_number(float)(text.strip()[:-3].strip()) * units[unit])
    return int(_number(int)(text))


def _paths(text: str) -> tuple[str, ...]:
    """Paths separated like those of PATH."""
    return tuple(path for path in text.split(os.pathsep) if path)


def _listed(text: str) -> tuple[str, ...]:
    """Entries separated by commas."""
    return tuple(filter(None, map(str.strip, text.split(","))))


def _flag(text: str) -> bool:
    word = text.strip().lower()
    if word in ("1", "true", "yes", "on"):
        return True
    if word in ("0", "false", "no", "off"):
        return False
    raise ValueError(f"must be true or false, not {text[:40]!r}")


#: Numbers of queries and agents that an app and the fleet may have.
QUOTAS = ("max_queries", "max_queries_per_app", "max_agents", "max_agents_per_app")
#: Kinds of launchers, see `controlplane.apps.launchers`.
LAUNCHERS = ("process", "standalone", "kubernetes", "command")
#: Settings that may also come from `CONTROLPLANE_…_FILE`. (`token_file` is a setting of its own.)
SECRETS = ("database_url", "webhook")
PARSERS: dict[str, Callable[[str], Any]] = {
    "host": str,
    "port": _number(int),
    "ui_port": _number(int),
    "data_dir": Path,
    "database_url": str,
    "external_url": str,
    "allowed_hosts": _listed,
    "retention_days": _number(float),
    "retention_bytes": _bytes,
    "lake": str,
    "hot_days": _number(float),
    "offload_hours": _number(float),
    "window_length": _number(int),
    "rules": _paths,
    "rules_scale": _number(float),
    "notify": Path,
    "webhook": str,
    "series_step": _number(float),
    "max_series": _number(int),
    **dict.fromkeys(QUOTAS, _number(int)),
    "max_events_per_second_per_app": _number(float),
    "checkpoint_roots": _listed,
    "checkpoint_changes": _flag,
    "launchers": _listed,
    "metrics_need_token": _flag,
    "max_body_bytes": _bytes,
    "max_decompressed_bytes": _bytes,
    "max_bodies_bytes": _bytes,
    "advertise_url": str,
    "url": str,
    "token": str,
    "token_file": Path,
    **dict.fromkeys(("ca_file", "tls_cert", "tls_key"), Path),
    "auth_file": Path,
    "trusted_proxies": _listed,
    "proxy_user_header": str,
    "proxy_groups_header": str,
    "role_map": Path,
}
