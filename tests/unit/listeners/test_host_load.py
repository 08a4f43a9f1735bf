"""What the agent reads of its host, from the files of both versions of cgroups."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from listeners.host_load import HostProbe

MEMINFO = "MemTotal:       8000000 kB\nMemFree:        100 kB\nMemAvailable:    2000000 kB\nHugePages_Total:       0\n"
PRESSURE = (
    "some avg10=50.00 avg60=1.00 avg300=0.00 total=5\nfull avg10=12.50 avg60=1.00 avg300=0.00 total=5\n"
)


def write(root: Path, files: dict[str, str]) -> str:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(root)


def stat(periods: int, throttled: int, unit: str = "throttled_usec 2500000") -> str:
    return f"nr_periods {periods}\nnr_throttled {throttled}\n{unit}\n"


def test_the_load_of_this_host_is_real() -> None:
    found = HostProbe().read()
    assert found["of"] == "driver"
    assert found["cpus"] == os.cpu_count()
    assert found["load"] == pytest.approx(os.getloadavg()[0], abs=1)
    assert 0 < found["memoryAvailable"] <= found["memoryTotal"]


def test_a_host_without_cgroup_limits_has_its_own_memory(tmp_path: Path) -> None:
    root = write(
        tmp_path,
        {
            "proc/meminfo": MEMINFO,
            "proc/pressure/memory": PRESSURE,
            "proc/self/cgroup": "0::/user.slice\n",
            "sys/fs/cgroup/user.slice/cpu.max": "max 100000\n",
            "sys/fs/cgroup/user.slice/cpu.stat": stat(0, 0),
            "sys/fs/cgroup/user.slice/memory.max": "max\n",
            "sys/fs/cgroup/user.slice/memory.current": "7\n",
        },
    )
    found = HostProbe(root=root).read()
    assert (found["memoryTotal"], found["memoryAvailable"]) == (8_192_000_000, 2_048_000_000)
    assert found["memoryPressure"] == 0.125
    assert not {"cpuLimit", "throttledRatio", "throttledSeconds"} & found.keys()


def test_throttling_is_the_share_of_periods_since_the_previous_heartbeat(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "0::/pod/container\n",
        "sys/fs/cgroup/pod/cpu.max": "150000 100000\n",  # the limit may be that of the pod
        "sys/fs/cgroup/pod/cpu.stat": stat(100, 10),
        "sys/fs/cgroup/pod/container/cpu.max": "max 100000\n",
        "sys/fs/cgroup/pod/container/cpu.stat": stat(7, 7),
    }
    probe = HostProbe(root=write(tmp_path, files))
    first = probe.read()
    assert (first["cpuLimit"], first["throttledSeconds"]) == (1.5, 2.5)
    assert "throttledRatio" not in first
    write(tmp_path, {"sys/fs/cgroup/pod/cpu.stat": stat(200, 90)})
    assert probe.read()["throttledRatio"] == 0.8


def test_cgroup_v1_of_a_container_that_sees_its_cgroup_as_the_root(tmp_path: Path) -> None:
    root = write(
        tmp_path,
        {
            "proc/self/cgroup": "4:memory:/docker/abc\n2:cpu,cpuacct:/docker/abc\n1:name=systemd:/\n0::/\n",
            "proc/meminfo": MEMINFO,
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "50000\n",
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/cpu,cpuacct/cpu.stat": stat(10, 1, "throttled_time 1500000000"),
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "1000000000\n",
            "sys/fs/cgroup/memory/memory.usage_in_bytes": "950000000\n",
            "sys/fs/cgroup/memory/memory.stat": "cache 1\ntotal_inactive_file 200000000\n",
        },
    )
    found = HostProbe("client", root).read()
    assert found["of"] == "client"
    assert (found["cpuLimit"], found["throttledSeconds"]) == (0.5, 1.5)
    assert (found["memoryTotal"], found["memoryAvailable"]) == (1_000_000_000, 250_000_000)


def test_cgroup_v1_without_limits_reports_none(tmp_path: Path) -> None:
    root = write(
        tmp_path,
        {
            "proc/self/cgroup": "2:memory:/\n1:cpu:/\n",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/cpu/cpu.stat": stat(0, 0),
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            "sys/fs/cgroup/memory/memory.usage_in_bytes": "5\n",
        },
    )
    assert HostProbe(root=root).read().keys() == {"of", "load", "cpus"}


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"proc/self/cgroup": "nonsense", "proc/meminfo": "MemTotal:\nx y z", "proc/pressure/memory": "\0"},
        {"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/cpu.max": "1 0", "sys/fs/cgroup/a/cpu.stat": "x"},
    ],
)
def test_missing_and_invalid_values_are_omitted(tmp_path: Path, files: dict[str, str]) -> None:
    assert HostProbe(root=write(tmp_path, files)).read().keys() == {"of", "load", "cpus"}
