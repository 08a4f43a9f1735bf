"""Threads that deliver groups: what becomes of a group where one of them cannot start, or fails."""

from __future__ import annotations

import threading

import pytest

from controlplane.alerting.delivery_workers import MAX_AT_ONCE, DeliveryWorkers
from tests.acceptance.live import eventually

NAMES = [(f"group {number}", "team") for number in range(MAX_AT_ONCE + 8)]


def test_at_most_so_many_groups_of_a_receiver_are_delivered_at_once_and_all_in_the_end() -> None:
    opened, at_once, most, done = threading.Event(), set[str](), [0], list[str]()

    def deliver(name: tuple[str, str]) -> None:
        at_once.add(name[0])
        most[0] = max(most[0], len(at_once))
        opened.wait(30)
        at_once.discard(name[0])
        done.append(name[0])

    workers = DeliveryWorkers(deliver, lambda: None, lambda: True)
    workers.add(NAMES)
    workers.add(NAMES)  # they are busy
    assert eventually(lambda: most[0] == MAX_AT_ONCE)
    opened.set()
    assert eventually(lambda: not workers.busy)
    assert sorted(done) == sorted(name for name, _ in NAMES)
    assert most[0] == MAX_AT_ONCE


def test_without_a_thread_the_groups_are_free_for_the_next_round(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[tuple[str, str]] = []
    workers, start = DeliveryWorkers(done.append, lambda: None, lambda: True), threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    workers.add(NAMES)
    assert workers.busy == frozenset()
    monkeypatch.setattr(threading.Thread, "start", start)
    workers.add(NAMES)
    assert eventually(lambda: sorted(done) == sorted(NAMES))


def test_a_delivery_that_fails_does_not_keep_others_back() -> None:
    done: list[tuple[str, str]] = []

    def deliver(name: tuple[str, str]) -> None:
        done.append(name)
        raise ValueError("broken")

    workers = DeliveryWorkers(deliver, lambda: None, lambda: True)
    for _ in range(2):
        workers.add(NAMES)
        assert eventually(lambda: not workers.busy)
    assert len(done) == 2 * len(NAMES)
