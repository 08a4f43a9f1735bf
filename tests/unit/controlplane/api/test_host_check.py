"""Which Host headers the server accepts."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from fastapi import FastAPI

from controlplane.api.host_check import HostCheck, is_allowed

NAMES = ("localhost", "127.0.0.1", "::1", "plane.example", "*.svc.cluster.local")


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST:8420",
        "127.0.0.1:8420",
        "[::1]:8420",
        "10.20.30.40:8420",  # an address cannot be rebound
        "[fd00::7]",
        "plane.example",
        "Plane.Example.:443",
        "cp.monitoring.svc.cluster.local:8420",
    ],
)
def test_local_names_addresses_and_given_names_are_accepted(host: str) -> None:
    assert is_allowed(host.encode(), NAMES)


@pytest.mark.parametrize(
    "host",
    [
        "",
        "evil.example",
        "evil.example:8420",
        "plane.example.evil.example",
        "svc.cluster.local",
        "notplane.example",
        "127.0.0.1.evil.example",
        "localhost@evil.example",
        "evil.example#localhost",
        "localhost/",
        "localhost:port",
        "löcalhost",
        "[::1",
        "[::1].evil.example",
        "a b",
    ],
)
def test_any_other_host_is_refused(host: str) -> None:
    assert not is_allowed(host.encode("latin-1"), NAMES)


def test_a_wildcard_is_an_explicit_choice() -> None:
    assert is_allowed(b"evil.example", ["*"])


def test_a_foreign_host_is_answered_403_with_the_remedy_but_a_probe_is_answered() -> None:
    app = FastAPI()
    app.add_middleware(HostCheck, names=NAMES)
    app.get("/healthz")(lambda: "alive")
    answer, probe = asyncio.run(_get(app, "/metrics", "/healthz"))
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "host_not_allowed")
    assert "--allowed-host" in answer.json()["error"]["message"]
    assert probe.json() == "alive"


async def _get(app: FastAPI, *paths: str) -> list[httpx.Response]:
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://evil.example") as client:
        return [await client.get(path) for path in paths]
