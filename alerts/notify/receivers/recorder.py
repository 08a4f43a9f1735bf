"""In-memory receiver that can be made to fail, for tests and the demo."""

from __future__ import annotations

from dataclasses import dataclass, field

from alerts.errors import ReceiverError
from alerts.notify.message import Message


@dataclass
class Recorder:
    """Collects `messages`; raises each of `failures` once, in order, instead of accepting a message."""

    name: str = "recorder"
    sends_resolved: bool = True
    messages: list[Message] = field(default_factory=list)
    failures: list[ReceiverError] = field(default_factory=list)

    def send(self, message: Message) -> None:
        """Record the message, or raise the next failure."""
        if self.failures:
            raise self.failures.pop(0)
        self.messages.append(message)
