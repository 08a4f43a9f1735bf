"""The load of a driver's host, and whether it is overloaded. Pure.

`controlplane.events` keeps the last heartbeat and the last one that showed an overload; verdicts and the advice
on failures name the overload, because a slow machine looks like slow queries and like services that do not
answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controlplane.driver_model import HostLoad
from controlplane.health.formatting import number

#: Runnable threads per CPU from which tasks take several times as long. A load of twice the CPUs is common
#: while Spark works.
MIN_LOAD_PER_CPU = 3.0
#: Share of the scheduling periods in which the cgroup was throttled.
MIN_THROTTLED_RATIO = 0.5
#: Share of the time in which no task could run for lack of memory.
MIN_MEMORY_PRESSURE = 0.2
MIN_MEMORY_AVAILABLE_RATIO = 0.03
#: An overload explains what happened up to this long after it was last seen: time-outs of two minutes.
EXPLAINS_SECONDS = 180.0

_FIGURES = {
    "load": "load",
    "cpus": "cpus",
    "cpu_limit": "cpuLimit",
    "throttled_ratio": "throttledRatio",
    "throttled_seconds": "throttledSeconds",
    "memory_total": "memoryTotal",
    "memory_available": "memoryAvailable",
    "memory_pressure": "memoryPressure",
}


def host_load(heartbeat: Mapping[str, Any] | None) -> HostLoad | None:
    """The load in the data of a heartbeat and its `at`; None where the agent reports none."""
    reported = heartbeat.get("hostLoad") if heartbeat else None
    if not isinstance(reported, Mapping) or heartbeat is None:
        return None
    figures = {name: _figure(reported.get(key)) for name, key in _FIGURES.items()}
    return HostLoad(at=heartbeat.get("at", 0.0), of_client=reported.get("of") == "client", **figures)


def _figure(value: Any) -> float | None:
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if plain and 0 <= value < 1e18 else None


def overload(host: HostLoad | None) -> str | None:
    """Why the host is overloaded: `load 40 on 2 CPUs`; None if it is not, or if it is unknown."""
    if host is None:
        return None
    if host.load is not None and host.cpus and host.load >= MIN_LOAD_PER_CPU * host.cpus:
        return f"load {number(host.load)} on {_cpus(host.cpus)}"
    if (host.throttled_ratio or 0.0) >= MIN_THROTTLED_RATIO:
        limit = f" at its limit of {_cpus(host.cpu_limit)}" if host.cpu_limit else ""
        return f"its container was throttled in {100 * (host.throttled_ratio or 0):.0f} % of the time{limit}"
    if (host.memory_pressure or 0.0) >= MIN_MEMORY_PRESSURE:
        return f"all tasks waited for memory in {100 * (host.memory_pressure or 0):.0f} % of the time"
    if host.memory_total and host.memory_available is not None:
        available = host.memory_available / host.memory_total
        if available < MIN_MEMORY_AVAILABLE_RATIO:
            return f"{100 * available:.1f} % of its memory is available"
    return None


def _cpus(count: float) -> str:
    return f"{count:g} CPU" + ("" if count == 1 else "s")


def overload_sentence(host: HostLoad | None, was: bool = False) -> str:
    """` The driver's host is overloaded: load 40 on 2 CPUs.`; empty if it is not."""
    found = overload(host)
    if host is None or found is None:
        return ""
    owner = "The host of the Connect client" if host.of_client else "The driver's host"
    return f" {owner} {'was' if was else 'is'} overloaded: {found}."


def overload_near(host: HostLoad | None, at: float) -> str | None:
    """The overload, if it was last seen at most `EXPLAINS_SECONDS` before or after `at`.

    A Connect client's host is not the driver's and explains no failure of the driver.
    """
    near = host is not None and not host.of_client and abs(at - host.at) <= EXPLAINS_SECONDS
    return overload(host) if near else None
