"""A property is computed once for an object, and the computation for another object does not wait."""

from __future__ import annotations

import threading

from controlplane.cached_properties import cached_property

WAIT_SECONDS = 60.0


class Slow:
    """An object whose property is computed when `may_end` is set."""

    def __init__(self, may_end: threading.Event):
        self.begun, self._may_end, self.times = threading.Event(), may_end, 0

    @cached_property
    def value(self) -> int:
        """How often it was computed."""
        self.times += 1
        self.begun.set()
        self._may_end.wait(WAIT_SECONDS)
        return self.times


def test_an_object_does_not_wait_for_the_computation_of_another() -> None:
    over = threading.Event()
    over.set()
    held, free = Slow(threading.Event()), Slow(over)
    other = threading.Thread(target=lambda: held.value)
    other.start()
    assert held.begun.wait(WAIT_SECONDS)
    assert free.value == 1 and "value" not in vars(held)
    held._may_end.set()
    other.join()
    assert (held.value, free.value, held.times) == (1, 1, 1)
    assert Slow.value.__doc__ == "How often it was computed."
