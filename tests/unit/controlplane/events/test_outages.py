"""Whether Spark answers an agent, from its heartbeats and polls."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from controlplane.driver_model import Outage
from controlplane.events.outages import with_outage
from controlplane.model import Agent
from controlplane.records import AgentRow
from tests.drivers import BEGIN, Driver
from tests.stores import sqlite_harness

AWAY = {"seconds": 12.0, "cause": "server_away", "detail": "connection refused"}


def outage_of(unreachable: Any, *polls: float) -> Outage | None:
    info = {"heartbeat": {"at": BEGIN, "unreachable": unreachable}}
    row = AgentRow(Agent(key=1, agent="a", app="shop"), polls=polls, info=info)
    return with_outage(row).agent.outage


def test_outage_began_so_many_seconds_before_the_heartbeat() -> None:
    assert outage_of(AWAY) == Outage("server_away", BEGIN - 12, "connection refused", BEGIN)


def test_poll_after_the_heartbeat_shows_that_spark_answers() -> None:
    assert outage_of(AWAY, BEGIN - 1) is not None
    assert outage_of(AWAY, BEGIN + 1) is None


@pytest.mark.parametrize("seconds", [10**400, 1e300, math.nan, math.inf, True])
def test_duration_that_does_not_fit_before_the_heartbeat_is_no_outage(seconds: float) -> None:
    assert outage_of({**AWAY, "seconds": seconds}) is None


@pytest.mark.parametrize(
    "unreachable",
    [None, [], "x", {}, {**AWAY, "cause": "boredom"}, {**AWAY, "seconds": None}, {**AWAY, "seconds": -1}],
)
def test_what_is_not_understood_is_no_outage(unreachable: Any) -> None:
    assert outage_of(unreachable) is None


def test_outage_survives_a_restart_of_the_server_and_ends_with_the_next_heartbeat(tmp_path: Path) -> None:
    driver = Driver()
    with sqlite_harness(tmp_path) as harness:
        harness.accept(driver.started("q", "r"), driver.line("heartbeat", {"unreachable": AWAY}))
        for window in (harness.window, harness.reloaded()):
            (view,) = window.views()
            assert view.agent is not None
            assert view.agent.outage is not None
            assert view.agent.outage.cause == "server_away"
        harness.accept(driver.line("heartbeat", {}))
        assert harness.window.agents()[0].outage is None
