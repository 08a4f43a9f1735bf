"""Thresholds of the shipped rules by name, and the recorded series that replace them for some queries.

A rule file of the user records `spark_streaming_threshold:NAME` with the labels `app` and `query_id`, as in Prometheus'
idiom of time series as thresholds. A query with such a series has its value as threshold, the smallest of several;
all others have the default. Used by `alerts.rules.pack` and by `controlplane rules check`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from textwrap import indent
from types import MappingProxyType

PREFIX = "spark_streaming_threshold:"
#: Default of each threshold; None: the rule applies only where a series is recorded.
DEFAULTS: Mapping[str, float | None] = MappingProxyType(
    {
        "lag_seconds": 300,
        "lag_critical_seconds": 1200,
        "lag_growing_seconds": 60,
        "capacity_ratio": 1,
        "retention_ratio": 0.5,
        "retention_critical_ratio": 0.8,
        "late_rows_ratio": 0.01,
        "late_rows_critical_ratio": 0.1,
        "watermark_lag_seconds": 600,
        "slow_start_seconds": 600,
        "rewind_rows": 0,
        "skew_rows": 1000,
        "state_growth_rows": 10000,
        "snapshot_lag_versions": 100,
        "state_commit_ratio": 0.5,
        "checkpoint_write_ratio": 0.3,
        "writer_stall_ratio": 0.1,
        "state_memory_bytes": None,
        "state_memory_tripled_bytes": 1e9,
    }
)


def comparison(left: str, name: str) -> str:
    """PromQL of `left` above its threshold: the default, or the recorded series of the query. KeyError for an
    unknown name."""
    series, default = PREFIX + name, DEFAULTS[name]
    own = f"{_line(left)}\n> on (app, query_id) group_left ()\n  min by (app, query_id) ({series})"
    if default is None:
        return f"(\n{indent(own, '  ')}\n)"
    others = f"{_line(left)} > {default:g}\n  unless on (app, query_id)\n{series}"
    return f"(\n{indent(others, '    ')}\n  or\n{indent(own, '    ')}\n)"


def _line(text: str) -> str:
    return " ".join(text.split())


def mistakes(record: str) -> Iterator[str]:
    """What is wrong with the name of a recorded series; nothing unless it begins with `PREFIX`."""
    name = record.removeprefix(PREFIX)
    if record.startswith(PREFIX) and name not in DEFAULTS:
        near = difflib.get_close_matches(name, DEFAULTS, 1)
        known = f"did you mean {PREFIX}{near[0]}?" if near else f"known: {', '.join(sorted(DEFAULTS))}"
        yield f"no rule has a threshold {name[:100]!r}; {known}"
