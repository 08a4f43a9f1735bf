"""Read a query's trigger, sink, checkpoint, sources and watermark from a Connect writer's request.

Pure functions over `WriteStreamOperationStart` (Spark 3.5 to 4.3), the message that the client sends; the
server is not asked. The plan in it is not analyzed yet, so table names and SQL text are unresolved.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

#: Relations whose data is inside the plan.
FIXED = frozenset("local_relation cached_local_relation chunked_cached_local_relation range".split())
MAX_NODES = 100_000
MAX_LEAVES = 100
CHECKPOINT_OPTION = "checkpointlocation"

_PART = re.compile(r"(-?\d+(?:\.\d+)?)\s*([a-z]+)")
#: Spark's own rule for watermark delays: a month has 31 days.
_UNITS = {
    "year": 12 * 31 * 86400.0,
    "month": 31 * 86400.0,
    "week": 7 * 86400.0,
    "day": 86400.0,
    "hour": 3600.0,
    "minute": 60.0,
    "second": 1.0,
    "millisecond": 0.001,
    "microsecond": 0.000001,
}


class Leaf(NamedTuple):
    """An input of a plan. `kind`: stream, static, or fixed (its data is in the plan)."""

    kind: str
    name: str
    options: Mapping[str, str]


def facts(write: Any) -> dict[str, Any]:
    """As `SparkRun.facts`, without the watermark: does not read the plan and costs next to nothing."""
    trigger, interval = trigger_of(write)
    return {
        "trigger": trigger,
        "triggerInterval": interval,
        "checkpoint": option(write.options, CHECKPOINT_OPTION),
        "outputMode": (write.output_mode or "append").lower(),
        "sink": sink_of(write)[:200],
    }


def trigger_of(write: Any) -> tuple[str, float | None]:
    """(kind, seconds), such as `("processing_time", 2.0)`.

    Without a trigger Spark runs batches without a pause.
    """
    kind = write.WhichOneof("trigger")
    if kind == "available_now":
        return "available_now", None
    if kind == "once":
        return "once", None
    if kind == "continuous_checkpoint_interval":
        return "continuous", seconds_of(write.continuous_checkpoint_interval)
    if kind == "real_time_batch_duration":
        return "real_time", seconds_of(write.real_time_batch_duration)
    return "processing_time", seconds_of(write.processing_time_interval or "0 seconds")


def seconds_of(interval: str) -> float | None:
    """`interval 1 minute 30 seconds` → 90.0; None for an unknown form."""
    parts = _PART.findall(interval.lower())
    units = [_UNITS.get(unit[:-1] if unit.endswith("s") else unit) for _, unit in parts]
    if not parts or None in units:
        return None
    return sum(float(number) * (unit or 0.0) for (number, _), unit in zip(parts, units))


def option(options: Mapping[str, str], name: str) -> str | None:
    """The value of an option, whose name is case-insensitive; the last one if it is set several times."""
    found = [value for key, value in options.items() if key.lower() == name]
    return found[-1] if found else None


def sink_of(write: Any) -> str:
    """The sink, such as `ForeachBatchSink`, `table sales`, `parquet[/data/out]` or `console`."""
    if write.HasField("foreach_batch"):
        return "ForeachBatchSink"
    if write.HasField("foreach_writer"):
        return "ForeachSink"
    if write.table_name:
        return "table " + str(write.table_name)
    path = write.path or option(write.options, "path")
    return f"{write.format or 'default'}[{path}]" if path else str(write.format or "default")


def watermark_of(plan: Any) -> float | None:
    """The longest delay of a plan's watermarks in seconds; None without one."""
    delays = [
        seconds_of(node.with_watermark.delay_threshold)
        for node, _ in _relations(plan)
        if node.WhichOneof("rel_type") == "with_watermark"
    ]
    return max((delay for delay in delays if delay is not None), default=None)


def leaves(plan: Any) -> list[Leaf]:
    """The inputs of a plan, at most MAX_LEAVES. SQL text and named tables count as static: they may be."""
    found = [_leaf(node) for node, is_leaf in _relations(plan) if is_leaf]
    return found[:MAX_LEAVES]


def _leaf(node: Any) -> Leaf:
    kind = node.WhichOneof("rel_type") or "unknown"
    if kind in FIXED:
        return Leaf("fixed", kind, {})
    inside: Any = getattr(node, kind, None)
    streams = "stream" if getattr(inside, "is_streaming", False) else "static"
    if kind != "read":
        return Leaf(streams, kind, {})
    if inside.WhichOneof("read_type") == "named_table":
        return Leaf(streams, "table " + inside.named_table.unparsed_identifier, inside.named_table.options)
    return Leaf(streams, inside.data_source.format or "default", _with_path(inside.data_source))


def _with_path(source: Any) -> Mapping[str, str]:
    """The options with the paths of `load(path)`, which the message keeps separately."""
    return {**source.options, **({"path": ",".join(source.paths)} if source.paths else {})}


def _relations(plan: Any) -> Iterator[tuple[Any, bool]]:
    """(relation, whether it is a leaf) of a plan with its subqueries.

    Iterative, because plans may be deep.
    """
    pending, visited = [plan], 0
    while pending and visited < MAX_NODES:
        node, visited = pending.pop(), visited + 1
        children = _messages(node)
        pending.extend(reversed(children))
        if node.DESCRIPTOR.name == "Relation":
            yield node, not _holds_relation(children)


def _holds_relation(nodes: list[Any]) -> bool:
    """Whether there is a relation anywhere below."""
    pending, visited = list(nodes), 0
    while pending and visited < MAX_NODES:
        node, visited = pending.pop(), visited + 1
        if node.DESCRIPTOR.name == "Relation":
            return True
        pending.extend(_messages(node))
    return False


def _messages(node: Any) -> list[Any]:
    """The messages directly below one, in the order of its fields."""
    found: list[Any] = []
    for field, value in node.ListFields():
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        found.extend([value] if hasattr(value, "DESCRIPTOR") else value)
    return found
