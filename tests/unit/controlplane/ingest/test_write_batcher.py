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
    gate.set()
    shares = [result_of(future) for future in futures]
    assert sizes == [8]
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
