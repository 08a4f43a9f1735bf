"""The thread beside: in turn, the newest of each key, bounded."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from controlplane.checkpoints.coalescing_queue import CoalescingQueue


@pytest.fixture
def gate() -> threading.Event:
    return threading.Event()


@pytest.fixture
def queue(gate: threading.Event) -> Iterator[CoalescingQueue]:
    """A queue whose thread is held in a first job until the gate opens."""
    made, begun = CoalescingQueue("test-queue", 3, 100), threading.Event()
    made.start()

    def first() -> None:
        begun.set()
        gate.wait(10)

    made.put("first", first)
    assert begun.wait(5)
    yield made
    gate.set()
    made.stop()


def test_jobs_are_done_in_turn_and_of_one_key_the_newest_only(
    queue: CoalescingQueue, gate: threading.Event
) -> None:
    done: list[str] = []
    over = threading.Event()
    queue.put("a", lambda: done.append("a, old"))
    queue.put("b", lambda: done.append("b"))
    queue.put("a", lambda: done.append("a, new"))
    gate.set()
    queue.put("last", over.set)
    assert over.wait(5)
    assert done == ["b", "a, new"]


def test_what_does_not_fit_is_refused(queue: CoalescingQueue) -> None:
    assert [queue.put(key, lambda: None) for key in "abcd"] == [True, True, True, False]
    assert queue.put("a", lambda: None), "it takes the place of its elder"


def test_job_above_the_weight_limit_is_refused_and_weight_is_released(queue: CoalescingQueue) -> None:
    assert queue.put("a", lambda: None, 90)
    assert not queue.put("b", lambda: None, 20)
    assert queue.put("a", lambda: None, 10)
    assert queue.put("b", lambda: None, 90)


def test_a_job_that_fails_does_not_end_the_thread(queue: CoalescingQueue, gate: threading.Event) -> None:
    over = threading.Event()
    queue.put("a", list[int]().pop)
    queue.put("b", over.set)
    gate.set()
    assert over.wait(5)


def test_after_the_stop_nothing_is_taken(queue: CoalescingQueue, gate: threading.Event) -> None:
    gate.set()
    queue.stop()
    assert not queue.put("a", lambda: None)


def test_what_is_too_heavy_leaves_the_job_of_its_key_that_waits_already(
    queue: CoalescingQueue, gate: threading.Event
) -> None:
    done: list[str] = []
    over = threading.Event()
    assert queue.put("a", lambda: done.append("a"), 60)
    assert not queue.put("a", lambda: done.append("a, too heavy"), 101)
    assert not queue.put("b", lambda: done.append("b"), 50), "the first still weighs"
    queue.put("last", over.set)
    gate.set()
    assert over.wait(5)
    assert done == ["a"]
