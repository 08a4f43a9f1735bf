"""Load, CPU throttling and memory of the agent's host, for the heartbeat.

Read from `/proc` and from this process's cgroup, version 1 or 2. A figure that this system does not offer is
left out: elsewhere than on Linux only the load average is known. Standard library only, Python 3.9.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

#: Linux reports a missing memory limit of cgroup v1 as a number close to 2⁶³.
MAX_LIMIT_BYTES = 1 << 60
_PRESSURE = re.compile(r"^full avg10=([\d.]+)", re.MULTILINE)


class HostProbe:
    """Reads the figures. `of`: whose host this is, `driver` or `client` (of Spark Connect)."""

    def __init__(self, of: str = "driver", root: str = "/"):
        self._of, self._root = of, Path(root)
        self._periods: dict[str, float] | None = None

    def read(self) -> dict[str, Any]:
        """The figures as of now; those that are unknown are left out.

        `load` (1-minute average), `cpus`, `cpuLimit` (of the cgroup, in CPUs), `throttledRatio` (share of the
        scheduling periods since the previous call in which the cgroup was throttled), `throttledSeconds`
        (total), `memoryTotal` and `memoryAvailable` in bytes (of the cgroup if it has a limit),
        `memoryPressure` (share of the last 10 s in which every task waited for memory).
        """
        found = {"of": self._of, "load": _load(), "cpus": os.cpu_count(), **self._cpu(), **self._memory()}
        return {name: value for name, value in found.items() if value is not None}

    def _cpu(self) -> dict[str, Any]:
        for folder in self._folders("cpu"):
            limit = _quota(folder)
            counts = _table(folder / "cpu.stat")
            if limit is not None and "nr_periods" in counts:
                return {"cpuLimit": limit, **self._throttling(counts)}
        return {}

    def _throttling(self, counts: dict[str, float]) -> dict[str, Any]:
        before, self._periods = self._periods, counts
        seconds = counts.get("throttled_usec", counts.get("throttled_time", 0.0) / 1e3) / 1e6
        periods = counts["nr_periods"] - before["nr_periods"] if before else 0.0
        throttled = counts.get("nr_throttled", 0.0) - before.get("nr_throttled", 0.0) if before else 0.0
        ratio = round(min(1.0, throttled / periods), 4) if periods > 0 else None
        return {"throttledSeconds": round(seconds, 3), "throttledRatio": ratio}

    def _memory(self) -> dict[str, Any]:
        pressure = _pressure(self._root / "proc/pressure/memory")
        for folder in self._folders("memory"):
            limit = _number(folder / "memory.max") or _number(folder / "memory.limit_in_bytes")
            used = _number(folder / "memory.current") or _number(folder / "memory.usage_in_bytes")
            if limit is not None and used is not None and limit < MAX_LIMIT_BYTES:
                stat = _table(folder / "memory.stat")
                cache = stat.get("total_inactive_file", stat.get("inactive_file", 0.0))
                own = _pressure(folder / "memory.pressure")
                available = max(0, int(limit - used + cache))
                return {
                    "memoryTotal": int(limit),
                    "memoryAvailable": available,
                    "memoryPressure": pressure if own is None else own,
                }
        sizes = _table(self._root / "proc/meminfo")
        total, available_kb = sizes.get("MemTotal:"), sizes.get("MemAvailable:")
        return {
            "memoryTotal": None if total is None else int(total * 1024),
            "memoryAvailable": None if available_kb is None else int(available_kb * 1024),
            "memoryPressure": pressure,
        }

    def _folders(self, controller: str) -> Iterator[Path]:
        """The folders of this process's cgroup that may limit `controller`, the innermost first.

        A container sees its own cgroup as the root, so a path that does not exist is cut from its end.
        """
        mounts = self._root / "sys/fs/cgroup"
        for line in _lines(self._root / "proc/self/cgroup"):
            _, _, named = line.partition(":")
            controllers, _, path = named.partition(":")
            if not controllers:
                base = mounts
            elif controller in controllers.split(","):
                base = next((p for p in (mounts / controllers, mounts / controller) if p.is_dir()), mounts)
            else:
                continue
            place = path.strip("/")
            while place:
                yield base / place
                place = place.rpartition("/")[0]
            yield base


def _load() -> float | None:
    try:
        return round(os.getloadavg()[0], 2)
    except (AttributeError, OSError):  # Windows has none
        return None


def _quota(folder: Path) -> float | None:
    """The CPU limit of a cgroup in CPUs; None without a limit."""
    fields = _text(folder / "cpu.max").split()
    if not fields:
        fields = [_text(folder / name).strip() for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us")]
    try:
        quota, period = (float(field) for field in fields)
    except ValueError:  # `max`, or the files do not exist
        return None
    return round(quota / period, 3) if quota > 0 and period > 0 else None


def _pressure(path: Path) -> float | None:
    found = _PRESSURE.search(_text(path))
    return round(float(found.group(1)) / 100, 4) if found else None


def _number(path: Path) -> float | None:
    text = _text(path).strip()
    return float(text) if text.isdigit() else None


def _table(path: Path) -> dict[str, float]:
    """The lines `name number …` of a file."""
    rows = (line.split() for line in _lines(path))
    return {row[0]: float(row[1]) for row in rows if len(row) > 1 and row[1].isdigit()}


def _lines(path: Path) -> list[str]:
    return _text(path).splitlines()


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError):
        return ""
