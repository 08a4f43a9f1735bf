"""Fixtures of the acceptance tests: one real server a module, over HTTP only."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.acceptance.live import LiveServer, live_server
from tests.acceptance.simulated import SimulatedAgent


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with live_server(Path(tmp_path_factory.mktemp("data"))) as running:
        yield running


@pytest.fixture(scope="module")
def admin(server: LiveServer) -> Iterator[httpx.Client]:
    with server.client() as client:
        yield client


@pytest.fixture
def agent(server: LiveServer) -> Iterator[SimulatedAgent]:
    driver = server.agent()
    driver.begin()
    yield driver
    driver.close()
