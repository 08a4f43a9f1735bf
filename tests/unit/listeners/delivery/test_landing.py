"""The landing transport: complete files, acknowledged once they are synced."""

from __future__ import annotations

import errno
import gzip
import json
import os
import time
from pathlib import Path

import pytest

from listeners import attachment
from listeners.agent import AgentThreads, Identity
from listeners.delivery import landing
from listeners.delivery.inbox import Inbox
from listeners.delivery.landing import LandingTransport, is_landing
from listeners.protocol import wire
from listeners.protocol.errors import TransportError
from tests.unit.listeners.test_attachment import HangingEngine, Session

AGENT = "3f2c8f5e-6f0a-4a7e-9d6e-0b9e2f6d1c11"


def line(seq: int) -> bytes:
    event = wire.Event(AGENT, seq, 1.0, wire.App("a"), "heartbeat", {"text": "ä"})
    return wire.encode_event(event).encode()


def lines_in(path: Path) -> list[bytes]:
    return gzip.decompress(path.read_bytes()).splitlines()


def test_delivery_is_a_file_named_by_agent_and_sequence_numbers(tmp_path: Path) -> None:
    answer = LandingTransport(tmp_path.as_uri()).send([line(4), line(5), line(9)])
    assert (answer.seq, answer.rejected) == (9, 0)
    (path,) = tmp_path.iterdir()
    assert path.name == f"{AGENT}-000000000004-000000000009.ndjson.gz"
    assert lines_in(path) == [line(4), line(5), line(9)]


def test_repeated_delivery_is_the_same_file(tmp_path: Path) -> None:
    transport = LandingTransport(tmp_path.as_uri())
    transport.send([line(1)])
    (path,) = tmp_path.iterdir()
    before = path.read_bytes()
    transport.send([line(1)])
    assert [event.read_bytes() for event in tmp_path.iterdir()] == [before]


def test_missing_folder_is_not_created_and_can_be_retried(tmp_path: Path) -> None:
    transport = LandingTransport((tmp_path / "mount").as_uri())
    with pytest.raises(TransportError) as caught:
        transport.send([line(1)])
    assert caught.value.retryable and not (tmp_path / "mount").exists()
    (tmp_path / "mount").mkdir()
    assert transport.send([line(1)]).seq == 1


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_full_disk_can_be_retried_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    def full(*args: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(landing.os, failing, full)
    with pytest.raises(TransportError, match="No space left") as caught:
        LandingTransport(tmp_path.as_uri()).send([line(1)])
    assert caught.value.retryable and list(tmp_path.iterdir()) == []


def test_file_gets_its_name_only_when_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []
    replace = os.replace

    def watched(source: str, target: str) -> None:
        seen.append(sorted(os.listdir(tmp_path)))
        assert lines_in(Path(source)) == [line(1)]
        replace(source, target)

    monkeypatch.setattr(landing.os, "replace", watched)
    LandingTransport(tmp_path.as_uri()).send([line(1)])
    assert seen == [[f".{AGENT}.part"]]


@pytest.mark.parametrize(
    "url",
    ["file://host/landing", "file://relative"],
    ids=["another host", "no absolute path"],
)
def test_url_that_is_not_a_local_folder_is_refused(url: str) -> None:
    with pytest.raises(TransportError, match="file:///FOLDER") as caught:
        LandingTransport(url)
    assert not caught.value.retryable


def test_path_may_contain_blanks(tmp_path: Path) -> None:
    folder = tmp_path / "landing zone"
    folder.mkdir()
    assert LandingTransport(folder.as_uri()).send([line(1)]).seq == 1
    assert len(list(folder.iterdir())) == 1


def test_invalid_agent_id_makes_no_path(tmp_path: Path) -> None:
    events = json.dumps({"agent": "../../etc/passwd", "seq": 1}).encode()
    with pytest.raises(TransportError, match="not an agent id"):
        LandingTransport(tmp_path.as_uri()).send([events])


def test_no_commands_and_no_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(landing.time, "sleep", slept.append)
    transport = LandingTransport(tmp_path.as_uri())
    assert transport.poll(AGENT, 25.0) == [] and slept == [25.0]
    with pytest.raises(TransportError) as caught:
        transport.answer("c", wire.CommandResult("succeeded"))
    assert not caught.value.retryable
    with pytest.raises(TransportError):
        transport.preflight({}, 1.0)


def test_only_file_urls_are_folders() -> None:
    assert is_landing("file:///mnt/landing") and not is_landing("http://server:8420")


def test_agent_delivers_everything_without_gaps(tmp_path: Path) -> None:
    zone = tmp_path / "zone"
    zone.mkdir()
    inbox = Inbox()
    agent = AgentThreads(
        Identity(wire.App("orders"), {}),
        inbox,
        LandingTransport(zone.as_uri()),
        tmp_path / "spool",
        {"app": "orders"},
        lambda command: wire.CommandResult("failed"),
        linger=0.05,
    )
    agent.start()
    inbox.put("progress", '{"batchId":1}')
    until = time.monotonic() + 20
    while not list(zone.glob("*.gz")) and time.monotonic() < until:
        time.sleep(0.01)
    inbox.put("progress", '{"batchId":2}')
    agent.stop(5.0)
    events = [json.loads(event) for path in sorted(zone.glob("*.gz")) for event in lines_in(path)]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert [event["data"]["batchId"] for event in events if event["type"] == "progress"] == [1, 2]


def test_attachment_to_a_folder_delivers_from_app_started_to_app_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zone, engine = tmp_path / "zone", HangingEngine()
    zone.mkdir()
    engine.released.set()
    monkeypatch.setenv("CONTROLPLANE_SPOOL_DIR", str(tmp_path / "spool"))
    monkeypatch.setattr(attachment, "engine_of", lambda session: engine)
    made = attachment.Attachment(Session(), zone.as_uri(), None, {}, None, "all")
    session = Session()
    made.start(session)
    made.detach(timeout=5.0)
    events = [json.loads(event)["type"] for path in sorted(zone.glob("*.gz")) for event in lines_in(path)]
    assert events[0] == "app_started" and events[-1] == "app_ended"
