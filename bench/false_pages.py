"""Pages in healthy fleets: days of simulated queries through the shipped rules, and the gallery of troubles.

Each fleet has nights, bursts, long batches, deploys and idle topics, drawn from a seed. A page is a warning or critical
alert that fires; the bar is one page in 1,500 query-days. Each trouble of the gallery must be found by its alert.

    python bench/false_pages.py [--quick] [--queries N] [--days D] [--fleets F] [--step SECONDS]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.healthy_fleets import TROUBLES, found_troubles, healthy  # noqa: E402

SEED = 20261122


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one day of 50 queries")
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--days", type=float, default=1.0)
    parser.add_argument("--fleets", type=int, default=3, help="fleets of other seeds")
    parser.add_argument("--step", type=float, default=60.0, help="seconds between samples")
    chosen = parser.parse_args()
    queries, fleets, step = (50, 1, 120.0) if chosen.quick else (chosen.queries, chosen.fleets, chosen.step)
    began, pages, info = time.process_time(), list[str](), Counter[str]()
    for fleet in range(fleets):
        simulation = healthy(queries, chosen.days, SEED + fleet, step)
        pages += [
            f"{at / 3600:.1f} h {name} {labels.get('query', labels['app'])}"
            for at, name, _, labels in simulation.pages()
        ]
        info += Counter(name for _, name, severity, _ in simulation.fired if severity == "info")
        print(f"fleet {SEED + fleet}: {len(pages)} pages so far", file=sys.stderr)
    found = found_troubles(step)
    missed = [name for name, alerts in found.items() if TROUBLES[name].alert not in alerts]
    query_days = queries * chosen.days * fleets
    figures = {
        "query_days": query_days,
        "pages": len(pages),
        "paged": pages[:20],
        "info_alerts": dict(info),
        "pages_per_1500_query_days": round(1500 * len(pages) / query_days, 3),
        "troubles": len(found),
        "troubles_missed": missed,
        "cpu_seconds": round(time.process_time() - began, 1),
    }
    machine = {"cpus": os.cpu_count(), "python": platform.python_version()}
    print(json.dumps({"bench": "false_pages", "machine": machine, "figures": figures, "ratios": {}}))


if __name__ == "__main__":
    main()
