"""Discord receiver: an embed posted to a channel's webhook."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from alerts.notify.configuration.schema import Settings, boolean, template, text
from alerts.notify.http.fields import http_config, secret_url
from alerts.notify.message import Message
from alerts.notify.receivers.base import IntegrationReceiver, ReceiverKind, shortened, without_empty

MAX_TITLE, MAX_DESCRIPTION, MAX_CONTENT = 256, 4096, 2000
RED, GREEN = 0x992D22, 0x2ECC71
SCHEMA = {
    "send_resolved": boolean(True),
    "webhook_url": secret_url(required=True),
    "content": template('{{ template "discord.default.content" . }}'),
    "title": template('{{ template "discord.default.title" . }}'),
    "message": template('{{ template "discord.default.message" . }}'),
    "username": text(),
    "avatar_url": text(),
    "http_config": http_config(),
}


@dataclass(frozen=True, repr=False)
class Discord(IntegrationReceiver):
    """Posts an embed, red while an alert fires."""

    def send(self, message: Message) -> None:
        """Post a message. Raises ReceiverError where Discord refuses it."""
        fields = self.integration.rendered(message)
        self.integration.http.send(fields["webhook_url"], document(fields, bool(message.firing)))


def document(fields: Settings, firing: bool) -> dict[str, Any]:
    """The JSON document of a message."""
    embed = {
        "title": shortened(fields["title"], MAX_TITLE),
        "description": shortened(fields["message"], MAX_DESCRIPTION),
        "color": RED if firing else GREEN,
    }
    return without_empty({
        "content": shortened(fields["content"], MAX_CONTENT),
        "embeds": [without_empty(embed)],
        "username": fields["username"],
        "avatar_url": fields["avatar_url"],
    })  # fmt: skip


KIND = ReceiverKind(SCHEMA, Discord)
