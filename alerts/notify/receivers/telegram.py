"""Telegram receiver: `sendMessage` of a bot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from alerts.errors import ReceiverError
from alerts.notify.configuration.schema import Settings, boolean, integer, secret, template, text
from alerts.notify.http.client import HttpResponse, checked, encoded
from alerts.notify.http.fields import http_config, url
from alerts.notify.message import Message
from alerts.notify.receivers.base import IntegrationReceiver, ReceiverKind, shortened, without_empty

API = "https://api.telegram.org"
MAX_TEXT = 4096
PARSE_MODES = ("", "Markdown", "MarkdownV2", "HTML")


def _mode_problem(mode: str) -> str | None:
    return None if mode in PARSE_MODES else f"known modes: {', '.join(PARSE_MODES[1:])}"


SCHEMA = {
    "send_resolved": boolean(True),
    "api_url": url(inherits="telegram_api_url"),
    "bot_token": secret(inherits="telegram_bot_token", required=True),
    "chat_id": integer(None),
    "message_thread_id": integer(None),
    "message": template('{{ template "telegram.default.message" . }}'),
    "disable_notifications": boolean(),
    "parse_mode": text("HTML", problem=_mode_problem),
    "http_config": http_config(),
}


@dataclass(frozen=True, repr=False)
class Telegram(IntegrationReceiver):
    """Sends a message to a chat."""

    def send(self, message: Message) -> None:
        """Send a message; as plain text where its markup is refused. Raises ReceiverError."""
        fields = self.integration.rendered(message, self.integration.settings["parse_mode"] == "HTML")
        is_long = len(fields["message"]) > MAX_TEXT and bool(
            fields["parse_mode"]
        )  # a cut would break its markup
        response = None if is_long else self._post(fields, document(fields))
        if response is None or (response.status == 400 and b"parse entities" in response.body):
            plain = self.integration.rendered(message)
            response = self._post(plain, document({**plain, "parse_mode": ""}))
        check(response)

    def _post(self, fields: Settings, body: Mapping[str, Any]) -> HttpResponse:
        address = f"{(fields['api_url'] or API).rstrip('/')}/bot{fields['bot_token']}/sendMessage"
        return self.integration.http.request(
            "POST", address, encoded(body), {"Content-Type": "application/json"}
        )


def document(fields: Settings) -> dict[str, Any]:
    """The JSON document of a message."""
    return without_empty({
        "chat_id": fields["chat_id"],
        "message_thread_id": fields["message_thread_id"],
        "text": shortened(fields["message"], MAX_TEXT),
        "parse_mode": fields["parse_mode"],
        "disable_notification": fields["disable_notifications"],
        "disable_web_page_preview": True,
    })  # fmt: skip


def check(response: HttpResponse) -> None:
    """Raise ReceiverError with the description and the waiting time that Telegram states."""
    document = response.document
    if response.status == 429 and isinstance(document, dict):
        seconds = (document.get("parameters") or {}).get("retry_after")
        wait = float(seconds) if isinstance(seconds, int | float) else None
        raise ReceiverError(f"Telegram answered 429: {document.get('description')}", True, 429, wait)
    checked(API, response)


def problem(settings: Settings) -> str | None:
    """Why the settings are incomplete."""
    return None if settings["chat_id"] else "chat_id is not set"


KIND = ReceiverKind(SCHEMA, Telegram, problem)
