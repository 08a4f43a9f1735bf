"""The seam to whoever is told: one method, and the errors it may raise."""

from __future__ import annotations

from typing import Protocol

from alerts.notify.message import Message


class Receiver(Protocol):
    """Takes messages. The name is its own: several may stand behind the name that a route uses."""

    @property
    def name(self) -> str: ...

    @property
    def sends_resolved(self) -> bool:
        """Whether it wants to hear that alerts ended."""
        ...

    def send(self, message: Message) -> None:
        """Returns once the message is taken for good; blocks for seconds at most.

        ReceiverError says why it was not, and whether trying again may help. The same message may come
        twice (the server was ended between sending and noting it): it has the same group key then.
        """
        ...
