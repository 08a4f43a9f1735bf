"""Which heartbeats are news of a driver's queries."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from controlplane.driver_model import Outage
from controlplane.events.agent_host import agent_host, is_news
from controlplane.model import Agent
from controlplane.records import AgentRow

ROW = AgentRow(Agent(1, "a1", "shop", last_seen_at=10.0, high_seq=3))


def heartbeat(at: float, **data: Any) -> dict[str, Any]:
    return {"heartbeat": {"at": at, **data}}


def load(value: float) -> dict[str, float]:
    return {"load": value, "cpus": 2}


@pytest.mark.parametrize(
    ("before", "after", "news"),
    [
        (heartbeat(1, hostLoad=load(0.1)), heartbeat(2, hostLoad=load(0.2)), False),
        (heartbeat(1, hostLoad=load(0.1)), heartbeat(2, hostLoad=load(40)), True),
        (heartbeat(1, hostLoad=load(40)), heartbeat(2, hostLoad=load(40)), True),
        (heartbeat(1, executors=2), heartbeat(2, executors=2), False),
        (heartbeat(1, executors=2), heartbeat(2, executors=0), True),
        ({}, {"overload": {"at": 1.0, "hostLoad": load(40)}}, True),
    ],
)
def test_news_of_the_host(before: dict[str, Any], after: dict[str, Any], news: bool) -> None:
    assert is_news(ROW, ROW, agent_host(before), agent_host(after)) is news


@pytest.mark.parametrize(
    ("change", "news"),
    [
        ({"last_seen_at": 20.0, "high_seq": 9, "clock_offset": 0.5}, False),
        ({"ended_at": 20.0}, True),
        ({"outage": Outage("server_away", 1.0)}, True),
        ({"ui_url": "http://ui"}, True),
    ],
)
def test_news_of_the_agent(change: dict[str, Any], news: bool) -> None:
    row = replace(ROW, agent=replace(ROW.agent, **change))
    assert is_news(ROW, row, agent_host({}), agent_host({})) is news
