"""Receiver protocol: one method that sends a message."""

from __future__ import annotations

from typing import Protocol

from alerts.notify.message import Message


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
