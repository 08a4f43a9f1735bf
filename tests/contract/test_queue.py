"""The agent's queue in all its forms: in memory, on disk, and on disk that refuses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from listeners.delivery.memory_queue import MemoryQueue
from listeners.delivery.segments import Record
from listeners.delivery.spool import Queue, Spool

OWNER = {"app": "orders", "server": "http://localhost:8420"}


def records(first: int, count: int, size: int = 20) -> list[Record]:
    return [(seq, b"%d:" % seq + b"x" * size) for seq in range(first, first + count)]


def seqs(batch: list[Record]) -> list[int]:
    return [seq for seq, _ in batch]


def make(form: str, place: Path) -> Queue:
    if form == "memory":
        return MemoryQueue(max_events=300)
    if form == "refused":
        place.mkdir()
        (place / "file").write_text("")
        return Spool(place / "file" / "agent", OWNER)
    return Spool(place / "agent", OWNER, segment_bytes=400)


@pytest.fixture(params=["memory", "disk", "refused"])
def queue(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Queue]:
    made = make(request.param, tmp_path / "spool")
    yield made
    made.close()


def test_records_come_back_in_order_until_they_are_acknowledged(queue: Queue) -> None:
    queue.append(records(1, 5))
    assert seqs(queue.peek(3, 10_000)) == [1, 2, 3]
    assert seqs(queue.peek(3, 10_000)) == [1, 2, 3]
    queue.acknowledge(3)
    assert seqs(queue.peek(100, 10_000)) == [4, 5]
    assert queue.events == 2 and queue.high_seq == 5 and queue.lost == {}


def test_a_batch_is_bounded_in_events_and_bytes_but_never_empty(queue: Queue) -> None:
    queue.append(records(1, 3, size=1000))
    assert seqs(queue.peek(100, 1500)) == [1]
    assert seqs(queue.peek(100, 10)) == [1]
    assert seqs(queue.peek(2, 10_000)) == [1, 2]


def test_an_empty_queue_gives_nothing(queue: Queue) -> None:
    assert queue.peek(10, 1000) == [] and queue.events == 0 and queue.bytes == 0
    queue.append([])
    assert queue.peek(10, 1000) == []


def test_all_that_is_acknowledged_leaves_no_byte_waiting(queue: Queue) -> None:
    queue.append(records(1, 50))
    while batch := queue.peek(7, 1000):
        queue.acknowledge(batch[-1][0])
    assert queue.events == 0 and queue.bytes == 0 and queue.lost == {}


def test_losses_may_be_noted_and_a_closed_queue_takes_nothing(queue: Queue) -> None:
    queue.save_losses({"queue_full": 3})
    queue.save_losses({})
    queue.close()
    assert queue.peek(10, 1000) == []


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 8)),
        st.tuples(st.just("deliver"), st.integers(1, 12)),
        st.tuples(st.just("look"), st.integers(1, 12)),
    ),
    max_size=30,
)


@pytest.mark.parametrize("form", ["memory", "disk", "refused"])
@given(steps=STEPS)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_is_appended_is_delivered_once_and_in_order(
    form: str, tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    queue = make(form, tmp_path_factory.mktemp("queue") / "spool")
    delivered: list[int] = []
    for act, count in [*steps, ("deliver", 1000)]:
        if act == "append":
            queue.append(records(queue.high_seq + 1, count))
        elif (batch := queue.peek(count, 10_000_000)) and act == "deliver":
            delivered += seqs(batch)
            queue.acknowledge(batch[-1][0])
    queue.close()
    assert delivered == list(range(1, queue.high_seq + 1)) and queue.lost == {}


def test_a_full_disk_and_a_free_one_by_turns_change_no_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, delivered = Spool(tmp_path / "agent", OWNER, segment_bytes=300), []
    for turn in range(30):
        if turn % 4 == 1:
            monkeypatch.setattr(queue, "_write", refuse)
        queue.append(records(queue.high_seq + 1, 3))
        monkeypatch.undo()
        if turn % 3 == 2:
            batch = queue.peek(5, 10_000)
            delivered += seqs(batch)
            queue.acknowledge(batch[-1][0])
    while batch := queue.peek(5, 10_000):
        delivered += seqs(batch)
        queue.acknowledge(batch[-1][0])
    assert delivered == list(range(1, 91)) and queue.lost == {}
    queue.close()


def refuse(*args: object) -> None:
    raise OSError(28, "No space left on device")
