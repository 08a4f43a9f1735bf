"""What waits is stored together; each sender learns of its own events only."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from controlplane.errors import StoreUnavailable
from controlplane.events.parsing import parse
from controlplane.ingest import write_batcher
from controlplane.ingest.deduplication import PreparedEvent
from controlplane.ingest.write_batcher import WriteBatcher, result_of
from controlplane.store import blobs
from listeners.protocol import wire
from tests.drivers import Driver
from tests.stores import StoreHarness, sqlite_harness


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[StoreHarness]:
    with sqlite_harness(tmp_path) as opened:
        yield opened


def prepared(event: wire.Event) -> PreparedEvent:
    return PreparedEvent(1, parse(event), None, 0, blobs.Packer().pack(blobs.pack_json(event.data)))


def started(query_id: str) -> PreparedEvent:
    return prepared(Driver().event("started", {"id": query_id, "runId": f"run of {query_id}", "name": None}))


def test_chunks_that_wait_are_one_submission(harness: StoreHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    real = write_batcher.store

    def counted(connection: Any, chunk: Any, *times: float) -> Any:
        sizes.append(len(chunk))
        return real(connection, chunk, *times)

    monkeypatch.setattr(write_batcher, "store", counted)
    gate = threading.Event()
    harness.writer.submit(lambda connection: gate.wait(10))
    heap = WriteBatcher(harness.writer, harness.window.apply)
    twice = started("q0")
    futures = [heap.put([replace(twice), started(f"q{n}")], 1.0) for n in range(1, 5)]
    assert heap.waiting == 8
    gate.set()
    shares = [result_of(future) for future in futures]
    assert sizes == [8]
    assert heap.waiting == 0
    assert sum(len(share.fresh) for share in shares) == 5  # q0 four times, stored once
    assert [share.duplicates for share in shares] == [0, 1, 1, 1]


def test_what_is_too_much_for_one_submission_is_stored_by_the_next(
    harness: StoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_batcher, "MAX_BATCH_EVENTS", 3)
    gate = threading.Event()
    harness.writer.submit(lambda connection: gate.wait(10))
    heap = WriteBatcher(harness.writer, harness.window.apply)
    futures = [heap.put([started(f"q{n}"), started(f"p{n}")], 1.0) for n in range(7)]
    gate.set()
    assert all(len(result_of(future).fresh) == 2 for future in futures)


def test_the_chunks_of_one_app_do_not_delay_those_of_another(
    harness: StoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_batcher, "MAX_BATCH_EVENTS", 2)
    stored: list[list[str]] = []
    real = write_batcher.store

    def noted(connection: Any, chunk: Any, *times: float) -> Any:
        stored.append([event.parsed.event.app.name for event in chunk])
        return real(connection, chunk, *times)

    monkeypatch.setattr(write_batcher, "store", noted)
    gate = threading.Event()
    harness.writer.submit(lambda connection: gate.wait(10))
    batcher, flood = WriteBatcher(harness.writer, harness.window.apply), Driver(app="flood")
    futures = [batcher.put([prepared(flood.event("heartbeat", {}))], 1.0) for _ in range(6)]
    futures.append(batcher.put([prepared(Driver(app="calm").event("heartbeat", {}))], 1.0))
    gate.set()
    assert [len(result_of(future).fresh) for future in futures] == [1] * 7
    assert stored[0] == ["flood", "calm"]
    assert sorted(map(len, stored)) == [1, 2, 2, 2]


def test_the_events_of_a_busy_app_are_committed_apart(
    harness: StoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_batcher, "BUSY_APP_EVENTS", 20)
    monkeypatch.setattr(write_batcher, "COUNT_SECONDS", 1_000.0)
    harness.writer.pace_seconds = 1_000.0
    batcher, flood = WriteBatcher(harness.writer, harness.window.apply), Driver(app="flood")

    def chunk(driver: Driver, events: int) -> list[PreparedEvent]:
        return [prepared(driver.event("heartbeat", {})) for _ in range(events)]

    result_of(batcher.put(chunk(flood, 30), 1.0))
    held = batcher.put(chunk(flood, 1), 1.0)
    result_of(batcher.put(chunk(Driver(app="calm"), 1), 1.0))  # the pace of the flood is not that of others
    assert not held.done()
    assert batcher._seconds_of(batcher._busy) == write_batcher.BUSY_APP_SECONDS
    harness.writer.stop()
    assert len(result_of(held).fresh) == 1


def test_a_slow_store_gets_smaller_submissions(
    harness: StoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    real = write_batcher.store

    def slow(connection: Any, chunk: Any, *times: float) -> Any:
        sizes.append(len(chunk))
        threading.Event().wait(0.15)  # longer than BATCH_SECONDS, even for one event
        return real(connection, chunk, *times)

    monkeypatch.setattr(write_batcher, "store", slow)
    gate = threading.Event()
    batcher = WriteBatcher(harness.writer, harness.window.apply)
    result_of(batcher.put([started("first")], 1.0))
    harness.writer.submit(lambda connection: gate.wait(10))
    futures = [batcher.put([started(f"q{n}")], 1.0) for n in range(3)]
    gate.set()
    assert [len(result_of(future).fresh) for future in futures] == [1, 1, 1]
    assert sizes == [1, 1, 1, 1]


def test_an_event_put_alone_keeps_its_trouble_to_itself(
    harness: StoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = write_batcher.store

    def brittle(connection: Any, chunk: Any, *times: float) -> Any:
        if any(event.parsed.query_id == "bad" for event in chunk):
            raise KeyError("bad")
        return real(connection, chunk, *times)

    monkeypatch.setattr(write_batcher, "store", brittle)
    heap = WriteBatcher(harness.writer, harness.window.apply)
    bad, good = heap.put_alone(started("bad"), 1.0), heap.put_alone(started("good"), 1.0)
    with pytest.raises(KeyError):
        result_of(bad)
    assert result_of(good).duplicates == 0


def test_when_the_store_is_closed_everybody_is_reported(harness: StoreHarness) -> None:
    harness.writer.stop()
    heap = WriteBatcher(harness.writer, harness.window.apply)
    for future in (
        heap.put([started("a")], 1.0),
        heap.put([started("b")], 1.0),
        heap.put_alone(started("c"), 1.0),
    ):
        with pytest.raises(StoreUnavailable):
            result_of(future)


def test_an_answer_that_does_not_come_is_not_waited_for_forever(
    harness: StoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_batcher, "WRITE_TIMEOUT_SECONDS", 0.05)
    gate = threading.Event()
    harness.writer.submit(lambda connection: gate.wait(10))
    future = WriteBatcher(harness.writer, harness.window.apply).put([started("a")], 1.0)
    with pytest.raises(StoreUnavailable, match="did not answer"):
        result_of(future)
    gate.set()
