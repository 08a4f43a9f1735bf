"""What a query's shape states about its capacity: rate limits, state store, Dropwizard metrics. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from controlplane.capacity.declared import size
from controlplane.capacity.model import StateLimit
from controlplane.events.progress import mapping, number
from controlplane.shapes.model import Shape, ShapeError, shape_from

STATE_STORE = "spark.sql.streaming.stateStore."
PROVIDER = STATE_STORE + "providerClass"
CHANGELOG = STATE_STORE + "rocksdb.changelogCheckpointing.enabled"
BOUNDED = STATE_STORE + "rocksdb.boundedMemoryUsage"
BLOCK_CACHE = STATE_STORE + "rocksdb.blockCacheSizeMB"
METRICS = "spark.sql.streaming.metricsEnabled"
KAFKA_LIMIT, FILES_LIMIT = "maxOffsetsPerTrigger", "maxFilesPerTrigger"


def parsed_shape(row: Mapping[str, Any] | None) -> Shape | None:
    """The shape of a stored row; None without one, or where it cannot be read."""
    try:
        return shape_from(row["shape"]) if row is not None else None
    except ShapeError:
        return None


def rate_limit(shape: Shape | None) -> tuple[str, float] | None:
    """The option that caps the rows of a batch, and its value; None without one, or with several sources."""
    sources = shape.sources if shape is not None else None
    if not sources or len(sources) > 1:
        return None
    value = size(sources[0].options.get(KAFKA_LIMIT.lower(), ""))
    return None if value is None else (KAFKA_LIMIT, value)


def is_rocksdb(shape: Shape | None) -> bool | None:
    """Whether state is in RocksDB; None where it is unknown."""
    provider = shape.in_force(PROVIDER) if shape is not None else None
    return None if provider is None else "RocksDB" in provider


def heap_bytes(heartbeat: Any, executors: int | None) -> float | None:
    """The heap in which state is kept where the driver executes the tasks itself, as in local mode; None elsewhere."""
    largest = number(mapping(mapping(heartbeat).get("driver")).get("heapMax"))
    return largest if executors == 0 and largest and math.isfinite(largest) else None


def heap_limit(shape: Shape | None, heap: float | None) -> Iterator[StateLimit]:
    """The heap as the limit of state that is kept on it."""
    if heap is not None and is_rocksdb(shape) is False:
        yield StateLimit("bytes", heap, "the driver's heap")
