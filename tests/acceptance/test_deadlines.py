"""Time limits of unfinished actions, on a test clock."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.acceptance.live import LiveServer, live_server
from tests.acceptance.simulated import SimulatedAgent, SimulatedQuery, restarts


@dataclass
class World:
    """A server whose clock can be put forward, with a running query."""

    server: LiveServer
    admin: httpx.Client
    agent: SimulatedAgent
    query: SimulatedQuery
    ahead: list[float] = field(default_factory=lambda: [0.0])

    def ask(self, action: str) -> str:
        path = f"/api/v1/queries/{self.query.query_id}/actions"
        # `force` skips the checkpoint check.
        asked = self.admin.post(path, json={"action": action, "force": True})
        return str(asked.json()["action"]["id"])

    def later(self, seconds: float, action_id: str) -> dict[str, Any]:
        """The action as it is after so many seconds."""
        self.ahead[0] += seconds
        self.server.plane.tick()
        self.server.plane.writer.write(lambda conn: None)  # after what the tick has submitted
        return dict(self.admin.get(f"/api/v1/actions/{action_id}").json()["action"])


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    ahead = [0.0]
    with live_server(tmp_path, lambda: time.time() + ahead[0]) as server, server.client() as admin:
        agent, query = server.agent(), SimulatedQuery("enrich")
        agent.begin()
        agent.start(query)
        agent.send(agent.progress(query))
        yield World(server, admin, agent, query, ahead)
        agent.close()


def test_what_no_agent_fetches_expires(world: World) -> None:
    done = world.later(125, world.ask("restart"))
    assert done["state"] == "expired"
    assert "nothing was done" in done["reason"]
    assert world.agent.poll(0.0) == []


def test_what_an_agent_takes_and_never_answers_is_unverified(world: World) -> None:
    action = world.ask("restart")
    assert len(world.agent.poll(2.0)) == 1
    assert world.later(125, action)["state"] == "delivered"
    assert world.later(30, action)["state"] == "unverified"


def test_a_start_that_shows_no_batch_is_unverified_and_a_late_batch_does_not_change_that(
    world: World,
) -> None:
    action = world.ask("restart")
    command = world.agent.poll(2.0)[0]
    world.agent.answer(command, restarts(world.query)(world.agent, command))
    assert world.later(60, action)["state"] == "running"
    done = world.later(65, action)
    assert done["state"] == "unverified"
    world.agent.send(world.agent.progress(world.query))
    assert world.later(1, action)["state"] == "unverified"


def test_the_next_action_is_free_after_a_deadline(world: World) -> None:
    world.later(125, world.ask("restart"))
    assert world.ask("stop")
    assert [c["action"] for c in world.agent.poll(2.0)] == ["stop"]
