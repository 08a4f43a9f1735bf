"""Readiness costs a write, so it is asked once a second however many want to know."""

from __future__ import annotations

import threading

from controlplane.api.readiness import FRESH_SECONDS, Readiness


def test_an_answer_is_shared_by_requests_within_a_second() -> None:
    now, answers = [100.0], iter([[], ["the disk is full"]])
    readiness = Readiness(lambda: next(answers), lambda: now[0])
    assert [readiness.problems() for _ in range(50)] == [[]] * 50
    now[0] += FRESH_SECONDS
    assert [readiness.problems() for _ in range(50)] == [["the disk is full"]] * 50


def test_while_one_asks_a_store_that_hangs_the_others_get_the_last_answer() -> None:
    now, gate, asking = [100.0], threading.Event(), threading.Event()

    def ask() -> list[str]:
        if now[0] > 100:
            asking.set()
            gate.wait(10)
        return [f"at {now[0]:.0f}"]

    readiness = Readiness(ask, lambda: now[0])
    assert readiness.problems() == ["at 100"]
    now[0] = 200.0
    slow = threading.Thread(target=readiness.problems)
    slow.start()
    assert asking.wait(10)
    assert readiness.problems() == ["at 100"]
    gate.set()
    slow.join(10)
    assert readiness.problems() == ["at 200"]
