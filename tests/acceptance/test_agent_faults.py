"""The agent's fault table: its real threads, transport and spool against servers and disks that fail.

Every event that reached the spool must be stored once, or be counted as lost.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from listeners import agent as agents
from listeners.agent import AgentThreads, Identity
from listeners.delivery.inbox import Inbox
from listeners.delivery.transport import HttpTransport
from listeners.protocol import wire
from listeners.protocol.errors import TransportError
from tests.acceptance.fault_servers import answers, drips, floods, hangs, hostile, talking
from tests.paths import ROOT
from tests.recording_server import RecordingServer

OWNER = {"app": "orders"}


class Driver:
    """The agent without Spark: `send` does what a listener callback does."""

    def __init__(self, url: str, root: Path, clock: Callable[[], float] = time.time, **options: Any):
        self.inbox = Inbox(clock=clock)
        self.obeyed: list[str] = []
        self.agent = AgentThreads(
            Identity(wire.App("orders"), {}),
            self.inbox,
            HttpTransport(url, "t"),
            root,
            OWNER,
            self._obey,
            **options,
        )
        self.agent.start()
        self.sent = 0

    def _obey(self, command: wire.Command) -> wire.CommandResult:
        self.obeyed.append(command.id)
        return wire.CommandResult("succeeded")

    def send(self, count: int = 1, size: int = 200) -> None:
        for _ in range(count):
            self.sent += 1
            self.inbox.put("progress", json.dumps({"n": self.sent, "pad": "x" * size}))


@pytest.fixture
def drivers(tmp_path: Path) -> Iterator[Callable[..., Driver]]:
    made: list[Driver] = []

    def make(url: str, **options: Any) -> Driver:
        made.append(Driver(url, options.pop("root", tmp_path / "spool"), **options))
        return made[-1]

    yield make
    for driver in made:
        driver.agent.stop(0.5)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits are a twentieth: five minutes are fifteen seconds."""
    from listeners.delivery.backoff import Backoff

    monkeypatch.setattr(Backoff.__init__, "__defaults__", (0.025, 1.5))


def numbers(server: RecordingServer) -> list[int]:
    """The events as a store keeps them: by agent and sequence number, once each."""
    kept = {(e["agent"], e["seq"]): e["data"]["n"] for e in list(server.events) if e["type"] == "progress"}
    return sorted(kept.values())


def all_of(driver: Driver, server: RecordingServer) -> Callable[[], bool]:
    return lambda: numbers(server) == list(range(1, driver.sent + 1))


# -- the server ------------------------------------------------------------------------------------


def test_a_server_that_is_away_for_minutes_costs_no_event(
    recorder: RecordingServer, drivers: Callable[..., Driver]
) -> None:
    recorder.refusal = (503, {"Retry-After": "0.2"})
    driver = drivers(recorder.url)
    for _ in range(60):
        driver.send(20)
        time.sleep(0.05)
    recorder.refusal = None
    recorder.wait_for(all_of(driver, recorder))
    assert driver.agent.losses() == {}


@pytest.mark.parametrize(
    "trouble",
    [
        hangs,
        drips(b"HTTP/1.1 200 OK\r\nX-Slow: "),
        floods(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 1000),
        floods(b"HTTP/1.1 200 OK\r\n", b"X-Flood: y\r\n"),
        answers("200 OK", b'{"acknowledged": "all", "commands": 7}'),
        answers("200 OK", b"<html>log in first</html>"),
        answers("302 Found", b"", b"Location: http://127.0.0.1:1/"),
        answers("400 Bad Request"),
        answers("200 OK", json.dumps({"acknowledged": -1, "commands": [{"id": 7}] * 5000}).encode()),
    ],
    ids=["hangs", "drips", "body", "headers", "types", "portal", "redirect", "refuses", "commands"],
)
def test_a_hostile_server_loses_no_event_and_stops_no_thread(
    trouble: Any, drivers: Callable[..., Driver], tmp_path: Path
) -> None:
    with hostile(trouble) as url:
        driver = drivers(url)
        driver.send(100)
        time.sleep(0.3)
        driver.send(100)
        assert all(thread.is_alive() for thread in driver.agent._threads.values())
        began = time.monotonic()
        driver.agent.stop(2.0)
        assert time.monotonic() - began < 5.0
    assert driver.agent.losses() == {} and driver.obeyed == []
    left = list((tmp_path / "spool" / driver.agent.identity.agent).glob("*.events"))
    assert sum(path.read_bytes().count(b'"n"') for path in left) == 200


