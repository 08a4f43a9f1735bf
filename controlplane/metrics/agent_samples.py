"""Compute metric samples of agents and their hosts from heartbeats. Pure.

Called by `controlplane.metrics.series.scrape`. A value that is unknown or not finite is absent, never 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from controlplane.driver_model import HostLoad
from controlplane.health.host import host_load, overload
from controlplane.metrics.samples import NONE, MetricSample, is_finite, user_labels
from controlplane.model import Agent
from listeners.protocol.catalogue import BY_NAME, PREFIX

#: Metric -> field of `HostLoad`.
HOST_FIGURES = {
    "driver_host_load1": "load",
    "driver_host_cpus": "cpus",
    "driver_cpu_limit": "cpu_limit",
    "driver_cpu_throttled_ratio": "throttled_ratio",
    "driver_cpu_throttled_seconds_total": "throttled_seconds",
    "driver_host_memory_bytes": "memory_total",
    "driver_host_memory_available_bytes": "memory_available",
    "driver_memory_pressure_ratio": "memory_pressure",
}


def agent_samples(
    agents: Iterable[Agent], heartbeat_of: Callable[[str], Mapping[str, Any]]
) -> Iterator[MetricSample]:
    """Samples of every agent that has not ended.

    `heartbeat_of`: the data of an agent's last heartbeat, by id.
    """
    for agent in agents:
        if agent.ended_at is not None:
            continue
        labels = {**user_labels(agent.labels), "app": agent.app, "agent": agent.agent}
        for name, own, value in _agent_facts(agent, heartbeat_of(agent.agent)):
            if is_finite(value):
                yield MetricSample(BY_NAME[PREFIX + name], {**labels, **own}, value)


def _agent_facts(
    agent: Agent, heartbeat: Mapping[str, Any]
) -> Iterator[tuple[str, Mapping[str, str], float | None]]:
    yield "agent_heartbeat_timestamp_seconds", NONE, agent.last_contact_at
    yield "agent_start_timestamp_seconds", NONE, agent.first_seen_at
    yield "agent_events_behind_seconds", NONE, agent.last_contact_at - agent.last_seen_at
    for reason, count in agent.dropped.items():
        yield "agent_events_dropped_total", {"reason": reason}, count
    used, largest = heap(heartbeat)
    yield "executors", NONE, executors(heartbeat)
    yield "driver_heap_bytes", NONE, used
    yield "driver_heap_max_bytes", NONE, largest
    yield "listener_callback_seconds", NONE, _number_at(heartbeat, "callback", "seconds_max")
    yield from _host_facts(host_load(heartbeat))


def _host_facts(host: HostLoad | None) -> Iterator[tuple[str, Mapping[str, str], float | None]]:
    if host is not None:
        if not host.of_client:  # the driver runs elsewhere
            yield "driver_host_overloaded", NONE, overload(host) is not None
        yield from ((metric, NONE, getattr(host, figure)) for metric, figure in HOST_FIGURES.items())


def executors(heartbeat: Mapping[str, Any]) -> float | None:
    """The number of executors in a heartbeat; None if unknown."""
    return _number_at(heartbeat, "executors")


def heap(heartbeat: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """Used and largest heap of the driver in a heartbeat, in bytes; None if unknown."""
    return _number_at(heartbeat, "driver", "heapUsed"), _number_at(heartbeat, "driver", "heapMax")


def _number_at(data: Any, *path: str) -> float | None:
    """The number at a path in a JSON value, or None."""
    for name in path:
        data = data.get(name) if isinstance(data, Mapping) else None
    return data if isinstance(data, int | float) and not isinstance(data, bool) else None
