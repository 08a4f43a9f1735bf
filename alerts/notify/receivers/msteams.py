"""Microsoft Teams receivers: workflows (adaptive cards), and the retired connectors (message cards)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from alerts.errors import ReceiverError
from alerts.notify.configuration.schema import Settings, boolean, template
from alerts.notify.http.client import HttpResponse
from alerts.notify.http.fields import http_config, secret_url
from alerts.notify.message import Message
from alerts.notify.receivers.base import IntegrationReceiver, ReceiverKind, shortened_bytes

#: A card has at most 28 KB; its frame and the title need the rest.
MAX_TEXT_BYTES, MAX_TITLE_BYTES = 20_000, 1_000
SCHEMA = {
    "send_resolved": boolean(True),
    "webhook_url": secret_url(required=True),
    "title": template('{{ template "msteamsv2.default.title" . }}'),
    "text": template('{{ template "msteamsv2.default.text" . }}'),
    "http_config": http_config(),
}
CONNECTOR_SCHEMA = {
    **SCHEMA,
    "title": template('{{ template "msteams.default.title" . }}'),
    "summary": template('{{ template "msteams.default.summary" . }}'),
    "text": template('{{ template "msteams.default.text" . }}'),
}


@dataclass(frozen=True, repr=False)
class TeamsWorkflow(IntegrationReceiver):
    """Posts an adaptive card to a workflow's URL."""

    def send(self, message: Message) -> None:
        """Post a card. Raises ReceiverError where Teams refuses it, also with status 200."""
        fields = self.integration.rendered(message)
        check(self.integration.http.send(fields["webhook_url"], adaptive_card(fields, bool(message.firing))))


@dataclass(frozen=True, repr=False)
class TeamsConnector(IntegrationReceiver):
    """Posts a message card to a connector's URL."""

    def send(self, message: Message) -> None:
        """Post a card. Raises ReceiverError where Teams refuses it, also with status 200."""
        fields = self.integration.rendered(message)
        check(self.integration.http.send(fields["webhook_url"], message_card(fields, bool(message.firing))))


def adaptive_card(fields: Settings, firing: bool) -> dict[str, Any]:
    """The document of a workflow."""
    title = {
        "type": "TextBlock",
        "text": shortened_bytes(fields["title"], MAX_TITLE_BYTES),
        "weight": "Bolder",
        "size": "Medium",
        "wrap": True,
        "style": "heading",
        "color": "Attention" if firing else "Good",
    }
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": [title, {"type": "TextBlock", "text": paragraphs(fields["text"]), "wrap": True}],
        "msteams": {"width": "full"},
    }
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "content": card}
    return {"type": "message", "attachments": [attachment]}


def message_card(fields: Settings, firing: bool) -> dict[str, Any]:
    """The document of a connector."""
    return {
        "@type": "MessageCard",
        "@context": "https://schema.org/extensions",
        "title": shortened_bytes(fields["title"], MAX_TITLE_BYTES),
        "summary": shortened_bytes(fields["summary"], MAX_TITLE_BYTES),
        "text": paragraphs(fields["text"]),
        "themeColor": "8C1A1A" if firing else "2DC72D",
    }


def paragraphs(text: str) -> str:
    """Teams' Markdown joins lines; each becomes a paragraph."""
    return shortened_bytes("\n\n".join(line for line in text.splitlines() if line.strip()), MAX_TEXT_BYTES)


def check(response: HttpResponse) -> None:
    """Raise ReceiverError where a connector reports a failure of Teams with status 200."""
    text = response.body.decode("utf-8", "replace")
    if "delivery failed" in text.lower():
        raise ReceiverError(f"Teams answered {text.strip()[:200]}", retryable="429" in text or "50" in text)


KIND = ReceiverKind(SCHEMA, TeamsWorkflow)
CONNECTOR_KIND = ReceiverKind(CONNECTOR_SCHEMA, TeamsConnector)
