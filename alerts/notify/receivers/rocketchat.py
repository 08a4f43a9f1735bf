"""Rocket.Chat receiver: `chat.postMessage` with a personal access token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from alerts.errors import ReceiverError
from alerts.notify.configuration.schema import Settings, boolean, mappings, secret, template
from alerts.notify.http.client import HttpResponse
from alerts.notify.http.fields import header_problem, http_config, url
from alerts.notify.message import Message
from alerts.notify.receivers.base import IntegrationReceiver, ReceiverKind, shortened, without_empty

API = "https://open.rocket.chat/"
MAX_TITLE, MAX_TEXT = 1024, 5000
_FIELD = {"title": template(), "value": template(), "short": boolean(None)}
_ACTION = {"type": template(), "text": template(), "url": template(), "msg": template()}
SCHEMA = {
    "send_resolved": boolean(True),
    "api_url": url(inherits="rocketchat_api_url"),
    "token": secret(inherits="rocketchat_token", required=True, problem=header_problem),
    "token_id": secret(inherits="rocketchat_token_id", required=True, problem=header_problem),
    "channel": template(),
    "color": template('{{ if eq .Status "firing" }}red{{ else }}green{{ end }}'),
    "title": template('{{ template "rocketchat.default.title" . }}'),
    "title_link": template('{{ template "rocketchat.default.titlelink" . }}'),
    "text": template('{{ template "rocketchat.default.text" . }}'),
    "fields": mappings(_FIELD),
    "short_fields": boolean(),
    "emoji": template('{{ template "rocketchat.default.emoji" . }}'),
    "icon_url": template('{{ template "rocketchat.default.iconurl" . }}'),
    "image_url": template(),
    "thumb_url": template(),
    "link_names": boolean(),
    "actions": mappings(_ACTION),
    "http_config": http_config(),
}


@dataclass(frozen=True, repr=False)
class RocketChat(IntegrationReceiver):
    """Posts an attachment to a channel."""

    def send(self, message: Message) -> None:
        """Post a message. Raises ReceiverError where Rocket.Chat refuses it, also with status 200."""
        fields = self.integration.rendered(message)
        address = f"{(fields['api_url'] or API).rstrip('/')}/api/v1/chat.postMessage"
        headers = {"X-Auth-Token": fields["token"], "X-User-Id": fields["token_id"]}
        check(self.integration.http.send(address, document(fields), headers))


def document(fields: Settings) -> dict[str, Any]:
    """The JSON document of a message."""
    short = fields["short_fields"]
    attachment = {
        "color": fields["color"],
        "title": shortened(fields["title"], MAX_TITLE),
        "title_link": fields["title_link"],
        "text": shortened(fields["text"], MAX_TEXT),
        "image_url": fields["image_url"],
        "thumb_url": fields["thumb_url"],
        "fields": [
            {**item, "short": short if item["short"] is None else item["short"]} for item in fields["fields"]
        ],
        "actions": [without_empty({**action, "type": "button"}) for action in fields["actions"]],
    }
    return without_empty({
        "channel": fields["channel"],
        "emoji": fields["emoji"],
        "avatar": fields["icon_url"],
        "parseUrls": fields["link_names"] or None,
        "attachments": [without_empty(attachment)],
    })  # fmt: skip


def check(response: HttpResponse) -> None:
    """Raise ReceiverError where the API reports an error with status 200."""
    document = response.document
    if isinstance(document, dict) and document.get("success") is False:
        raise ReceiverError(
            f"Rocket.Chat answered {str(document.get('error'))[:200]}", False, response.status
        )


KIND = ReceiverKind(SCHEMA, RocketChat)
