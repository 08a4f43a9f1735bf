"""A route whose endpoint takes the request itself, beside a route of FastAPI."""

from __future__ import annotations

import gzip
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from controlplane.api.app import create_app
from controlplane.api.routes import events
from controlplane.app import ControlPlane, build
from controlplane.ingest import service
from controlplane.settings import Settings
from tests.drivers import Driver

QUERY, RUN = (str(uuid.UUID(int=n)) for n in (1, 2))


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> ControlPlane:
    return build(Settings(data_dir=tmp_path_factory.mktemp("data")))


@pytest.fixture(scope="module")
def client(plane: ControlPlane) -> Iterator[TestClient]:
    with TestClient(create_app(plane), base_url="http://127.0.0.1") as opened:
        secret = (plane.settings.data_dir / "agent.token").read_text().strip()
        opened.headers["Authorization"] = f"Bearer {secret}"
        yield opened


def test_errors_keep_their_status_and_form(client: TestClient) -> None:
    def code(**how: Any) -> tuple[int, str]:
        answer = client.post("/api/v1/events", **how)
        return answer.status_code, answer.json()["error"]["code"]

    assert code(headers={"Authorization": ""}) == (401, "unauthorized")
    assert code(headers={"Host": "evil.example"}) == (403, "host_not_allowed")
    assert code(headers={"X-Sent-At": "noon"}) == (400, "bad_request")
    assert code(headers={"Content-Encoding": "br"}) == (400, "unsupported_encoding")
    assert code(content=b"junk", headers={"Content-Encoding": "gzip"}) == (400, "bad_gzip")
    assert client.get("/api/v1/events").status_code == 405


def test_the_contact_of_the_sender_is_noted_also_with_an_answer_of_400(
    client: TestClient, plane: ControlPlane
) -> None:
    driver = Driver()
    client.post("/api/v1/events", content=driver.started(QUERY, RUN))
    client.post("/api/v1/events", headers={"X-Agent": driver.agent, "X-Sent-At": "noon"})
    agent = plane.window.agent(driver.agent)
    assert agent is not None
    assert agent.contact_at > 0


def parsed_in(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The threads in which lines are decoded from now on."""
    threads: list[str] = []
    real = service.read_line

    def noted(line: bytes) -> Any:
        threads.append(threading.current_thread().name)
        return real(line)

    monkeypatch.setattr(service, "read_line", noted)
    return threads


@pytest.mark.parametrize("count", [1, 200])
def test_a_small_body_is_parsed_on_the_event_loop_and_a_large_one_in_a_thread(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    driver, threads = Driver(), parsed_in(monkeypatch)
    lines = [driver.progress(QUERY, str(uuid.UUID(int=count)), number) for number in range(count)]
    body = gzip.compress(b"\n".join(lines))
    assert len(body) < events.INLINE_BYTES  # only decompressed it is large
    answer = client.post("/api/v1/events", content=body, headers={"Content-Encoding": "gzip"})
    assert answer.json() == {"acknowledged": count, "stored": count, "duplicates": 0, "rejected": []}
    assert {"worker" in name.lower() for name in threads} == {count > 1}


def test_listeners_get_what_changes_a_status_in_a_thread(client: TestClient, plane: ControlPlane) -> None:
    seen: list[tuple[str, bool]] = []

    def listen(found: list[Any]) -> None:
        seen.extend((event.type, "worker" in threading.current_thread().name.lower()) for event in found)

    plane.ingest.listeners.append(listen)
    driver = Driver()
    for line in (driver.started(QUERY, RUN), driver.progress(QUERY, RUN, 1), driver.terminated(QUERY, RUN)):
        assert client.post("/api/v1/events", content=line).json()["stored"] == 1
    plane.ingest.listeners.remove(listen)
    assert seen == [("started", True), ("progress", False), ("terminated", True)]
