"""Kill the server at every point between storing an alert and logging its notification: no notification is lost."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from controlplane.api.server import listen
from tests.acceptance.crashing_server import WATCHED
from tests.acceptance.live import eventually
from tests.acceptance.simulated import SimulatedAgent, SimulatedQuery
from tests.paths import ROOT
from tests.ports import free_port
from tests.webhook_receiver import WebhookReceiver, running_webhook

POINTS = ("alerts stored", "before the message", "message sent", "message noted")
EXCEPTION = "org.apache.spark.SparkException: [CAST_INVALID_INPUT] no number"
TIMEOUT_SECONDS = 180.0


class RestartingServer:
    """A server that restarts at the same address with the same data directory."""

    def __init__(self, directory: Path, webhook: WebhookReceiver):
        self.directory, self.webhook, self.port = directory, webhook, free_port()
        self.url = f"http://127.0.0.1:{self.port}"

    @contextmanager
    def server(self, *deadly: str) -> Iterator[subprocess.Popen[str]]:
        """Run until the end of the block, or until it kills itself at a point while the alert is in a state."""
        script = [
            "-m",
            "tests.acceptance.crashing_server",
            str(self.port),
            str(self.directory),
            self.webhook.url,
        ]
        with subprocess.Popen([sys.executable, *script, *deadly], cwd=ROOT) as process:
            try:
                assert eventually(lambda: self._answers(process), TIMEOUT_SECONDS), "the server did not start"
                yield process
            finally:
                if process.poll() is None:
                    process.terminate()

    def _answers(self, process: subprocess.Popen[str]) -> bool:
        assert process.poll() is None, "the server ended before it was ready"
        try:
            return httpx.get(f"{self.url}/healthz", timeout=5.0).status_code < 500
        except httpx.TransportError:
            return False

    def agent(self, app: str = "orders") -> SimulatedAgent:
        token = (self.directory / "agent.token").read_text().strip()
        driver = SimulatedAgent(self.url, token, app=app)
        driver.begin()
        return driver


class FailingQuery:
    """A query that fails and runs again. Its driver resends the last events after a crash, as agents do."""

    def __init__(self, agent: SimulatedAgent):
        self.agent, self.query = agent, SimulatedQuery("orders")
        self.lines: list[bytes] = []
        agent.start(self.query)
        agent.send(agent.progress(self.query))

    def send(self, *events: tuple[str, dict[str, Any]]) -> None:
        self.lines = [self.agent.line(type, data) for type, data in events]
        try:
            self.again()
        except httpx.TransportError:
            pass  # it was killed while it answered

    def again(self) -> None:
        self.agent.post(*self.lines)

    def fails(self) -> None:
        self.send(("terminated", {**self._ids(), "exception": EXCEPTION, "errorClassOnException": "CAST"}))

    def recovers(self) -> None:
        self.query.run_id = "11111111-2222-3333-4444-555555555555"
        started = {**self._ids(), "name": "orders", "timestamp": "2026-01-01T00:00:00.000Z", "jobTags": []}
        self.send(
            ("started", started),
            ("status", self.agent.status(self.query)),
            self.agent.progress(self.query),
        )

    def _ids(self) -> dict[str, str]:
        return {"id": self.query.query_id, "runId": self.query.run_id}


def killed(process: subprocess.Popen[str]) -> bool:
    return process.wait(TIMEOUT_SECONDS) == -signal.SIGKILL


def notifications(webhook: WebhookReceiver, status: str) -> list[dict[str, Any]]:
    """The messages about the alert of the failed query with this status."""
    about = [m for m in webhook.messages if m["groupLabels"].get("alertname") == WATCHED]
    return [m for m in about if m["status"] == status and "orders" in str(m["commonLabels"].get("app"))]


def check_later_alert(restarting: RestartingServer) -> None:
    """Wait for the notification of a later alert: everything that was due before it has been processed by then."""
    other = restarting.agent("later")
    FailingQuery(other).fails()
    assert eventually(
        lambda: [item for item in restarting.webhook.alerts(WATCHED) if item["labels"]["app"] == "later"],
        TIMEOUT_SECONDS,
    )
    other.close()


def check(webhook: WebhookReceiver, status: str, point: str, crashed: bool) -> None:
    """Assert one notification, or two of the same group after a crash between sending and logging."""
    messages = notifications(webhook, status)
    times = 2 if crashed and point == "message sent" else 1
    assert len(messages) == times, [m["notification_reason"] for m in messages]
    assert len({m["groupKey"] for m in messages}) == 1


def crash_while_firing(restarting: RestartingServer, point: str) -> None:
    with restarting.server(point, "firing") as server:
        agent = restarting.agent()
        query = FailingQuery(agent)
        query.fails()
        assert killed(server)
    with restarting.server():
        query.again()
        assert eventually(lambda: notifications(restarting.webhook, "firing"), TIMEOUT_SECONDS)
        check_later_alert(restarting)
        query.recovers()
        assert eventually(lambda: notifications(restarting.webhook, "resolved"), TIMEOUT_SECONDS)
        agent.close()


def crash_while_resolved(restarting: RestartingServer, point: str) -> None:
    with restarting.server(point, "resolved") as server:
        agent = restarting.agent()
        query = FailingQuery(agent)
        query.fails()
        assert eventually(lambda: notifications(restarting.webhook, "firing"), TIMEOUT_SECONDS)
        query.recovers()
        assert killed(server)
    with restarting.server():
        query.again()
        assert eventually(lambda: notifications(restarting.webhook, "resolved"), TIMEOUT_SECONDS)
        check_later_alert(restarting)
        agent.close()


CRASHES = {"firing": crash_while_firing, "resolved": crash_while_resolved}
QUICK = {("message sent", "firing")}
CASES = [
    pytest.param(
        point, state, marks=() if (point, state) in QUICK else pytest.mark.long, id=f"{point}-{state}"
    )
    for point in POINTS
    for state in CRASHES
]


@pytest.mark.parametrize(("point", "state"), CASES)
def test_every_alert_and_its_resolution_is_notified_whenever_the_server_is_killed(
    tmp_path: Path, point: str, state: str
) -> None:
    with running_webhook() as webhook:
        CRASHES[state](RestartingServer(tmp_path, webhook), point)
        for status in ("firing", "resolved"):
            check(webhook, status, point, crashed=status == state)


def test_a_server_that_stops_does_not_wait_for_a_receiver_that_hangs(tmp_path: Path) -> None:
    with listen("127.0.0.1", 0) as mute:
        webhook = WebhookReceiver()
        webhook.url = f"http://127.0.0.1:{mute.getsockname()[1]}/webhook"
        restarting = RestartingServer(tmp_path, webhook)
        with restarting.server() as server:
            agent = restarting.agent()
            FailingQuery(agent).fails()
            mute.settimeout(TIMEOUT_SECONDS)
            connection, _ = mute.accept()
            server.send_signal(signal.SIGTERM)
            assert server.wait(TIMEOUT_SECONDS) == 0
            connection.close()
            agent.close()
