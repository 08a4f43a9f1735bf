"""Webex receiver: a Markdown message to a space; the bot's token stands in `http_config`."""

from __future__ import annotations

from dataclasses import dataclass

from alerts.notify.configuration.schema import Settings, boolean, required, template
from alerts.notify.http.fields import http_config, url
from alerts.notify.message import Message
from alerts.notify.receivers.base import IntegrationReceiver, ReceiverKind, shortened_bytes

API = "https://webexapis.com/v1/messages"
MAX_BYTES = 7439
SCHEMA = {
    "send_resolved": boolean(True),
    "api_url": url(inherits="webex_api_url"),
    "room_id": required(template()),
    "message": template('{{ template "webex.default.message" . }}'),
    "http_config": http_config(),
}


@dataclass(frozen=True, repr=False)
class Webex(IntegrationReceiver):
    """Sends a message to a space."""

    def send(self, message: Message) -> None:
        """Send a message. Raises ReceiverError where Webex refuses it."""
        fields = self.integration.rendered(message)
        document = {"roomId": fields["room_id"], "markdown": shortened_bytes(fields["message"], MAX_BYTES)}
        self.integration.http.send(fields["api_url"] or API, document)


def problem(settings: Settings) -> str | None:
    """Why the settings are incomplete."""
    given = settings["http_config"] or {}
    if given.get("authorization") or given.get("bearer_token"):
        return None
    return "webex needs the bot's token in http_config (authorization: credentials)"


KIND = ReceiverKind(SCHEMA, Webex, problem)
