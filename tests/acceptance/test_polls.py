"""Hundreds of long polls: ingest goes on, a command wakes the right one, and Ctrl-C ends them all at once."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from bench.polls import Holder, raise_file_limit
from controlplane.api import server as serving
from tests.acceptance.live import LiveServer, eventually, live_server
from tests.acceptance.simulated import SimulatedAgent, SimulatedQuery

POLLS = 400


@contextmanager
def held(url: str, token: str, count: int) -> Iterator[Holder]:
    """So many polls on so many sockets, on a loop of their own."""
    parts = urlsplit(url)
    raise_file_limit(2 * count)
    holder = Holder(parts.hostname or "", parts.port or 0, token, count)
    loop = asyncio.new_event_loop()

    async def hold() -> None:
        await asyncio.gather(*(holder.hold() for _ in range(count)), return_exceptions=True)

    def run() -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_until_complete(task)
        except asyncio.CancelledError:
            pass
        finally:
            loop.close()

    task = loop.create_task(hold())
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield holder
    finally:
        if not loop.is_closed():
            loop.call_soon_threadsafe(task.cancel)
        thread.join(10)


@pytest.fixture(scope="module")
def crowd(server: LiveServer) -> Iterator[Holder]:
    with held(server.url, server.agent_token, POLLS) as holder:
        assert eventually(lambda: server.plane.outbox.held_polls == POLLS)
        yield holder


def test_ingest_and_pages_answer_beside_held_polls(
    server: LiveServer, crowd: Holder, agent: SimulatedAgent, admin: httpx.Client
) -> None:
    times = []
    for _ in range(30):
        began = time.perf_counter()
        assert agent.begin()["stored"] == 1
        assert admin.get("/api/v1/queries").status_code == 200
        times.append(time.perf_counter() - began)
    assert sorted(times)[len(times) // 2] < 0.5
    assert crowd.failed == 0
    assert server.plane.outbox.held_polls >= POLLS - 50  # some may be renewing


def test_only_the_poll_that_is_meant_wakes(
    server: LiveServer, crowd: Holder, agent: SimulatedAgent, admin: httpx.Client
) -> None:
    query, got = SimulatedQuery("waking"), []
    agent.start(query)
    renewed = crowd.renewed
    poll = threading.Thread(target=lambda: got.extend(agent.poll(20.0)))
    poll.start()
    time.sleep(0.2)
    began = time.perf_counter()
    admin.post(f"/api/v1/queries/{query.query_id}/actions", json={"action": "stop"})
    poll.join(10)
    assert [command["action"] for command in got] == ["stop"]
    assert time.perf_counter() - began < 2.0
    assert crowd.renewed - renewed < POLLS / 4


def test_a_poll_answers_204_when_its_time_is_over(agent: SimulatedAgent) -> None:
    began = time.perf_counter()
    answer = agent.http.get(f"/api/v1/agents/{agent.agent}/commands", params={"wait": 0.3})
    assert answer.status_code == 204
    assert 0.25 < time.perf_counter() - began < 2.0


def test_a_server_that_stops_ends_all_polls(tmp_path: Path) -> None:
    with live_server(tmp_path) as running, held(running.url, running.agent_token, POLLS) as holder:
        assert eventually(lambda: running.plane.outbox.held_polls == POLLS)
        running.server.should_exit = True
        began = time.perf_counter()
        assert eventually(lambda: not running.server.server_state.connections)
        assert time.perf_counter() - began < 3.0
        assert eventually(lambda: holder.renewed == POLLS)


def test_a_connection_that_sends_no_request_is_closed(
    server: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "HEADER_SECONDS", 0.1)
    monkeypatch.setattr(serving, "SWEEP_TICKS", 1)
    parts = urlsplit(server.url)

    async def silent() -> bytes:
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost:")
        return await asyncio.wait_for(reader.read(), 10)

    assert asyncio.run(silent()) == b""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_process_in_good_order(tmp_path: Path, number: signal.Signals) -> None:
    command = [
        sys.executable,
        "-m",
        "controlplane.cli.main",
        "serve",
        "--port",
        "0",
        "--data-dir",
        str(tmp_path),
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    url = process.stdout.readline().split()[1]
    assert eventually(lambda: _answers(url))
    token = (tmp_path / "agent.token").read_text().strip()
    with held(url, token, 50) as holder:
        assert eventually(lambda: holder.held == 50)
        began = time.perf_counter()
        process.send_signal(number)
        assert process.wait(10) == 0
        assert time.perf_counter() - began < 4.0
    errors = process.communicate()[1]
    assert "Traceback" not in errors


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/healthz", timeout=1).status_code == 200
    except httpx.HTTPError:
        return False
