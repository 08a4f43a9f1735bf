"""Pushover receiver: a notification to a user's devices."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode

from alerts.notify.configuration.schema import Settings, boolean, duration, secret, template
from alerts.notify.http.client import checked
from alerts.notify.http.fields import http_config
from alerts.notify.message import Message
from alerts.notify.receivers.base import IntegrationReceiver, ReceiverKind, shortened, without_empty

API = "https://api.pushover.net/1/messages.json"
MAX_TITLE, MAX_MESSAGE, MAX_URL = 250, 1024, 512
MIN_RETRY_SECONDS, MAX_EXPIRE_SECONDS = 30.0, 10_800.0
SCHEMA = {
    "send_resolved": boolean(True),
    "user_key": secret(required=True),
    "token": secret(required=True),
    "title": template('{{ template "pushover.default.title" . }}'),
    "message": template('{{ template "pushover.default.message" . }}'),
    "url": template('{{ template "pushover.default.url" . }}'),
    "url_title": template(),
    "device": template(),
    "sound": template(),
    "priority": template('{{ if eq .Status "firing" }}2{{ else }}0{{ end }}'),
    "retry": duration(60.0),
    "expire": duration(3600.0),
    "ttl": duration(),
    "html": boolean(),
    "monospace": boolean(),
    "http_config": http_config(),
}


@dataclass(frozen=True, repr=False)
class Pushover(IntegrationReceiver):
    """Sends a notification."""

    #: Where the API is; tests serve their own.
    api: str = API

    def send(self, message: Message) -> None:
        """Send a notification. Raises ReceiverError where Pushover refuses it."""
        fields = self.integration.rendered(message, as_html=self.integration.settings["html"])
        body = urlencode(form(fields)).encode()
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        checked(self.api, self.integration.http.request("POST", self.api, body, kind))


def form(fields: Settings) -> dict[str, str]:
    """The form of a notification; an emergency (priority 2) repeats until it is acknowledged or expires."""
    emergency = {
        "retry": f"{max(fields['retry'], MIN_RETRY_SECONDS):.0f}",
        "expire": f"{min(fields['expire'], MAX_EXPIRE_SECONDS):.0f}",
    }
    return without_empty({
        "token": fields["token"],
        "user": fields["user_key"],
        "title": shortened(fields["title"], MAX_TITLE),
        "message": shortened(fields["message"].strip(), MAX_MESSAGE) or "(no details)",
        "url": fields["url"] if len(fields["url"]) <= MAX_URL else "",
        "url_title": fields["url_title"],
        "device": fields["device"],
        "sound": fields["sound"],
        "priority": fields["priority"],
        **(emergency if fields["priority"].strip() == "2" else {}),
        "ttl": f"{fields['ttl']:.0f}" if fields["ttl"] else "",
        "html": "1" if fields["html"] else "",
        "monospace": "1" if fields["monospace"] else "",
    })  # fmt: skip


def problem(settings: Settings) -> str | None:
    """Why the settings contradict each other."""
    return "html and monospace exclude each other" if settings["html"] and settings["monospace"] else None


KIND = ReceiverKind(SCHEMA, Pushover, problem)
