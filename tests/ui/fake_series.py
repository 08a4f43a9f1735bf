"""Prometheus' JSON as the server's query API gives it, made up: one wave a metric that an expression names."""

from __future__ import annotations

import math
import re
from typing import Any

Json = dict[str, Any]

#: Metrics that there are, with their label and mean; what is asked for besides has no series.
KNOWN: dict[str, tuple[dict[str, str], float]] = {
    "spark_streaming_source_lag_seconds": ({"source": "KafkaV2[Subscribe[orders]]"}, 26.0),
    "spark_streaming_input_rows_per_second": ({}, 120.0),
    "spark_streaming_batch_duration_seconds": ({}, 4.0),
    "spark_streaming_watermark_lag_seconds": ({}, 65.0),
    "spark_streaming_rocksdb_sst_files_bytes": ({"operator": "dedupe"}, 3.4e8),
    "spark_streaming_rocksdb_pinned_blocks_bytes": ({"operator": "dedupe"}, 4e7),
    "spark_streaming_rocksdb_get_seconds": ({"operator": "dedupe"}, 0.34),
    "spark_streaming_rocksdb_put_seconds": ({"operator": "dedupe"}, 0.12),
    "spark_streaming_executors": ({"agent": "5f0c8f6e"}, 4.0),
    "spark_streaming_driver_heap_bytes": ({"agent": "5f0c8f6e"}, 6e8),
    "spark_streaming_driver_heap_max_bytes": ({"agent": "5f0c8f6e"}, 2e9),
    "spark_streaming_driver_host_load1": ({"agent": "5f0c8f6e"}, 2.5),
    "spark_streaming_driver_host_cpus": ({"agent": "5f0c8f6e"}, 8.0),
    "spark_streaming_driver_host_memory_bytes": ({"agent": "5f0c8f6e"}, 8e9),
    "spark_streaming_driver_host_memory_available_bytes": ({"agent": "5f0c8f6e"}, 3.4e9),
    "spark_streaming_driver_cpu_throttled_ratio": ({"agent": "5f0c8f6e"}, 0.04),
    "spark_streaming_driver_memory_pressure_ratio": ({"agent": "5f0c8f6e"}, 0.01),
}


def matrix(expression: str, start: float, end: float, step: float, labels: Json | None = None) -> Json:
    """What a range query of this expression answers; `labels` replace those of every series."""
    named = [name for name in KNOWN if re.search(rf"\b{name}\b", expression)]
    times = [start + n * step for n in range(int((end - start) / step) + 1)]
    result = [
        {
            "metric": {"__name__": name, **_line(name, expression), **KNOWN[name][0], **(labels or {})},
            "values": [[at, f"{KNOWN[name][1] * (1 + 0.2 * math.sin(at / 200)):.6g}"] for at in times],
        }
        for name in named
    ]
    return {"status": "success", "data": {"resultType": "matrix", "result": result}}


def _line(name: str, expression: str) -> Json:
    """The label by which an expression reports this metric from others."""
    found = re.search(rf'\b{name}{{[^}}]*}}, "line", "([^"]*)"', expression)
    return {"line": found[1]} if found else {}


def vector(now: float, value: float | None) -> Json:
    """What an instant query answers: one element, or none."""
    result = [] if value is None else [{"metric": {}, "value": [now, f"{value:g}"]}]
    return {"status": "success", "data": {"resultType": "vector", "result": result}}
