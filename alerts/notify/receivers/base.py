"""Receiver protocol, and what the kinds of receivers share: their settings, filled in for each message, and limits."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from alerts.notify.configuration.schema import TEMPLATED, Schema, Settings
from alerts.notify.http.client import HttpClient
from alerts.notify.message import Message
from alerts.notify.template_data import template_data
from alerts.templates.library import TemplateLibrary


class Receiver(Protocol):
    """Sends messages. `name` is unique: a route's receiver name may stand for several receivers."""

    @property
    def name(self) -> str: ...

    @property
    def sends_resolved(self) -> bool:
        """Whether it is notified of resolved alerts."""
        ...

    def send(self, message: Message) -> None:
        """Deliver a message; blocks for seconds at most. Raises ReceiverError where delivery failed.

        The same message may be sent twice, with the same group key, where the server ended between sending
        and recording it.
        """
        ...


@dataclass(frozen=True, repr=False)
class Integration:
    """Parts of a receiver: name, settings by `schema` with secrets resolved, HTTP client and templates."""

    name: str
    schema: Schema
    settings: Settings
    http: HttpClient
    library: TemplateLibrary

    @property
    def sends_resolved(self) -> bool:
        return bool(self.settings["send_resolved"])

    def rendered(self, message: Message, as_html: bool = False) -> Settings:
        """The settings with their templates filled in."""
        data = template_data(message)
        return {
            name: self._filled(value, data, as_html) if self.schema[name].type in TEMPLATED else value
            for name, value in self.settings.items()
        }

    def render(self, text: str, message: Message, as_html: bool = False) -> str:
        """One text filled in."""
        return self.library.render(text, template_data(message), as_html)

    def _filled(self, value: Any, data: Mapping[str, Any], as_html: bool) -> Any:
        if isinstance(value, str):
            return self.library.render(value, data, as_html)
        if isinstance(value, Mapping):
            return {name: self._filled(element, data, as_html) for name, element in value.items()}
        if isinstance(value, list | tuple):
            return [self._filled(element, data, as_html) for element in value]
        return value


@dataclass(frozen=True, repr=False)
class IntegrationReceiver:
    """Base of the receivers that a schema describes."""

    integration: Integration

    @property
    def name(self) -> str:
        return self.integration.name

    @property
    def sends_resolved(self) -> bool:
        return self.integration.sends_resolved

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


@dataclass(frozen=True)
class ReceiverKind:
    """A kind of receiver: its fields, how it is built, and why its settings are incomplete (None: they are not)."""

    schema: Schema
    build: Callable[[Integration], Receiver]
    problem: Callable[[Settings], str | None] = lambda settings: None


def dedup_key(message: Message) -> str:
    """Alertmanager's identity of a group in services that deduplicate: SHA-256 of the group key."""
    return hashlib.sha256(message.group_key.encode(errors="replace")).hexdigest()


def shortened(text: str, limit: int) -> str:
    """At most `limit` characters, with an ellipsis where text is cut."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def shortened_bytes(text: str, limit: int) -> str:
    """At most `limit` bytes of UTF-8, with an ellipsis where text is cut."""
    encoded = text.encode(errors="replace")
    return text if len(encoded) <= limit else encoded[: limit - 3].decode(errors="ignore") + "…"


def without_empty(document: Mapping[str, Any]) -> dict[str, Any]:
    """The entries that are not empty; False and 0 stay."""
    return {name: value for name, value in document.items() if value not in (None, "", [], {}, ())}
