"""Alertmanagers to which alerts are also sent: the section `alerting` of Prometheus' configuration, and their API v2.

Discovery is by `static_configs`. Pure but for `AlertmanagerEndpoint`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from alerts.errors import MatcherError, ReceiverError
from alerts.matching.labels import Labels, Matcher
from alerts.notify.configuration.schema import (
    Schema,
    Settings,
    duration,
    mappings,
    pairs,
    text,
    texts,
)
from alerts.notify.http.building import ReadFile, http_client
from alerts.notify.http.client import HttpClient, checked, redacted_url
from alerts.notify.http.fields import HTTP_CONFIG, address_problem
from alerts.silences import Silence
from alerts.state import Alert, ends_at

#: Alerts that a request holds at most, as in Prometheus.
MAX_BATCH_ALERTS = 256
#: Silences of one Alertmanager that are read at most.
MAX_SILENCES_BYTES = 8 * 1024 * 1024
_OPERATORS = {(True, False): "=", (False, False): "!=", (True, True): "=~", (False, True): "!~"}


def _scheme_problem(value: str) -> str | None:
    return None if value in ("http", "https") else "must be http or https"


def _version_problem(value: str) -> str | None:
    return None if value == "v2" else "only v2 is supported"


def _target_problem(value: str) -> str | None:
    return address_problem(f"http://{value}") or ("must be HOST:PORT" if "/" in value else None)


ALERTMANAGER: Schema = {
    "scheme": text("http", problem=_scheme_problem),
    "path_prefix": text("/"),
    "timeout": duration(10.0),
    "api_version": text("v2", problem=_version_problem),
    "static_configs": mappings({"targets": texts(), "labels": pairs()}),
    **HTTP_CONFIG,
}
ALERTING: Schema = {"alertmanagers": mappings(ALERTMANAGER)}


def problem(settings: Settings) -> str | None:
    """Why settings of `alertmanagers` are incomplete; None where they are not."""
    targets = list(_targets(settings))
    if not targets:
        return "static_configs with targets is needed; other discovery is not supported"
    wrong = [f"{target!r}: {found}" for target in targets if (found := _target_problem(target))]
    return f"target {wrong[0]}" if wrong else None


def _targets(settings: Settings) -> Iterator[str]:
    for config in settings["static_configs"]:
        yield from config["targets"]


@dataclass(frozen=True, repr=False)
class AlertmanagerEndpoint:
    """One Alertmanager. `url` ends before `/api/v2`. Calls block for at most the client's timeout."""

    url: str
    client: HttpClient

    @property
    def name(self) -> str:
        """The URL without user and password."""
        return f"{redacted_url(self.url).removesuffix('/…')}{_path(self.url)}"

    def post_alerts(self, alerts: Sequence[Mapping[str, Any]]) -> None:
        """Send alerts. Raises ReceiverError."""
        self.client.send(f"{self.url}/api/v2/alerts", list(alerts))

    def silences(self) -> tuple[Silence, ...]:
        """The silences of this Alertmanager that have not expired. Raises ReceiverError."""
        url = f"{self.url}/api/v2/silences"
        client = replace(self.client, max_response_bytes=MAX_SILENCES_BYTES)
        document = checked(url, client.request("GET", url, b"")).document
        if not isinstance(document, list):
            raise ReceiverError(f"{redacted_url(url)} answered without a list of silences", retryable=True)
        return tuple(silence for item in document if (silence := silence_of(item)) is not None)


def _path(url: str) -> str:
    rest = url.split("://", 1)[-1].partition("/")
    return f"/{rest[2]}" if rest[2] else ""


def endpoints(alertmanagers: Iterable[Settings], read: ReadFile) -> tuple[AlertmanagerEndpoint, ...]:
    """The Alertmanagers of settings whose secrets are resolved. Raises OSError or ValueError for unusable files."""
    found: dict[str, AlertmanagerEndpoint] = {}
    for settings in alertmanagers:
        client = http_client(settings, read).with_timeout(settings["timeout"])
        prefix = settings["path_prefix"].strip("/")
        for target in _targets(settings):
            url = f"{settings['scheme']}://{target}" + (f"/{prefix}" if prefix else "")
            found.setdefault(url, AlertmanagerEndpoint(url, client))
    return tuple(found.values())


def postable(alert: Alert, external: Labels, url: str, interval: float, now: float) -> dict[str, Any]:
    """An alert as Prometheus posts it: `endsAt` of a firing one is four intervals ahead, `external` labels are added."""
    return {
        "labels": {**external, **alert.labels},
        "annotations": dict(alert.annotations),
        "startsAt": _rfc3339(alert.active_at if alert.fired_at is None else alert.fired_at),
        "endsAt": _rfc3339(ends_at(alert, now, interval)),
        "generatorURL": url,
    }


def _rfc3339(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def silence_of(item: Any) -> Silence | None:
    """A silence of Alertmanager's API; None for an expired one, or one that cannot be read."""
    try:
        if item["status"]["state"] == "expired":
            return None
        return Silence(
            id=item["id"],
            matchers=tuple(map(_matcher, item["matchers"])),
            starts_at=_seconds(item["startsAt"]),
            ends_at=_seconds(item["endsAt"]),
            created_by=item["createdBy"],
            comment=item["comment"],
            updated_at=_seconds(item["updatedAt"]),
        )
    except (KeyError, TypeError, ValueError, MatcherError):
        return None


def _matcher(item: Mapping[str, Any]) -> Matcher:
    operator = _OPERATORS[item.get("isEqual", True), item["isRegex"]]
    return Matcher(item["name"], operator, item["value"])


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
