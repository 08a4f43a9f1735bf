"""Receivers follow the configuration; totals stay."""

from __future__ import annotations

import time

import pytest

from alerts.notify.config import load
from controlplane.metrics.remote_write import sending
from controlplane.metrics.remote_write.service import RemoteWriteService
from tests.acceptance.live import eventually
from tests.unit.controlplane.metrics.remote_write.test_sending import UP, Receiver, receiver, sent


def test_samples_go_to_the_receivers_of_the_current_configuration() -> None:
    first, second = receiver(interval=0.05), receiver(interval=0.05)
    configured: list[tuple[Receiver, ...]] = [(first,)]
    service = RemoteWriteService(lambda: configured[0], lambda at: [UP], time.time)
    service.start()
    try:
        assert eventually(lambda: len(sent(first)) > 2)
        configured[0] = (second,)
        assert eventually(lambda: len(sent(second)) > 2)
        assert service.totals().sent >= len(sent(first))
    finally:
        service.stop()
    assert service.totals().sent > 4


def test_only_the_server_that_certainly_is_active_sends_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "FIRST_RETRY_SECONDS", 0.01)
    target, active = receiver(interval=0.05), [False]
    service = RemoteWriteService(lambda: (target,), lambda at: [UP], time.time, lambda: active[0])
    service.start()
    try:
        assert eventually(lambda: service.totals().pending > 2)
        assert sent(target) == []
        active[0] = True
        assert eventually(lambda: len(sent(target)) > 2)  # with those that waited
    finally:
        service.stop()


@pytest.mark.parametrize(
    ("element", "expected"),
    [
        ("{}", "url is not set"),
        ("{url: 'ftp://x'}", "url: a URL must begin with"),
        ("{url: 'http://x', interval: 10ms}", "remote_write: interval must be at least 1s"),
        ("{url: 'http://x', match: ['up[5m]']}", "match: 'up[5m]' is not a selector without a range"),
        ("{url: 'http://x', match: ['{']}", "remote_write: match: '{': "),
        ("{url: 'http://x', headers: {Content-Type: a}}", "headers: Content-Type cannot be set"),
        ("{url: 'http://x', write_relabel_configs: []}", "has no field 'write_relabel_configs'"),
    ],
)
def test_what_is_wrong_or_not_supported_is_an_error(element: str, expected: str) -> None:
    config, mistakes = load(f"remote_write: [{element}]")
    assert config is None
    assert any(expected in mistake.message for mistake in mistakes), mistakes
