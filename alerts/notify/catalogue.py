"""Build receivers from their configuration, by kind.

`read` returns the content of a secret file that the configuration names; it is called whenever receivers are
built, so a changed secret takes effect with a reload.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from alerts.notify.config import Config, ReceiverConfig, WebhookConfig
from alerts.notify.receivers.base import Receiver
from alerts.notify.receivers.webhook import Webhook, address_problem

Read = Callable[[str], str]
Receivers = Mapping[str, tuple[Receiver, ...]]


def build(config: Config, read: Read) -> dict[str, tuple[Receiver, ...]]:
    """The receivers by configured name. Raises ValueError for an unusable secret.

    Errors of `read` (OSError) pass through.
    """
    return {name: _built(receiver, read) for name, receiver in config.receivers.items()}


def _built(receiver: ReceiverConfig, read: Read) -> tuple[Receiver, ...]:
    hooks = enumerate(receiver.webhooks)
    return tuple(_webhook(f"{receiver.name}/webhook[{number}]", hook, read) for number, hook in hooks)


def _webhook(name: str, given: WebhookConfig, read: Read) -> Webhook:
    url = given.url or read(given.url_file).strip()
    if problem := address_problem(url):
        raise ValueError(f"{given.url_file or name}: {problem}")
    token = given.token or (read(given.token_file).strip() if given.token_file else "")
    if any(not " " < char <= "~" for char in token):
        raise ValueError(f"{given.token_file or name}: only printable ASCII can be sent in a header")
    return Webhook(
        name=name,
        url=url,
        sends_resolved=given.send_resolved,
        max_alerts=given.max_alerts,
        timeout=given.timeout,
        headers={"Authorization": f"Bearer {token}"} if token else None,
    )
