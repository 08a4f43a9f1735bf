"""When a host counts as overloaded, and which sentences name it."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.driver_model import HostLoad
from controlplane.health.context import context_at
from controlplane.health.failures import explain
from controlplane.health.host import host_load, overload, overload_near, overload_sentence
from controlplane.health.judge import judge
from controlplane.health.terminal_status import failure
from controlplane.health.thresholds import DEFAULTS
from controlplane.model import QueryStatus, RunEnd
from tests.unit.controlplane.situations import NOW, agent, batches, ended, long_batch, view

BUSY = HostLoad(at=NOW - 3, load=40.2, cpus=2)
CALM = HostLoad(at=NOW - 3, load=2.5, cpus=2, memory_total=8e9, memory_available=4e9, throttled_ratio=0.1)
WORKER = "org.apache.spark.SparkException: Python worker failed to connect back."
BROKER = "org.apache.kafka.common.errors.TimeoutException: Timeout expired while fetching topic metadata"


@pytest.mark.parametrize(
    ("figures", "reason"),
    [
        ({"load": 40.2, "cpus": 2}, "load 40 on 2 CPUs"),
        ({"load": 3, "cpus": 1}, "load 3 on 1 CPU"),
        ({"load": 5.9, "cpus": 2}, None),
        ({"load": 900.0}, None),
        (
            {"throttledRatio": 0.8, "cpuLimit": 1.5, "load": 1, "cpus": 64},
            "its container was throttled in 80 % of the time at its limit of 1.5 CPUs",
        ),
        ({"throttledRatio": 0.49, "cpuLimit": 1.5}, None),
        ({"memoryPressure": 0.3}, "all tasks waited for memory in 30 % of the time"),
        ({"memoryTotal": 1e9, "memoryAvailable": 1e7}, "1.0 % of its memory is available"),
        ({"memoryTotal": 0, "memoryAvailable": 0}, None),
        ({"load": "40", "cpus": True, "memoryTotal": -1}, None),
        ({"load": float("nan"), "cpus": 2, "throttledRatio": float("inf")}, None),
        ({}, None),
    ],
)
def test_a_host_is_overloaded_for_a_reason(figures: dict[str, Any], reason: str | None) -> None:
    assert overload(host_load({"at": NOW, "hostLoad": figures})) == reason


@pytest.mark.parametrize("heartbeat", [None, {}, {"hostLoad": "much"}, {"hostLoad": None, "at": NOW}])
def test_an_agent_that_reports_no_load_has_no_overload(heartbeat: Any) -> None:
    assert host_load(heartbeat) is None
    assert overload(None) is None
    assert overload_sentence(None) == ""


@pytest.mark.parametrize(
    ("found", "status"),
    [
        (long_batch(quiet=400), QueryStatus.STUCK),
        (long_batch(quiet=10), QueryStatus.BUSY),
        (view(progress=batches([20 * n for n in range(12)])), QueryStatus.LAGGING),
        (view(), QueryStatus.RUNNING),
    ],
)
def test_the_verdict_on_a_running_query_names_the_overload_of_its_host(
    found: Any, status: QueryStatus
) -> None:
    plain = judge(found, NOW)
    assert plain.status is status
    named = judge(view(**{**vars(found), "host": BUSY}), NOW)
    assert named.status is status
    assert named.reason == plain.reason + " The driver's host is overloaded: load 40 on 2 CPUs."
    assert judge(view(**{**vars(found), "host": CALM}), NOW) == plain
    outdated = HostLoad(at=NOW - 300, load=40, cpus=2)
    assert judge(view(**{**vars(found), "host": outdated}), NOW) == plain


def test_a_clients_host_is_not_called_the_drivers() -> None:
    client = HostLoad(at=NOW, of_client=True, load=40, cpus=2)
    assert judge(view(host=client), NOW).reason.endswith(
        " The host of the Connect client is overloaded: load 40 on 2 CPUs."
    )
    assert overload_near(client, NOW) is None


@pytest.mark.parametrize("text", [WORKER, BROKER])
def test_a_time_out_under_overload_is_put_down_to_it(text: str) -> None:
    failed = view(run=ended(RunEnd.FAILED, ago=100, failure_text=text), overload=BUSY)
    advice = failure(context_at(failed, NOW, DEFAULTS)).advice
    assert "overloaded (load 40 on 2 CPUs)" in advice
    assert "broker" not in advice
    assert "overloaded (load 40 on 2 CPUs)" in judge(failed, NOW).reason


@pytest.mark.parametrize(
    ("text", "seen_before"),
    [(BROKER, 1000.0), ("java.lang.OutOfMemoryError: Java heap space", 0.0), ("Connection refused", 0.0)],
)
def test_an_overload_long_before_or_another_cause_changes_no_advice(text: str, seen_before: float) -> None:
    overloaded = HostLoad(at=NOW - 100 - seen_before, load=40, cpus=2)
    failed = view(run=ended(RunEnd.FAILED, ago=100, failure_text=text), overload=overloaded)
    assert failure(context_at(failed, NOW, DEFAULTS)) == explain(text)


def test_a_driver_that_fell_silent_under_overload_was_overloaded() -> None:
    silent = {"status": None, "polls": (), "progress": (), "agent": agent(last_seen_at=NOW - 120)}
    lost = view(**silent, overload=HostLoad(at=NOW - 120, load=40, cpus=2))
    found = judge(lost, NOW)
    assert found.status is QueryStatus.LOST
    assert found.reason.endswith(" The driver's host was overloaded: load 40 on 2 CPUs.")
