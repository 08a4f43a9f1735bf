"""A receiver that keeps messages in memory and can be told to fail: for tests and the demo."""

from __future__ import annotations

from dataclasses import dataclass, field

from alerts.errors import ReceiverError
from alerts.notify.message import Message


@dataclass
class Recorder:
    """`messages` as they came; each of `failures` is raised once instead, in order."""

    name: str = "recorder"
    sends_resolved: bool = True
    messages: list[Message] = field(default_factory=list)
    failures: list[ReceiverError] = field(default_factory=list)

    def send(self, message: Message) -> None:
        if self.failures:
            raise self.failures.pop(0)
        self.messages.append(message)
