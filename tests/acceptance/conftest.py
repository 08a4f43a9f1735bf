"""Fixtures of the acceptance tests: one real server a module, over HTTP only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from controlplane.cli.main import run
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


@dataclass
class CliResult:
    code: int
    out: str
    err: str


Cli = Callable[..., CliResult]


@pytest.fixture
def cli(server: LiveServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """`controlplane …` in this process, with the server's own data directory."""
    for name in ("CONTROLPLANE_TOKEN", "CONTROLPLANE_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CONTROLPLANE_URL", server.url)
    monkeypatch.setenv("CONTROLPLANE_DATA_DIR", str(server.plane.settings.data_dir))

    def call(*arguments: str) -> CliResult:
        capsys.readouterr()
        code = run(list(arguments))
        caught = capsys.readouterr()
        assert "Traceback" not in caught.err
        return CliResult(code, caught.out, caught.err)

    return call
