"""The slow rows of the agent's fault table: a server that is killed repeatedly, and one that is down for minutes."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
import urllib.request
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from listeners.agent import AgentThreads, Identity
from listeners.delivery.inbox import Inbox
from listeners.delivery.transport import HttpTransport
from listeners.protocol import wire
from tests.drivers import report
from tests.paths import ROOT
from tests.ports import free_port
from tests.spark.deployment import wait_for

pytestmark = pytest.mark.long
QUERIES = 20


class KillableServer:
    """The real server as a process, with its data directory."""

    def __init__(self, directory: Path):
        self.port, self.data = free_port(), directory / "data"
        self.url = f"http://127.0.0.1:{self.port}"
        self._log = open(directory / "server.log", "ab")  # noqa: SIM115
        self.start()
        wait_for((self.data / "agent.token").exists, 300)
        self.token = (self.data / "agent.token").read_text().strip()

    def start(self) -> None:
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "controlplane",
                "serve",
                "--port",
                str(self.port),
                "--data-dir",
                str(self.data),
            ],
            env=dict(os.environ, PYTHONPATH=str(ROOT)),
            stdout=self._log,
            stderr=self._log,
        )

    def is_ready(self) -> bool:
        assert self.process.poll() is None
        try:
            with urllib.request.urlopen(self.url + "/readyz", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def close(self) -> None:
        if self.process.poll() is None:
            self.kill()
        self._log.close()

    def ask(self, path: str) -> dict[str, object]:
        token = (self.data / "admin.token").read_text().strip()
        request = urllib.request.Request(self.url + path, headers={"Authorization": "Bearer " + token})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return dict(json.load(answer))

    def stored(self, agent: str) -> Counter[int]:
        """How often each sequence number of an agent is in the store."""
        with sqlite3.connect(f"file:{self.data}/controlplane.db?mode=ro", uri=True) as store:
            rows = store.execute(
                "SELECT seq FROM events JOIN agents ON agent_key = agents.key WHERE agents.agent = ?",
                (agent,),
            )
            return Counter(seq for (seq,) in rows)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[KillableServer]:
    running = KillableServer(tmp_path)
    yield running
    running.close()


@pytest.fixture
def agent(server: KillableServer, tmp_path: Path) -> Iterator[AgentThreads]:
    made = AgentThreads(
        Identity(wire.App("orders"), {}),
        Inbox(),
        HttpTransport(server.url, server.token),
        tmp_path / "spool",
        {"app": "orders"},
        lambda command: wire.CommandResult("failed"),
    )
    made.start()
    yield made
    made.stop(2.0)


class Load:
    """Progress events of many queries, as fast as Spark reports them."""

    def __init__(self, agent: AgentThreads):
        self.agent, self.batch = agent, 0
        self.names = [(str(uuid.uuid4()), str(uuid.uuid4())) for _ in range(QUERIES)]

    def report_for(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for query_id, run_id in self.names:
                document = report(query_id, run_id, self.batch, time.time())
                self.agent.inbox.put("progress", json.dumps(document))
            self.batch += 1
            time.sleep(0.1)


@pytest.mark.parametrize("kills", [6, pytest.param(20, marks=pytest.mark.soak)])
def test_a_server_that_is_killed_again_and_again_under_load_has_every_event_once(
    server: KillableServer, agent: AgentThreads, kills: int
) -> None:
    load, chance = Load(agent), random.Random(1)
    for _ in range(kills):
        wait_for(server.is_ready, 300)
        load.report_for(chance.uniform(0.2, 1.5))
        server.kill()
        load.report_for(0.2)
        server.start()
    wait_for(server.is_ready, 300)
    wait_for(lambda: agent._spool.events == 0, 300)
    output = agent._seq
    stored = server.stored(agent.identity.agent)
    assert set(range(1, output + 1)) <= stored.keys() and max(stored.values()) == 1
    assert agent.losses() == {}
    for query_id, _ in load.names[:3]:
        query = server.ask(f"/api/v1/queries/{query_id}")
        assert query["gaps"] == [] and query["batch_id"] == load.batch - 1


@pytest.mark.soak
def test_five_minutes_without_a_server_cost_nothing(server: KillableServer, agent: AgentThreads) -> None:
    load = Load(agent)
    load.report_for(2.0)
    server.kill()
    load.report_for(300.0)
    assert agent._spool.events > 10_000
    server.start()
    wait_for(lambda: agent._spool.events == 0, 300)
    stored = server.stored(agent.identity.agent)
    assert set(range(1, agent._seq + 1)) <= stored.keys() and max(stored.values()) == 1
    assert agent.losses() == {}
