"""Every way in which a driver ends: the status and the alert that it gives, and within how many seconds.

docs/agent.md has the same table for people.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.spark.connect_server import connect_server
from tests.spark.deployment import QUICK_IDLE, Deployment, wait_for

pytestmark = [pytest.mark.spark, pytest.mark.long]

Process = subprocess.Popen[bytes]
#: Drivers at a time: each is a JVM.
AT_ONCE = 3
GRACE_SECONDS = 5.0


@dataclass(frozen=True)
class End:
    """How a driver ends, and what its queries become within `seconds`. `alert`: the only one, if any."""

    name: str
    program: str
    act: Callable[[Process, Path], None]
    status: str
    reason: str
    alert: str | None
    seconds: float
    submit: str = ""


def go(process: Process, base: Path) -> None:
    (base / "go").touch()


def python_gets(number: int) -> Callable[[Process, Path], None]:
    return lambda process, base: process.send_signal(number)


def jvm_gets(number: int) -> Callable[[Process, Path], None]:
    return lambda process, base: os.kill(jvm_of(process), number)


def jvm_of(process: Process) -> int:
    return int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0])


def pod_ends(process: Process, base: Path) -> None:
    """SIGTERM to every process, and SIGKILL after the grace period."""
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        pass
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


HEAP = "--driver-memory 512m --driver-java-options -XX:+ExitOnOutOfMemoryError "
ENDED, KILLED = "Stopped", "the driver's JVM ended"
ENDS = [
    End("killed", "wait", python_gets(signal.SIGKILL), "lost", "no heartbeat", "AgentLost", 240),
    End("hangs", "survive", jvm_gets(signal.SIGSTOP), "unreachable", "not answered", "SparkUnreachable", 300),
    End("returns", "return", go, "stopped", ENDED, None, 20),
    End("raises", "raise", go, "failed", "exception (ValueError: poison)", "DriverFailed", 20),
    End("exits", "exit", go, "stopped", ENDED, None, 20),
    End("sigterm", "wait", python_gets(signal.SIGTERM), "stopped", "by SIGTERM", None, 20),
    End("sigterm-to-the-jvm", "wait", jvm_gets(signal.SIGTERM), "stopped", "by SIGTERM", None, 20),
    End("pod", "wait", pod_ends, "stopped", "by SIGTERM", None, 20),
    End("sigint", "wait", python_gets(signal.SIGINT), "stopped", "by Ctrl-C", None, 20),
    End("jvm-killed", "wait", jvm_gets(signal.SIGKILL), "failed", KILLED, "DriverFailed", 30),
    End(
        "jvm-killed-python-lives",
        "survive",
        jvm_gets(signal.SIGKILL),
        "unreachable",
        KILLED,
        "DriverFailed",
        30,
    ),
    End("out-of-memory", "exhaust", go, "failed", KILLED, "DriverFailed", 60, HEAP),
]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Future[list[dict[str, Any]]]]]:
    """The queries of each driver after its end, by the name of the end."""
    deployment = Deployment(tmp_path_factory.mktemp("ends"))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {end.name: pool.submit(outcome, deployment, end) for end in ENDS}
        pool.shutdown(cancel_futures=True)
    deployment.close()


def outcome(deployment: Deployment, end: End) -> list[dict[str, Any]]:
    base = deployment.directory / end.name
    base.mkdir()
    process = deployment.drive(
        "ends.py", str(base), end.program, app=end.name, PYSPARK_SUBMIT_ARGS=end.submit + QUICK_IDLE
    )
    wait_for(lambda: all_queries(deployment, end.name, lambda query: query["batch_id"] is not None), 120)
    end.act(process, base)
    began = time.monotonic()
    wait_for(
        lambda: all_queries(deployment, end.name, lambda query: query["status"] == end.status), end.seconds
    )
    left = end.seconds - (time.monotonic() - began)
    if end.alert is not None:
        wait_for(lambda: alerts(deployment, end.name), left + 20)
    found = queries(deployment, end.name)
    return [{**query, "firing": alerts(deployment, end.name)} for query in found]


def queries(deployment: Deployment, app: str) -> list[dict[str, Any]]:
    return list(deployment.get(f"/api/v1/queries?app={app}")["queries"])


def all_queries(deployment: Deployment, app: str, holds: Callable[[dict[str, Any]], bool]) -> bool:
    found = queries(deployment, app)
    return len(found) == 2 and all(holds(query) for query in found)


def alerts(deployment: Deployment, app: str) -> list[str]:
    """Names of the firing alerts of an application, without that of a loaded machine."""
    found = deployment.get("/api/v1/alerts")["alerts"]
    firing = [alert for alert in found if alert["labels"].get("app") == app and alert["state"] == "firing"]
    return [alert["name"] for alert in firing if alert["name"] != "HostOverloaded"]


@pytest.mark.parametrize("end", ENDS, ids=lambda end: end.name)
def test_end_gives_its_status_and_its_alert(
    end: End, outcomes: dict[str, Future[list[dict[str, Any]]]]
) -> None:
    found = outcomes[end.name].result()
    assert {query["status"] for query in found} == {end.status}
    assert all(end.reason in query["reason"] for query in found), [query["reason"] for query in found]
    assert [query["firing"] for query in found] == [[end.alert] if end.alert else []] * 2
    assert end.status == "lost" or all("application" in query["no_driver"] for query in found)


def test_end_that_no_server_could_take_is_delivered_by_hand(deployment: Deployment) -> None:
    base = deployment.directory / "away"
    base.mkdir()
    process = deployment.drive("ends.py", str(base), "return", app="away")
    wait_for(lambda: all_queries(deployment, "away", lambda query: query["batch_id"] is not None), 120)
    deployment.kill_server()
    go(process, base)
    assert process.wait(60) == 0
    deployment.start_server()
    sent = deployment.cli("spool", "send", str(deployment.directory / "spool"))
    assert sent.returncode == 0, sent.stdout + sent.stderr
    wait_for(lambda: all_queries(deployment, "away", lambda query: query["status"] == "stopped"), 20)
    assert alerts(deployment, "away") == []


def test_killed_connect_server_is_one_page_and_the_programs_reconnection_is_seen(
    deployment: Deployment,
) -> None:
    base = deployment.directory / "connect"
    base.mkdir()
    with connect_server(base) as server:
        deployment.drive("reconnects.py", str(base), server.url, app="connect")
        wait_for(lambda: all_queries(deployment, "connect", lambda query: query["batch_id"] is not None), 120)
        before = {query["run_id"] for query in queries(deployment, "connect")}
        server.kill()
        wait_for(lambda: all_queries(deployment, "connect", is_unreachable), 30)
        wait_for(lambda: alerts(deployment, "connect"), 120)
        assert alerts(deployment, "connect") == ["SparkUnreachable"]
        server.start()
        wait_for(lambda: all_queries(deployment, "connect", lambda query: query["run_id"] not in before), 120)
        wait_for(lambda: all_queries(deployment, "connect", lambda query: query["status"] == "running"), 60)
        wait_for(lambda: alerts(deployment, "connect") == [], 60)
        assert "alert QueryFailed" not in (deployment.directory / "server.log").read_text()


def is_unreachable(query: dict[str, Any]) -> bool:
    return query["status"] == "unreachable" and "Spark Connect server" in query["no_driver"]
