"""Events on to a server: in order, split where they are too large, waiting where it is away, never for ever."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from controlplane.lake.folders import LakeFolder
from controlplane.pipeline.ingest import forwarding
from controlplane.pipeline.ingest.forwarding import Forwarder, PendingEvent, ServerUnavailable
from listeners.delivery.transport import ServerAcknowledgement
from listeners.protocol.errors import TooLarge, TransportError


class Scripted:
    """Refuses as scripted, one entry a request, then takes everything."""

    def __init__(self, *refusals: TransportError, most: int = 10_000, rejected: int = 0):
        self.refusals, self.most, self.rejected = list(refusals), most, rejected
        self.requests: list[list[bytes]] = []

    def send(self, lines: Sequence[bytes], timeout: float) -> ServerAcknowledgement:
        if self.refusals:
            raise self.refusals.pop(0)
        if len(lines) > self.most:
            raise TooLarge("413")
        self.requests.append(list(lines))
        refused = [(number, "no room") for number in range(1, self.rejected + 1)]
        return ServerAcknowledgement(len(lines), self.rejected, "no room", refused)

    @property
    def taken(self) -> list[bytes]:
        return [line for request in self.requests for line in request]


class NoTime(threading.Event):
    """Waits for nothing, and keeps how long it would have been."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout or 0.0)
        return self.is_set()


def waiting(count: int, agent: str = "a", size: int = 10) -> list[PendingEvent]:
    return [PendingEvent(agent, seq, b"%010d" % seq + b"x" * (size - 10)) for seq in range(1, count + 1)]


def test_requests_are_of_a_thousand_events_at_most_and_in_order() -> None:
    sender, events = Scripted(), waiting(2500)
    assert Forwarder(sender, NoTime()).forward(events) == []
    assert [len(request) for request in sender.requests] == [1000, 1000, 500]
    assert sender.taken == [event.line for event in events]


def test_requests_are_of_four_mebibytes_at_most() -> None:
    sender = Scripted()
    Forwarder(sender, NoTime()).forward(waiting(9, size=1024 * 1024 - 10))
    assert [len(request) for request in sender.requests] == [4, 4, 1]


def test_nothing_is_sent_of_nothing() -> None:
    sender = Scripted()
    assert Forwarder(sender, NoTime()).forward([]) == [] and sender.requests == []


def test_what_is_too_large_is_halved_until_it_passes() -> None:
    sender, events = Scripted(most=3), waiting(10)
    assert Forwarder(sender, NoTime()).forward(events) == []
    assert sender.taken == [event.line for event in events]


def test_one_event_that_is_too_large_is_reported_and_spoils_no_neighbour() -> None:
    class Picky(Scripted):
        def send(self, lines: Sequence[bytes], timeout: float) -> ServerAcknowledgement:
            if any(line.startswith(b"0000000003") for line in lines):
                raise TooLarge("413: too large")
            return super().send(lines, timeout)

    sender = Picky()
    (refusal,) = Forwarder(sender, NoTime()).forward(waiting(5))
    assert "too large" in refusal.why and refusal.line == b"0000000003"
    assert len(sender.taken) == 4


def test_what_the_server_rejects_is_reported_and_not_sent_again() -> None:
    sender, events = Scripted(rejected=2), waiting(5)
    refused = Forwarder(sender, NoTime()).forward(events)
    assert refused == [("no room", events[0].line), ("no room", events[1].line)]
    assert len(sender.requests) == 1


def test_a_busy_server_is_given_the_time_that_it_asks_for() -> None:
    stopping = NoTime()
    sender = Scripted(TransportError("503", retry_after=7.0), TransportError("429", retry_after=3.0))
    Forwarder(sender, stopping).forward(waiting(2))
    assert stopping.waits[0] >= 7.0 and stopping.waits[1] >= 3.0 and len(sender.taken) == 2


def test_a_server_that_stays_away_fails_the_batch_in_the_end() -> None:
    now = [0.0]

    class Clocked(NoTime):
        def wait(self, timeout: float | None = None) -> bool:
            now[0] += timeout or 0.0
            return False

    sender = Scripted(*[TransportError("nobody at home")] * 100)
    printed: list[str] = []
    with pytest.raises(ServerUnavailable, match="nobody at home"):
        Forwarder(sender, Clocked(), 60.0, lambda: now[0], printed.append).forward(waiting(1))
    assert 15.0 < now[0] <= 60.0
    assert printed == ["the server accepts no events; retrying for 60 s: nobody at home"]


def test_a_refusal_that_time_does_not_mend_fails_the_batch_at_once() -> None:
    sender = Scripted(TransportError("400 from a proxy", retryable=False))
    with pytest.raises(ServerUnavailable, match="proxy"):
        Forwarder(sender, NoTime()).forward(waiting(1))


def test_who_is_reported_to_stop_waits_no_more() -> None:
    stopping = NoTime()
    stopping.set()
    sender = Scripted(TransportError("503"), TransportError("503"))
    with pytest.raises(ServerUnavailable):
        Forwarder(sender, stopping).forward(waiting(1))
    assert len(sender.refusals) == 1


def test_outboxes_of_many_executors_come_together_in_each_agents_order() -> None:
    folder = LakeFolder("memory://forwarding")
    item, other = waiting(1201, "a"), waiting(3, "b")
    forwarding.write_outbox(folder, "s/1", [*item[::2], *other[:1]][::-1])
    forwarding.write_outbox(folder, "s/2", [*other[1:], *item[1::2]])
    assert list(forwarding.read_outboxes(folder, ["s/1", "s/2"])) == [*item, *other]
