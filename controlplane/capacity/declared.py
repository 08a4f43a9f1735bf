"""Limits that a query's labels declare: retention of its sources, size of its state. Pure.

`retention="7d"`, `state_limit_rows="5000000"`, `state_limit_bytes="4GiB"`: Spark reports none of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

from alerts.durations import parse_duration
from controlplane.capacity.model import StateLimit

RETENTION_LABEL = "retention"
ROWS_LABEL, BYTES_LABEL = "state_limit_rows", "state_limit_bytes"
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([kKmMgGtT])(i?)[bB])?")


@lru_cache(maxsize=256)
def duration(text: str) -> float | None:
    """Seconds of a Prometheus duration; None if it is none."""
    try:
        return parse_duration(text) or None
    except ValueError:
        return None


def retention(labels: Mapping[str, str]) -> float | None:
    """Seconds for which the query's sources keep rows; None where it is not declared."""
    return duration(labels.get(RETENTION_LABEL, ""))


@lru_cache(maxsize=256)
def size(text: str) -> float | None:
    """`5000000`, `4GiB`, `1.5 TB` as a number; None if it is none."""
    found = _SIZE.fullmatch(text.strip()[:40])
    if found is None:
        return None
    number, letter, binary = found.groups()
    power = "kmgt".index(letter.lower()) + 1 if letter else 0
    return float(number) * (1024 if binary else 1000) ** power or None


def state_limits(labels: Mapping[str, str]) -> Iterator[StateLimit]:
    """The limits of the state that the labels declare."""
    for unit, label in (("rows", ROWS_LABEL), ("bytes", BYTES_LABEL)):
        value = size(labels.get(label, ""))
        if value is not None:
            yield StateLimit(unit, value, f"label {label}")
