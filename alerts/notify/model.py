"""A loaded configuration: routes, receivers with their integrations, inhibition rules, templates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from alerts.inhibition import InhibitRule
from alerts.matching.labels import Labels
from alerts.notify.configuration.schema import Settings
from alerts.notify.configuration.settings import secrets_and_files
from alerts.routing import AlertRoute

#: As in Alertmanager.
DEFAULT_RESOLVE_TIMEOUT_SECONDS = 300.0


@dataclass(frozen=True)
class IntegrationConfig:
    """One integration of a receiver, such as an element of `slack_configs`. `settings` hide their secrets.

    `name` is that of the notification log: `team/slack[0]`.
    """

    kind: str
    name: str
    settings: Settings = field(repr=False)


@dataclass(frozen=True)
class ReceiverConfig:
    """A receiver by the name that routes use. It may have no integrations."""

    name: str
    integrations: tuple[IntegrationConfig, ...] = ()


@dataclass(frozen=True)
class Config:
    """A configuration. `original`: its text, with secrets. `templates`: patterns of file names.

    `resolve_timeout`: seconds after which a posted alert without an end is resolved, unless it is posted again.
    `alertmanagers`: elements of Prometheus' section `alerting`; `external_labels`: added to what other servers get;
    `remote_write`: elements of that section.
    """

    route: AlertRoute
    receivers: Mapping[str, ReceiverConfig]
    inhibit_rules: tuple[InhibitRule, ...] = ()
    original: str = ""
    templates: tuple[str, ...] = ()
    resolve_timeout: float = DEFAULT_RESOLVE_TIMEOUT_SECONDS
    alertmanagers: tuple[Settings, ...] = field(default=(), repr=False)
    external_labels: Labels = field(default_factory=dict)
    remote_write: tuple[Settings, ...] = field(default=(), repr=False)

    def files(self) -> Iterator[str]:
        """Paths of the files that receivers and Alertmanagers name: secrets and certificates."""
        for receiver in self.receivers.values():
            for integration in receiver.integrations:
                yield from secrets_and_files(integration.settings)
        yield from secrets_and_files((*self.alertmanagers, *self.remote_write))
