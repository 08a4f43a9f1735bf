"""Who asks Prometheus' API, and leaves."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from controlplane.api.routes import prometheus


class Client:
    """A request whose client has left after so many looks."""

    def __init__(self, looks: int):
        self._left = looks
        self.state = SimpleNamespace(abandoned=threading.Event())

    async def is_disconnected(self) -> bool:
        self._left -= 1
        return self._left < 0


def test_a_client_that_leaves_abandons_its_evaluation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus, "WATCH_SECONDS", 0.0)

    async def served(client: Any) -> None:
        async with prometheus._noticing(client):
            await asyncio.to_thread(client.state.abandoned.wait, 30)

    client = Client(3)
    asyncio.run(served(client))
    assert client.state.abandoned.is_set()


def test_the_watch_over_a_client_ends_with_its_answer() -> None:
    async def served(client: Any) -> int:
        async with prometheus._noticing(client):
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        return len(asyncio.all_tasks())

    client = Client(10**9)
    assert asyncio.run(served(client)) == 1
    assert not client.state.abandoned.is_set()
