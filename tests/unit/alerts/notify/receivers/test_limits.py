"""A receiver that fails is left alone for as long as it asks."""

from __future__ import annotations

import pytest

from alerts.errors import ReceiverError
from alerts.notify.message import Message
from alerts.notify.receivers.limits import LimitedReceiver
from alerts.notify.receivers.recorder import Recorder
from tests.unit.alerts.notify.messages import message


class ManualClock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def attempt(receiver: LimitedReceiver) -> ReceiverError | None:
    try:
        receiver.send(message())
    except ReceiverError as error:
        return error
    return None


def test_a_stated_wait_is_kept_for_all_messages() -> None:
    clock, inner = ManualClock(), Recorder(failures=[ReceiverError("limited", True, 429, 30.0)])
    limited = LimitedReceiver(inner, clock)
    assert attempt(limited) is not None
    clock.now += 29
    refused = attempt(limited)
    assert refused is not None and refused.retryable
    assert refused.retry_after == pytest.approx(1.0)
    assert "limited" in str(refused)
    clock.now += 1
    assert attempt(limited) is None
    assert len(inner.messages) == 1


def test_a_host_that_does_not_answer_is_tried_less_and_less_often() -> None:
    clock, pauses = ManualClock(), []
    limited = LimitedReceiver(Recorder(failures=[ReceiverError("away", True)] * 9), clock)
    for _ in range(8):
        assert attempt(limited) is not None
        refused = attempt(limited)
        assert refused is not None and refused.retry_after is not None
        pauses.append(refused.retry_after)
        clock.now += refused.retry_after
    assert pauses == pytest.approx([2, 4, 8, 16, 32, 60, 60, 60])


def test_messages_that_fail_together_are_one_failure() -> None:
    clock = ManualClock()

    class Away(Recorder):
        """It fails; the first message finds that others, sent at the same time, have failed."""

        def send(self, message: Message) -> None:
            if len(depth) < 5:
                depth.append(1)
                attempt(limited)
            clock.now += 0.01
            raise ReceiverError("away", True)

    depth: list[int] = []
    limited = LimitedReceiver(Away(), clock)
    assert attempt(limited) is not None
    refused = attempt(limited)
    assert refused is not None and refused.retry_after == pytest.approx(2.0)


@pytest.mark.parametrize("error", [ReceiverError("bad", False, 400), ReceiverError("broken", True, 500)])
def test_an_answer_about_one_message_does_not_delay_others(error: ReceiverError) -> None:
    inner = Recorder(failures=[error])
    limited = LimitedReceiver(inner, ManualClock())
    assert attempt(limited) is error
    assert attempt(limited) is None


def test_name_and_wish_for_ends_are_those_of_the_receiver() -> None:
    limited = LimitedReceiver(Recorder("hook", sends_resolved=False))
    assert (limited.name, limited.sends_resolved) == ("hook", False)
