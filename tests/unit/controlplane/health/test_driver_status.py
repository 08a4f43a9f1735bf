"""The state of a driver, as its agent reports it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controlplane.driver_model import HostLoad, Outage
from controlplane.health.driver_status import DriverState, judge_driver
from controlplane.model import Agent
from listeners.protocol import wire
from tests.unit.controlplane.situations import NOW

AGENT = Agent(1, "a1", "billing", last_seen_at=NOW - 5, contact_at=NOW - 2)
BUSY = HostLoad(NOW - 5, load=40.0, cpus=2.0)


def test_a_driver_that_sends_heartbeats_runs() -> None:
    found = judge_driver(AGENT, HostLoad(NOW - 5, load=1.0, cpus=2.0), NOW)
    assert (found.state, found.reason) == (DriverState.RUNNING, "Heartbeat 2 s ago.")


@pytest.mark.parametrize(
    ("reason", "state", "text"),
    [
        (wire.SIGTERM, DriverState.ENDED, "Ended 1 min ago: SIGTERM ended it."),
        (None, DriverState.ENDED, "Ended 1 min ago: the program ended."),
        ("exception", DriverState.FAILED, "Ended 1 min ago: the program ended with an exception."),
        (wire.JVM_EXITED, DriverState.FAILED, "Ended 1 min ago: its JVM ended."),
    ],
)
def test_the_end_of_a_driver_has_its_reason(reason: str | None, state: DriverState, text: str) -> None:
    found = judge_driver(replace(AGENT, ended_at=NOW - 60, end_reason=reason), BUSY, NOW)
    assert (found.state, found.reason) == (state, text)


def test_silence_counts_from_when_this_server_received_events() -> None:
    quiet = replace(AGENT, last_seen_at=NOW - 200, contact_at=0.0)
    found = judge_driver(quiet, BUSY, NOW)
    assert found.state is DriverState.SILENT and found.reason.startswith("No heartbeat for 3 min 20 s: ")
    assert judge_driver(quiet, None, NOW, listening_since=NOW - 30).state is DriverState.RUNNING


def test_spark_that_does_not_answer_outranks_the_load_of_the_host() -> None:
    away = replace(AGENT, outage=Outage(wire.NO_ANSWER, NOW - 40))
    found = judge_driver(away, BUSY, NOW)
    assert found.state is DriverState.UNREACHABLE
    assert found.reason == "Spark has not answered for 40 s, although the driver sends heartbeats."


def test_an_overload_counts_while_its_heartbeat_is_fresh() -> None:
    found = judge_driver(AGENT, BUSY, NOW)
    assert (found.state, found.reason) == (
        DriverState.OVERLOADED,
        "Its host is overloaded: load 40 on 2 CPUs.",
    )
    assert judge_driver(AGENT, replace(BUSY, at=NOW - 200), NOW).state is DriverState.RUNNING