def test_thousands_of_commands_make_only_so_many_threads(drivers: Callable[..., Driver]) -> None:
    commands = [{"id": str(n), "action": "stop", "query_id": "q"} for n in range(5000)]
    body = json.dumps({"acknowledged": 10**9, "commands": commands}).encode()
    with hostile(answers("200 OK", body)) as url:
        driver = drivers(url)
        deadline = time.monotonic() + 20
        while len(driver.obeyed) < 50 and time.monotonic() < deadline:
            assert sum(t.name == "controlplane-command" for t in threading.enumerate()) <= 16
            time.sleep(0.01)
        assert len(driver.obeyed) >= 50 and len(set(driver.obeyed)) == len(driver.obeyed)


def test_malformed_commands_spoil_no_good_one(
    recorder: RecordingServer, drivers: Callable[..., Driver]
) -> None:
    driver = drivers(recorder.url)
    recorder.commands.put({"id": 5, "action": "stop", "query_id": "q"})
    recorder.commands.put({"id": "y", "action": "stop", "query_id": "q", "timeout_seconds": "soon"})
    assert recorder.command("stop", "q", timeout=30)["state"] == "succeeded"
    assert len(driver.obeyed) == 1


def test_a_server_that_acknowledges_and_forgets_to_answer_gets_doubles_and_nothing_is_lost(
    recorder: RecordingServer, drivers: Callable[..., Driver], monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = recorder._take
    turns = iter(range(10**6))

    def take(lines: list[bytes]) -> int:
        last = taken(lines)
        if next(turns) % 2 == 0:
            raise ConnectionAbortedError  # stored, and the answer never comes
        return last

    monkeypatch.setattr(recorder, "_take", take)
    monkeypatch.setattr("socketserver.BaseServer.handle_error", lambda *args: None)
    driver = drivers(recorder.url)
    for _ in range(10):
        driver.send(20)
        time.sleep(0.05)
    recorder.wait_for(all_of(driver, recorder))
    times = Counter((e["agent"], e["seq"]) for e in recorder.events)
    assert max(times.values()) > 1 and driver.agent.losses() == {}


# -- the disk --------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of one megabyte."""
    if os.name != "posix" or os.geteuid() != 0:
        pytest.skip("only root may mount a tmpfs")
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {mounted.stderr.decode().strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_disk_that_fills_up_loses_nothing_that_memory_can_hold_and_frees_itself(
    recorder: RecordingServer, drivers: Callable[..., Driver], small_disk: Path
) -> None:
    recorder.refusal = (503, {})
    driver = drivers(recorder.url, root=small_disk)
    driver.send(1500, size=1000)
    deadline = time.monotonic() + 20
    while driver.agent._spool.events < 1500 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert driver.agent._spool.trouble is not None
    assert shutil.disk_usage(small_disk).free < 300_000
    recorder.refusal = None
    recorder.wait_for(all_of(driver, recorder))
    assert driver.agent.losses() == {}
    driver.send(10)
    recorder.wait_for(all_of(driver, recorder))
    wait_until(lambda: driver.agent._spool.trouble is None)
    driver.agent.stop(5.0)
    assert shutil.disk_usage(small_disk).used < 100_000


def test_a_disk_that_turns_read_only_degrades_to_memory_and_comes_back(
    recorder: RecordingServer, drivers: Callable[..., Driver], small_disk: Path
) -> None:
    recorder.refusal = (503, {})
    driver = drivers(recorder.url, root=small_disk)
    driver.send(50)
    wait_until(lambda: driver.agent._spool.events >= 50)
    wait_until(lambda: remounted_read_only(driver, small_disk))
    driver.send(50)
    wait_until(lambda: driver.agent._spool.trouble is not None)
    recorder.refusal = None
    recorder.wait_for(all_of(driver, recorder))
    wait_until(lambda: driver.agent._spool.events == 0)
    subprocess.run(["mount", "-o", "remount,rw", str(small_disk)], check=True)
    driver.send(50)
    recorder.wait_for(all_of(driver, recorder))
    wait_until(lambda: driver.agent._spool.trouble is None)
    assert driver.agent.losses() == {}


def remounted_read_only(driver: Driver, disk: Path) -> bool:
    """A failing disk turns read-only under its writers; one that is whole waits until nothing is open."""
    driver.agent._spool._close_file()
    driver.agent._spool._release()
    done = subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=False, capture_output=True)
    return done.returncode == 0


def test_what_memory_cannot_hold_either_is_counted_and_reported(
    recorder: RecordingServer, drivers: Callable[..., Driver], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    recorder.refusal = (503, {})
    driver = drivers(recorder.url, root=tmp_path / "file")
    driver.send(6000, size=10)
    wait_until(lambda: driver.agent.losses().get("disk_unusable", 0) >= 1000)
    recorder.refusal = None
    recorder.wait_for(lambda: numbers(recorder)[-1:] == [6000])
    lost = driver.agent.losses()["disk_unusable"]
    driver.agent.request_probe()
    dropped = recorder.wait_for(lambda: recorder.of_type("dropped", reason="disk_unusable"))
    assert sum(event["count"] for event in dropped) == lost
    other = [event for event in recorder.events if event["type"] != "progress"]
    lost_progress = 6000 - len(numbers(recorder))
    assert lost_progress <= lost <= lost_progress + len(other) + 10
    driver.agent.request_probe()
    assert recorder.wait_for(lambda: [h for h in recorder.of_type("heartbeat") if h["dropped"]])


def test_a_cleaner_of_temporary_files_that_takes_the_spool_away_is_survived(
    recorder: RecordingServer, drivers: Callable[..., Driver], tmp_path: Path
) -> None:
    driver = drivers(recorder.url)
    driver.send(20)
    recorder.wait_for(all_of(driver, recorder))
    shutil.rmtree(tmp_path / "spool", ignore_errors=True)  # the agent may be writing its cursor
    driver.send(20)
    recorder.wait_for(all_of(driver, recorder))
    assert (tmp_path / "spool" / driver.agent.identity.agent / "owner.json").exists()


# -- the clock, the process ------------------------------------------------------------------------


def test_a_clock_that_is_set_back_and_forth_reorders_nothing(
    recorder: RecordingServer, drivers: Callable[..., Driver]
) -> None:
    ahead = [0.0]
    driver = drivers(recorder.url, clock=lambda: time.time() + ahead[0])
    for shift in (0.0, -86400.0, 3600.0, -86400.0 * 365, 0.0):
        ahead[0] = shift
        driver.send(20)
    recorder.wait_for(all_of(driver, recorder))
    in_order = [e["data"]["n"] for e in recorder.events if e["type"] == "progress"]
    assert in_order == sorted(in_order) and driver.agent.losses() == {}


PROGRAM = """
import json, sys, time
from pathlib import Path
from listeners.protocol import wire
from listeners.agent import AgentThreads, Identity
from listeners.protocol.errors import TransportError
from listeners.delivery.inbox import Inbox
from listeners.delivery.transport import HttpTransport
url, root, first, count = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
inbox = Inbox()
agent = AgentThreads(Identity(wire.App("orders"), {}), inbox, HttpTransport(url, "t"), root, {"app": "orders"},
              lambda command: wire.CommandResult("succeeded"))
agent.start()
for n in range(first, first + count):
    inbox.put("progress", json.dumps({"n": n}))
while agent._spool.events < count and not agent._spool.settled_seq:
    time.sleep(0.01)
print("written", flush=True)
time.sleep(3600)
"""


def test_a_process_that_is_killed_leaves_its_events_to_the_next_one(
    recorder: RecordingServer, drivers: Callable[..., Driver], tmp_path: Path
) -> None:
    recorder.refusal = (503, {})
    for first in (1, 201, 401):
        command = [sys.executable, "-c", PROGRAM, recorder.url, str(tmp_path / "spool"), str(first), "200"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
            assert process.stdout is not None and process.stdout.readline() == "written\n"
            process.send_signal(signal.SIGKILL)
    recorder.refusal = None
    driver = drivers(recorder.url)
    recorder.wait_for(lambda: numbers(recorder) == list(range(1, 601)))
    speakers = {e["agent"] for e in recorder.events if e["type"] == "progress"}
    assert len(speakers) == 3 and driver.agent.identity.agent not in speakers
    wait_until(lambda: [p.name for p in (tmp_path / "spool").iterdir()] == [driver.agent.identity.agent])
    times = Counter((e["agent"], e["seq"]) for e in recorder.events)
    assert max(times.values()) == 1 and driver.agent.losses() == {}


def test_a_neighbour_that_dies_later_is_taken_care_of_too(
    recorder: RecordingServer,
    drivers: Callable[..., Driver],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from listeners.delivery.spool import Spool

    monkeypatch.setattr(agents, "ADOPT_INTERVAL_SECONDS", 0.1)
    driver = drivers(recorder.url)
    driver.send(1)
    recorder.wait_for(all_of(driver, recorder))
    neighbour = Spool(tmp_path / "spool" / str(uuid.uuid4()), OWNER)
    neighbour.append([(1, json.dumps({"agent": "n", "seq": 1, "type": "idle", "data": {}}).encode())])
    driver.send(1)
    recorder.wait_for(all_of(driver, recorder))
    assert not recorder.of_type("idle")
    neighbour.close()
    driver.send(1)
    while not recorder.of_type("idle"):
        driver.send(1)
        time.sleep(0.1)


def test_the_end_of_a_program_waits_two_seconds_at_most_for_a_server_that_hangs(
    drivers: Callable[..., Driver], tmp_path: Path
) -> None:
    with hostile(hangs) as url:
        driver = drivers(url)
        driver.send(500)
        wait_until(lambda: driver.agent._spool.events >= 500)
        began = time.monotonic()
        driver.agent.stop(2.0)
        assert time.monotonic() - began < 4.0
    assert list((tmp_path / "spool").glob("*/*.events"))


# -- proxies and TLS -------------------------------------------------------------------------------


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, list[bytes]]]:
    """A proxy that the environment names: it answers itself, and keeps what it was asked."""
    seen: list[bytes] = []

    def answer(connection: socket.socket, request: bytes) -> None:
        seen.append(request)
        answers("200 OK", b'{"acknowledged": 9}')(connection)

    with talking(answer) as url:
        for name in ("HTTP_PROXY", "http_proxy"):
            monkeypatch.setenv(name, url)
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.setenv(name, "127.0.0.1")
        yield url, seen


def test_a_proxy_from_the_environment_is_used_unless_the_server_is_excepted(
    recorder: RecordingServer, proxy: tuple[str, list[bytes]]
) -> None:
    line = wire.encode_event(wire.Event(str(uuid.uuid4()), 4, 1.0, wire.App("a"), "heartbeat", {}))
    assert HttpTransport(recorder.url, "t").send([line.encode()]).seq == 4  # past the proxy
    assert HttpTransport("http://control.example:8420", "t").send([b"{}"]).seq == 9
    assert proxy[1][0].startswith(b"POST http://control.example:8420/api/v1/events HTTP/1.1\r\n")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`ca.pem`, and `server.pem` and `server.key` for 127.0.0.1 that it signed."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is needed to make certificates: apt-get install openssl")
    place = tmp_path_factory.mktemp("certificates")
    (place / "names").write_text("subjectAltName=IP:127.0.0.1\n")
    new = ["-newkey", "rsa:2048", "-nodes", "-subj"]
    signed = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2"]
    for command in (
        ["req", "-x509", *new, "/CN=ca", "-days", "2", "-keyout", "ca.key", "-out", "ca.pem"],
        ["req", *new, "/CN=server", "-keyout", "server.key", "-out", "server.csr"],
        ["x509", "-req", "-in", "server.csr", *signed, "-extfile", "names", "-out", "server.pem"],
    ):
        subprocess.run(["openssl", *command], cwd=place, check=True, capture_output=True)
    return place


@pytest.fixture
def https(certificates: Path) -> Iterator[str]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "server.pem", certificates / "server.key")

    def answer(connection: socket.socket, request: bytes) -> None:
        answers("200 OK", b'{"acknowledged": 9}')(connection)

    with talking(answer, context) as url:
        yield url.replace("http://", "https://")


