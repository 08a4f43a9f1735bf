"""Waits between tries."""

from listeners.backoff import Backoff


def test_waits_double_with_jitter_up_to_the_most_and_obey_the_server():
    backoff = Backoff(1.0, 8.0)
    waits = [backoff.next() for _ in range(6)]
    assert all(low / 2 <= wait <= low for wait, low in zip(waits, [1, 2, 4, 8, 8, 8], strict=True))
    assert backoff.next(3.0) == 3.0
    backoff.reset()
    assert backoff.next() <= 1.0
