"""Mattermost receiver: an incoming webhook."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from alerts.notify.configuration.schema import Settings, anything, boolean, mappings, template
from alerts.notify.http.fields import http_config, secret_url
from alerts.notify.message import Message
from alerts.notify.receivers.base import IntegrationReceiver, ReceiverKind, shortened, without_empty

MAX_TEXT = 16_383
_FIELD = {"title": template(), "value": template(), "short": boolean()}
_ATTACHMENT = {
    "fallback": template(),
    "color": template(),
    "pretext": template(),
    "text": template(),
    "author_name": template(),
    "author_link": template(),
    "author_icon": template(),
    "title": template(),
    "title_link": template(),
    "fields": mappings(_FIELD),
    "thumb_url": template(),
    "footer": template(),
    "footer_icon": template(),
    "image_url": template(),
}
SCHEMA = {
    "send_resolved": boolean(True),
    "webhook_url": secret_url(inherits="mattermost_webhook_url", required=True),
    "channel": template(),
    "username": template('{{ template "mattermost.default.username" . }}'),
    "text": template('{{ template "mattermost.default.text" . }}'),
    "icon_url": template(),
    "icon_emoji": template(),
    "attachments": mappings(_ATTACHMENT),
    "type": template(),
    "props": anything(),
    "priority": anything(),
    "http_config": http_config(),
}


@dataclass(frozen=True, repr=False)
class Mattermost(IntegrationReceiver):
    """Posts a message to a channel."""

    def send(self, message: Message) -> None:
        """Post a message. Raises ReceiverError where Mattermost refuses it."""
        fields = self.integration.rendered(message)
        self.integration.http.send(fields["webhook_url"], document(fields))


def document(fields: Settings) -> dict[str, Any]:
    """The JSON document of a message."""
    copied = ("channel", "username", "icon_url", "icon_emoji", "type", "props", "priority")
    attachments = [without_empty(given) for given in fields["attachments"]]
    text = shortened(fields["text"], MAX_TEXT)
    return without_empty(
        {"text": text, "attachments": attachments, **{name: fields[name] for name in copied}}
    )


KIND = ReceiverKind(SCHEMA, Mattermost)
