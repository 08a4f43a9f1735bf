"""Apprise receiver: more than a hundred other services by URL, through the optional package `apprise`.

Only the server's operator writes the configuration, so a URL may name any service that apprise knows.
"""

from __future__ import annotations

from dataclasses import dataclass

from alerts.errors import ReceiverError
from alerts.notify.configuration.schema import boolean, secret, template
from alerts.notify.message import Message
from alerts.notify.receivers.base import Integration, IntegrationReceiver, ReceiverKind

SCHEMA = {
    "send_resolved": boolean(True),
    "url": secret(required=True),
    "title": template('{{ template "__subject" . }}'),
    "message": template('{{ template "__text" . }}'),
}


@dataclass(frozen=True, repr=False)
class Apprise(IntegrationReceiver):
    """Sends a message to a service by its apprise URL."""

    def send(self, message: Message) -> None:
        """Send a message. Raises ReceiverError; apprise does not state why a service refused it."""
        import apprise

        fields = self.integration.rendered(message)
        service = apprise.Apprise()
        service.add(fields["url"])
        kind = apprise.NotifyType.FAILURE if message.firing else apprise.NotifyType.SUCCESS
        if not service.notify(
            body=fields["message"] or fields["title"], title=fields["title"], notify_type=kind
        ):
            raise ReceiverError(
                "apprise could not deliver the message; the server's log has its reason", True
            )


def build(integration: Integration) -> Apprise:
    """The receiver. Raises ValueError where the package is missing or does not know the URL."""
    try:
        import apprise
    except ImportError:
        raise ValueError(f"{integration.name}: apprise is not installed: pip install apprise") from None
    if not apprise.Apprise().add(integration.settings["url"]):
        raise ValueError(f"{integration.name}: apprise does not know this URL")
    return Apprise(integration)


KIND = ReceiverKind(SCHEMA, build)