def test_a_private_authority_is_trusted_when_it_is_named_and_else_not(https: str, certificates: Path) -> None:
    assert HttpTransport(https, "t", str(certificates / "ca.pem")).send([b"{}"]).seq == 9
    with pytest.raises(TransportError, match="CERTIFICATE_VERIFY_FAILED"):
        HttpTransport(https, "t").send([b"{}"])


def test_https_goes_through_a_proxy_by_connect(
    https: str, certificates: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bytes] = []

    def tunnel(connection: socket.socket, request: bytes) -> None:
        asked.append(request.split(b"\r\n")[0])
        host, _, port = https.removeprefix("https://").partition(":")
        connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        with socket.create_connection((host, int(port))) as server:
            back = threading.Thread(target=pump, args=(server, connection), daemon=True)
            back.start()
            pump(connection, server)
            back.join(5)

    with talking(tunnel) as url:
        for name in ("HTTPS_PROXY", "https_proxy"):
            monkeypatch.setenv(name, url)
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        assert HttpTransport(https, "t", str(certificates / "ca.pem")).send([b"{}"]).seq == 9
    assert len(asked) == 1 and asked[0].startswith(
        f"CONNECT {https.removeprefix('https://')} HTTP/1.".encode()
    )


def pump(source: socket.socket, sink: socket.socket) -> None:
    """Carry bytes until the source ends."""
    with suppress(OSError):
        while piece := source.recv(65536):
            sink.sendall(piece)
        sink.shutdown(socket.SHUT_WR)


@pytest.mark.parametrize("content", [None, "not a certificate"])
def test_a_file_of_certificates_that_is_none_is_named(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "ca.pem").write_text(content)
    with pytest.raises(
        TransportError, match=r"CONTROLPLANE_CA_FILE=.*ca\.pem is not a PEM file with certificates"
    ):
        HttpTransport("https://127.0.0.1:1", "t", str(tmp_path / "ca.pem"))


def wait_until(condition: Callable[[], Any], seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "not seen in time"
        time.sleep(0.02)
