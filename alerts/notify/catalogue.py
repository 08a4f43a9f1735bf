"""Kinds of receivers, and how configured receivers are built.

`Files` reads the files that the configuration names whenever receivers are built, so a changed secret takes effect with
a reload.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from alerts.notify.configuration.schema import TEMPLATED, FieldType, FilePath, Schema, Secret, Settings
from alerts.notify.http.building import http_client
from alerts.notify.http.client import HttpClient
from alerts.notify.model import Config, IntegrationConfig
from alerts.notify.receivers import (
    apprise,
    discord,
    email,
    jira,
    mattermost,
    msteams,
    opsgenie,
    pagerduty,
    pushover,
    rocketchat,
    slack,
    sns,
    telegram,
    victorops,
    webex,
    webhook,
    wechat,
)
from alerts.notify.receivers.base import Integration, Receiver, ReceiverKind
from alerts.notify.receivers.limits import LimitedReceiver
from alerts.templates.library import TemplateLibrary

KINDS: Mapping[str, ReceiverKind] = {
    "webhook_configs": webhook.KIND,
    "email_configs": email.KIND,
    "pagerduty_configs": pagerduty.KIND,
    "slack_configs": slack.KIND,
    "opsgenie_configs": opsgenie.KIND,
    "jsm_configs": opsgenie.SERVICE_MANAGEMENT_KIND,
    "msteamsv2_configs": msteams.KIND,
    "msteams_configs": msteams.CONNECTOR_KIND,
    "telegram_configs": telegram.KIND,
    "discord_configs": discord.KIND,
    "webex_configs": webex.KIND,
    "pushover_configs": pushover.KIND,
    "victorops_configs": victorops.KIND,
    "sns_configs": sns.KIND,
    "jira_configs": jira.KIND,
    "mattermost_configs": mattermost.KIND,
    "rocketchat_configs": rocketchat.KIND,
    "wechat_configs": wechat.KIND,
    "apprise_configs": apprise.KIND,
}


class Files(Protocol):
    """The files that a configuration names."""

    def read(self, path: str) -> str:
        """The content. Raises OSError or UnicodeDecodeError."""
        ...

    def path(self, path: str) -> str:
        """The path as the operating system finds it."""
        ...


def build(config: Config, files: Files, library: TemplateLibrary) -> dict[str, tuple[Receiver, ...]]:
    """The receivers by configured name. Raises ValueError for an unusable secret, certificate or template.

    Errors of `files` (OSError) pass through.
    """
    return {
        receiver.name: tuple(_built(integration, files, library) for integration in receiver.integrations)
        for receiver in config.receivers.values()
    }


def _built(given: IntegrationConfig, files: Files, library: TemplateLibrary) -> Receiver:
    kind = KINDS[given.kind]
    settings = resolved(given.settings, files)
    _check_values(given.name, kind.schema, settings)
    _check_templates(given.name, kind.schema, given.settings, library)
    http = http_client(settings["http_config"], files.read) if "http_config" in settings else HttpClient()
    return LimitedReceiver(kind.build(Integration(given.name, kind.schema, settings, http, library)))


def resolved(settings: Settings, files: Files) -> dict[str, Any]:
    """Settings with the content of secret files, and paths as the operating system finds them."""
    return {name: _resolved(name, value, files) for name, value in settings.items()}


def _check_values(name: str, schema: Schema, settings: Settings) -> None:
    """Raise ValueError for a text that is invalid, such as a URL from a file."""
    for key, field in schema.items():
        value = settings[key]
        if field.type is FieldType.MAPPING and value is not None:
            _check_values(f"{name}: {key}", field.fields or {}, value)
        elif field.problem is not None and value and (problem := field.problem(str(value))):
            raise ValueError(f"{name}: {key}: {problem}")


def _resolved(name: str, value: Any, files: Files) -> Any:
    """The value with the content of secret files, and paths as the operating system finds them."""
    if isinstance(value, Secret):
        return value.text or (files.read(value.file).strip() if value.file else "")
    if isinstance(value, FilePath):
        return files.path(value) if value else ""
    if isinstance(value, Mapping):
        return {key: _resolved(key, element, files) for key, element in value.items()}
    if isinstance(value, list | tuple):
        return [_resolved(name, element, files) for element in value]
    return value


def _check_templates(name: str, schema: Schema, settings: Settings, library: TemplateLibrary) -> None:
    """Raise ValueError with the first error of a template."""
    for key, field in schema.items():
        for text in _texts(settings[key]) if field.type in TEMPLATED else ():
            for error in library.errors(text):
                raise ValueError(f"{name}: {key}: {error.message} (line {error.line}, column {error.column})")


def _texts(value: Any) -> list[str]:
    if isinstance(value, Mapping):
        return [text for element in value.values() for text in _texts(element)]
    if isinstance(value, list | tuple):
        return [text for element in value for text in _texts(element)]
    return [value] if isinstance(value, str) else []
