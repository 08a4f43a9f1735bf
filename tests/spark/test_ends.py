"""Every way in which a driver ends: the status and the alert that it gives.

docs/agent.md has the same table for people.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Semaphore
from typing import Any

import pytest

from tests.spark import deployment as deployments
from tests.spark.connect_server import connect_server
from tests.spark.deployment import QUICK_IDLE, Deployment

pytestmark = [pytest.mark.spark, pytest.mark.long]

Process = subprocess.Popen[bytes]
GRACE_SECONDS = 5.0
#: A driver that hangs is known after three minutes, each of the others sooner; much more on a loaded machine.
LIMIT_SECONDS = 600.0
#: Drivers that start at a time: each is a JVM. Those that have started mostly wait.
starting = Semaphore(3)
#: Up to fourteen wait at a time, and each request costs the server milliseconds.
wait_for = partial(deployments.wait_for, every=0.5)


@dataclass(frozen=True)
class End:
    """How a driver ends, and what its queries become. `alert`: the only one, if any."""

    name: str
    program: str
    act: Callable[[Process, Path], None]
    status: str
    reason: str
    alert: str | None
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
    End("killed", "wait", python_gets(signal.SIGKILL), "lost", "no heartbeat", "AgentLost"),
    End("hangs", "survive", jvm_gets(signal.SIGSTOP), "unreachable", "not answered", "SparkUnreachable"),
    End("returns", "return", go, "stopped", ENDED, None),
    End("raises", "raise", go, "failed", "exception (ValueError: poison)", "DriverFailed"),
    End("exits", "exit", go, "stopped", ENDED, None),
    End("sigterm", "wait", python_gets(signal.SIGTERM), "stopped", "by SIGTERM", None),
    End("sigterm-to-the-jvm", "wait", jvm_gets(signal.SIGTERM), "stopped", "by SIGTERM", None),
    End("pod", "wait", pod_ends, "stopped", "by SIGTERM", None),
    End("sigint", "wait", python_gets(signal.SIGINT), "stopped", "by Ctrl-C", None),
    End("jvm-killed", "wait", jvm_gets(signal.SIGKILL), "failed", KILLED, "DriverFailed"),
    End(
        "jvm-killed-python-lives",
        "survive",
        jvm_gets(signal.SIGKILL),
        "unreachable",
        KILLED,
        "DriverFailed",
    ),
    End("out-of-memory", "exhaust", go, "failed", KILLED, "DriverFailed", HEAP),
]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """The server of all drivers but one."""
    with closing(Deployment(tmp_path_factory.mktemp("shared"))) as made:
        yield made


@pytest.fixture(scope="module")
def leaving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """A server that is away while its driver ends."""
    with closing(Deployment(tmp_path_factory.mktemp("leaving"))) as made:
        yield made


@pytest.fixture(scope="module")
def outcomes(shared: Deployment, leaving: Deployment) -> Iterator[dict[str, Future[Any]]]:
    """What each end gives, by its name. All run at the same time: three of them wait for minutes."""
    with ThreadPoolExecutor(len(ENDS) + 2) as pool:
        found: dict[str, Future[Any]] = {"connect": pool.submit(connect_outcome, shared)}
        found |= {end.name: pool.submit(outcome, shared, end) for end in ENDS}
        found["away"] = pool.submit(away_outcome, leaving)
        yield found
        pool.shutdown(cancel_futures=True)


def started(deployment: Deployment, program: str, app: str, *arguments: str, submit: str = "") -> Process:
    """A program in a directory of its own, once each of its queries has a batch."""
    base = deployment.directory / app
    base.mkdir(exist_ok=True)
    environ = {"PYSPARK_SUBMIT_ARGS": submit + QUICK_IDLE}
    process = deployment.drive(program, str(base), *arguments, app=app, **environ)
    wait_for(lambda: all_queries(deployment, app, lambda query: query["batch_id"] is not None), LIMIT_SECONDS)
    return process


def outcome(deployment: Deployment, end: End) -> list[dict[str, Any]]:
    """The queries of a driver after its end, each with its alerts."""
    with starting:
        process = started(deployment, "ends.py", end.name, end.program, submit=end.submit)
    end.act(process, deployment.directory / end.name)
    wait_for(
        lambda: all_queries(deployment, end.name, lambda query: query["status"] == end.status), LIMIT_SECONDS
    )
    if end.alert is not None:
        wait_for(lambda: alerts(deployment, end.name), LIMIT_SECONDS)
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
def test_end_gives_its_status_and_its_alert(end: End, outcomes: dict[str, Future[Any]]) -> None:
    found = outcomes[end.name].result()
    assert {query["status"] for query in found} == {end.status}
    assert all(end.reason in query["reason"] for query in found), [query["reason"] for query in found]
    assert [query["firing"] for query in found] == [[end.alert] if end.alert else []] * 2
    assert end.status == "lost" or all("application" in query["no_driver"] for query in found)


def away_outcome(deployment: Deployment) -> list[str]:
    """The alerts of a driver that ended while its server was away."""
    with starting:
        process = started(deployment, "ends.py", "away", "return")
    deployment.kill_server()
    go(process, deployment.directory / "away")
    assert process.wait(LIMIT_SECONDS) == 0
    deployment.start_server()
    sent = deployment.cli("spool", "send", str(deployment.directory / "spool"))
    assert sent.returncode == 0, sent.stdout + sent.stderr
    wait_for(
        lambda: all_queries(deployment, "away", lambda query: query["status"] == "stopped"), LIMIT_SECONDS
    )
    return alerts(deployment, "away")


def test_end_that_no_server_could_take_is_delivered_by_hand(outcomes: dict[str, Future[Any]]) -> None:
    assert outcomes["away"].result() == []


def connect_outcome(deployment: Deployment) -> list[str]:
    """The alerts of a program whose Spark Connect server is killed and started again."""
    base = deployment.directory / "connect"
    base.mkdir()
    with connect_server(base) as server:
        started(deployment, "reconnects.py", "connect", server.url)
        before = {query["run_id"] for query in queries(deployment, "connect")}
        server.kill()
        wait_for(lambda: all_queries(deployment, "connect", is_unreachable), LIMIT_SECONDS)
        wait_for(lambda: alerts(deployment, "connect"), LIMIT_SECONDS)
        found = alerts(deployment, "connect")
        server.start()
        wait_for(
            lambda: all_queries(deployment, "connect", lambda query: query["run_id"] not in before),
            LIMIT_SECONDS,
        )
        wait_for(
            lambda: all_queries(deployment, "connect", lambda query: query["status"] == "running"),
            LIMIT_SECONDS,
        )
        wait_for(lambda: alerts(deployment, "connect") == [], LIMIT_SECONDS)
    return found


def test_killed_connect_server_is_one_page_and_the_programs_reconnection_is_seen(
    outcomes: dict[str, Future[Any]],
) -> None:
    assert outcomes["connect"].result() == ["SparkUnreachable"]


def test_no_end_of_a_driver_is_a_failure_of_its_queries(
    shared: Deployment, outcomes: dict[str, Future[Any]]
) -> None:
    wait(outcomes.values())
    log = (shared.directory / "server.log").read_text()
    assert "alert DriverFailed" in log and "alert QueryFailed" not in log


def is_unreachable(query: dict[str, Any]) -> bool:
    return query["status"] == "unreachable" and "Spark Connect server" in query["no_driver"]
