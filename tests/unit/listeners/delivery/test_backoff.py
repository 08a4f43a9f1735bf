"""Backoff between requests."""

from listeners.delivery.backoff import Backoff


def test_delays_double_with_jitter_up_to_the_maximum():
    backoff = Backoff(1.0, 8.0)
    waits = [backoff.next() for _ in range(6)]
    assert all(low / 2 <= wait <= low for wait, low in zip(waits, [1, 2, 4, 8, 8, 8], strict=True))
    backoff.reset()
    assert backoff.next() <= 1.0


def test_retry_after_takes_precedence_with_jitter():
    waits = {Backoff(0.5).next(20.0) for _ in range(50)}
    assert all(20.0 < wait <= 25.0 for wait in waits) and max(waits) - min(waits) > 1.0


def test_retry_after_zero_is_not_a_busy_loop():
    assert all(Backoff(0.5).next(0.0) >= 0.25 for _ in range(50))
