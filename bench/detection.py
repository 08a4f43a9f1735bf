"""Time from the report that a query failed to its webhook, with `group_wait: 0s`, while a fleet reports.

The server runs as users start it, with the shipped rules. Of N queries each reports every 10 s; every 2 s one of them
fails. `p50_seconds` and `p99_seconds` are those of the largest fleet. See `bench/fleet.py`, which also measures the cost.

    python bench/detection.py [--quick] [--queries N …] [--seconds S]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.fleet import measure  # noqa: E402

KEPT = ("failures", "failures_not_notified", "stored_over_wanted", "server_cpu_cores")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="200 queries for 15 s")
    parser.add_argument("--queries", type=int, nargs="+", default=[1_000, 10_000])
    parser.add_argument(
        "--seconds", type=float, default=120.0, help="measured time, after the fleet has started"
    )
    chosen = parser.parse_args()
    figures: dict[str, float] = {}
    for queries in [200] if chosen.quick else chosen.queries:
        found = measure(queries, 15.0 if chosen.quick else chosen.seconds)
        percentiles = {name: found[f"detection_{name}"] for name in ("p50_seconds", "p99_seconds")}
        figures |= {f"{name}_{queries}_queries": value for name, value in percentiles.items()}
        figures |= {f"{name}_{queries}_queries": found[name] for name in KEPT} | percentiles
    rounded = {name: round(value, 4) for name, value in figures.items()}
    machine = {"cpus": os.cpu_count(), "python": platform.python_version()}
    print(json.dumps({"bench": "detection", "machine": machine, "figures": rounded, "ratios": {}}))


if __name__ == "__main__":
    main()
