"""What every receiver must do: one suite, all its forms."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler

import pytest

from alerts.errors import ReceiverError
from alerts.notify.receivers.base import Receiver
from alerts.notify.receivers.recorder import Recorder
from tests.unit.alerts.notify.receivers.test_webhook import A, B, answering, message, status, webhook


@dataclass
class Form:
    """A receiver, how it can be made to refuse the next message, and how many it has taken."""

    receiver: Receiver
    refuse: Callable[[bool], None]
    taken: Callable[[], int]


@dataclass
class _Hook:
    refusals: list[int] = field(default_factory=list)
    taken: int = 0

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        code = self.refusals.pop(0) if self.refusals else 200
        self.taken += code == 200
        status(code)(handler)


@pytest.fixture(params=["recorder", "webhook"])
def form(request: pytest.FixtureRequest) -> Iterator[Form]:
    with ExitStack() as stack:
        if request.param == "recorder":
            recorder = Recorder("hook")
            yield Form(
                recorder,
                lambda again: recorder.failures.append(ReceiverError("refused", again)),
                lambda: len(recorder.messages),
            )
            return
        hook = _Hook()
        url, _ = stack.enter_context(answering(hook.answer))
        receiver = webhook(url)
        yield Form(receiver, lambda again: hook.refusals.append(503 if again else 400), lambda: hook.taken)


def test_a_receiver_has_a_name_and_takes_messages_in_their_order(form: Form) -> None:
    assert form.receiver.name == "hook"
    assert form.receiver.sends_resolved
    form.receiver.send(message(A))
    form.receiver.send(message(B))
    assert form.taken() == 2


@pytest.mark.parametrize("again", [True, False])
def test_a_refusal_is_an_error_that_has_whether_a_retry_may_help(form: Form, again: bool) -> None:
    form.refuse(again)
    with pytest.raises(ReceiverError) as caught:
        form.receiver.send(message(A))
    assert caught.value.retryable is again
    assert form.taken() == 0


def test_after_a_refusal_the_same_message_can_be_sent_again(form: Form) -> None:
    form.refuse(True)
    with pytest.raises(ReceiverError):
        form.receiver.send(message(A))
    form.receiver.send(message(A))
    assert form.taken() == 1
