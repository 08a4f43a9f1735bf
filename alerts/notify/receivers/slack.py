"""Slack receiver: incoming webhooks, and `chat.postMessage` with a bot token."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from alerts.errors import ReceiverError
from alerts.notify.configuration.schema import (
    Settings,
    boolean,
    duration,
    mapping,
    mappings,
    required,
    secret,
    template,
    texts,
)
from alerts.notify.http.client import HttpResponse
from alerts.notify.http.fields import header_problem, http_config, secret_url, url
from alerts.notify.message import Message
from alerts.notify.receivers.base import IntegrationReceiver, ReceiverKind, shortened, without_empty

POST_MESSAGE = "https://slack.com/api/chat.postMessage"
MAX_TITLE, MAX_TEXT = 1024, 39_000
#: Groups whose first message is remembered.
MAX_POSTED = 10_000
#: Errors of the Web API, which answers 200, that pass by themselves.
RETRYABLE_ERRORS = frozenset(
    "ratelimited rate_limited fatal_error internal_error request_timeout service_unavailable".split()
)
_FIELD = {"title": required(template()), "value": required(template()), "short": boolean(None)}
_CONFIRM = {"text": template(), "title": template(), "ok_text": template(), "dismiss_text": template()}
_ACTION = {
    "type": required(template()),
    "text": required(template()),
    "url": template(),
    "style": template(),
    "name": template(),
    "value": template(),
    "confirm": mapping(_CONFIRM),
}
SCHEMA = {
    "send_resolved": boolean(False),
    "api_url": secret_url(inherits="slack_api_url", unless="app_token"),
    "app_token": secret(inherits="slack_app_token", unless="api_url", problem=header_problem),
    "app_url": url(inherits="slack_app_url"),
    "channel": template(),
    "username": template('{{ template "slack.default.username" . }}'),
    "color": template('{{ if eq .Status "firing" }}danger{{ else }}good{{ end }}'),
    "title": template('{{ template "slack.default.title" . }}'),
    "title_link": template('{{ template "slack.default.titlelink" . }}'),
    "pretext": template('{{ template "slack.default.pretext" . }}'),
    "text": template('{{ template "slack.default.text" . }}'),
    "message_text": template(),
    "fields": mappings(_FIELD),
    "short_fields": boolean(),
    "footer": template('{{ template "slack.default.footer" . }}'),
    "fallback": template('{{ template "slack.default.fallback" . }}'),
    "callback_id": template('{{ template "slack.default.callbackid" . }}'),
    "icon_emoji": template('{{ template "slack.default.iconemoji" . }}'),
    "icon_url": template('{{ template "slack.default.iconurl" . }}'),
    "image_url": template(),
    "thumb_url": template(),
    "link_names": boolean(),
    "mrkdwn_in": texts("fallback", "pretext", "text"),
    "actions": mappings(_ACTION),
    "update_message": boolean(),
    "thread_replies": boolean(),
    "timeout": duration(),
    "http_config": http_config(),
}
_COPIED = "title_link pretext fallback callback_id image_url thumb_url footer color".split()


@dataclass(frozen=True, repr=False)
class Slack(IntegrationReceiver):
    """Posts an attachment to a channel.

    With a bot token, later messages of a group can replace the first one or follow it in its thread. `posted`: channel
    and timestamp of each group's first message, until all its alerts are resolved or the server restarts.
    """

    posted: dict[str, tuple[str, str]] = field(default_factory=dict)

    def send(self, message: Message) -> None:
        """Post a message. Raises ReceiverError where Slack refuses it, also with status 200."""
        fields, http = self.integration.rendered(message), self.integration.http
        client = http.with_timeout(fields["timeout"]) if fields["timeout"] else http
        headers, address = {}, fields["api_url"]
        if fields["app_token"]:
            address = fields["app_url"] or POST_MESSAGE
            if "Authorization" not in http.headers:
                headers = {"Authorization": f"Bearer {fields['app_token']}"}
        body, address = self._placed(fields, document(fields), address, message.group_key)
        answer = check_ok(client.send(address, body, headers))
        self._remember(message, fields, answer)

    def _placed(
        self, fields: Settings, body: dict[str, Any], address: str, group: str
    ) -> tuple[dict[str, Any], str]:
        """The document that replaces or follows the group's first message, and where it is posted."""
        if group not in self.posted:
            return body, address
        channel, timestamp = self.posted[group]
        if fields["update_message"]:
            return {**body, "channel": channel, "ts": timestamp}, address.replace(
                "chat.postMessage", "chat.update"
            )
        return {**body, "channel": channel, "thread_ts": timestamp}, address

    def _remember(self, message: Message, fields: Settings, answer: Any) -> None:
        if not message.firing:
            self.posted.pop(message.group_key, None)
            return
        wanted = fields["update_message"] or fields["thread_replies"]
        if wanted and isinstance(answer, dict) and answer.get("ts") and len(self.posted) < MAX_POSTED:
            known = str(answer.get("channel") or fields["channel"]), str(answer["ts"])
            self.posted.setdefault(message.group_key, known)


def document(fields: Settings) -> dict[str, Any]:
    """The JSON document of a message."""
    attachment = {
        **{name: fields[name] for name in _COPIED},
        "title": shortened(fields["title"], MAX_TITLE),
        "text": shortened(fields["text"], MAX_TEXT),
        "mrkdwn_in": list(fields["mrkdwn_in"]),
        "fields": [_field(item, fields["short_fields"]) for item in fields["fields"]],
        "actions": [without_empty(item) for item in fields["actions"]],
    }
    return without_empty({
        "channel": fields["channel"],
        "username": fields["username"],
        "icon_emoji": fields["icon_emoji"],
        "icon_url": fields["icon_url"],
        "link_names": fields["link_names"] or None,
        "text": fields["message_text"],
        "attachments": [without_empty(attachment)],
    })  # fmt: skip


def _field(item: Settings, short: bool) -> dict[str, Any]:
    return {
        "title": item["title"],
        "value": item["value"],
        "short": short if item["short"] is None else item["short"],
    }


def check_ok(response: HttpResponse) -> Any:
    """The answer's document. Raises ReceiverError where the Web API reports an error with status 200."""
    document = response.document
    if isinstance(document, dict) and document.get("ok") is False:
        error = str(document.get("error"))[:200]
        raise ReceiverError(f"Slack answered {error}", error in RETRYABLE_ERRORS, response.status)
    return document


def problem(settings: Settings) -> str | None:
    """Why the settings are incomplete."""
    if (settings["update_message"] or settings["thread_replies"]) and not settings["app_token"]:
        return "update_message and thread_replies need app_token: a webhook does not return the message's timestamp"
    if settings["api_url"] or settings["app_token"]:
        return None
    return "api_url is not set, neither here nor in global (slack_api_url)"


KIND = ReceiverKind(SCHEMA, Slack, problem)
