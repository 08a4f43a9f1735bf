"""What an agent reports of its driver: whether Spark answers, and the load of the host.

Part of the server's domain model (`controlplane.model`), with the same conventions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Outage:
    """Spark has not answered a driver's agent since `since` (Unix seconds).

    `cause`: one of `listeners.protocol.wire.OUTAGE_CAUSES`; `detail`: the error in one line. `seen_at`: when the
    agent last found it so; Spark may have answered since.
    """

    cause: str
    since: float
    detail: str | None = None
    seen_at: float = math.inf


@dataclass(frozen=True)
class FailedDriver:
    """The next driver of an application, which ended with an exception or lost its JVM at `ended_at` (Unix seconds)
    before it started a query."""

    ended_at: float
    exception: str | None = None


@dataclass(frozen=True)
class HostLoad:
    """Load of an agent's host as of a heartbeat at `at`; sizes in bytes, limits and counts in CPUs.

    `of_client`: the host is that of a Spark Connect client, not the driver's. The ratios are shares of time.
    """

    at: float
    of_client: bool = False
    load: float | None = None  # 1-minute average
    cpus: float | None = None
    cpu_limit: float | None = None
    throttled_ratio: float | None = None
    throttled_seconds: float | None = None
    memory_total: float | None = None
    memory_available: float | None = None
    memory_pressure: float | None = None
