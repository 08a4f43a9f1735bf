"""Comparison of sink, output mode, output columns and filters."""

from __future__ import annotations

from collections.abc import Iterator

from controlplane.shapes.findings import (
    ChangeEffect,
    ShapeFinding,
    When,
    allowed,
    fatal,
    harmful,
    with_consequences,
)
from controlplane.shapes.model import Endpoint, Shape, place_of

FILES = "FileStreamSink"
USER_CODE = ("ForeachBatchSink", "ForeachWriterTable", "PythonForeachWriter")
#: Sinks that do not track batches.
UNTRACKED_SINKS = ("NoopTable", "ConsoleTable", "MemorySink")
AGGREGATES = ("aggregate", "session_aggregate")
WITHOUT_MODE = "STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION"


def compare_sink(old: Shape, new: Shape) -> Iterator[ShapeFinding]:
    """Compare the type of the sink, then its parameters."""
    before, after = old.sink, new.sink
    if before is None or after is None:
        return
    if before.type != after.type:
        yield _kind(before, after)
    elif before.type == FILES:
        yield from _files(before, after)
    else:
        yield from _parameters(before, after)


def _kind(before: Endpoint, after: Endpoint) -> ShapeFinding:
    change = f"the sink was {before.type} and is {after.type}"
    if after.type == FILES:
        return harmful(
            "sink.type",
            change,
            "It runs, but the sink's log starts with the next batch: Spark cannot read the output, and the query fails at the "
            "next compaction of that log.",
            "Write files from a new checkpoint, or in foreachBatch.",
        )
    if before.type == FILES and after.type in USER_CODE:
        return with_consequences(
            "sink.type",
            ChangeEffect.RUNS,
            change,
            "It runs; the new sink gets only new data, and an uncommitted batch may come twice.",
            "Make the function recognize a batch by its id.",
        )
    return with_consequences(
        "sink.type", ChangeEffect.RUNS, change, "It runs; the new sink gets only new data."
    )


def _files(before: Endpoint, after: Endpoint) -> Iterator[ShapeFinding]:
    if place_of(before) != place_of(after):
        yield harmful(
            "sink.path",
            f"the output was {before.description} and is {after.description}",
            "It runs, but the log of the new directory lacks the earlier batches: Spark cannot read the output, and the "
            "query fails with BATCH_METADATA_NOT_FOUND at the next compaction of that log.",
            "Restore the path, or start on a new checkpoint.",
        )
    if before.format and after.format and before.format != after.format:
        yield with_consequences(
            "sink.format",
            ChangeEffect.HARMS,
            f"the output was {before.format} and is {after.format}",
            "It runs and leaves files of two formats in one directory, which no reader can read together.",
            "Write the new format to a new path from a new checkpoint.",
        )
    if before.options.get("partitionby") != after.options.get("partitionby"):
        yield with_consequences(
            "sink.partitions",
            ChangeEffect.HARMS,
            "the output is partitioned by other columns",
            "It runs and leaves two partition layouts in one directory.",
            "Write the new layout to a new path from a new checkpoint.",
        )


def _parameters(before: Endpoint, after: Endpoint) -> Iterator[ShapeFinding]:
    for name in ("topic", "path"):
        was, now = before.options.get(name), after.options.get(name)
        if was != now:
            yield with_consequences(
                "sink.parameters",
                ChangeEffect.RUNS,
                f"the sink's {name} was {was or 'not set'} and is {now or 'not set'}",
                "It runs; the new target gets only new data.",
            )


# -- output mode, columns, filters -----------------------------------------------------------------------------


def compare_output_mode(old: Shape, new: Shape) -> Iterator[ShapeFinding]:
    """Report a mode that Spark refuses for this query, else a change between modes."""
    refused = _refused(new)
    if refused is not None:
        yield refused
    elif old.output_mode and new.output_mode and old.output_mode != new.output_mode:
        stateful = bool(new.operators)
        yield with_consequences(
            "outputMode",
            ChangeEffect.RUNS,
            f"the output mode was {old.output_mode} and is {new.output_mode}",
            "It runs on the same state. The sink gets different rows per batch: "
            + (
                "rows already written are not retracted."
                if stateful
                else "for this query the same rows as before."
            ),
            "Make sure that the readers of the sink expect it.",
        )


def _refused(new: Shape) -> ShapeFinding | None:
    aggregates = any(each.kind in AGGREGATES for each in new.operators or ())
    change = f"the output mode is {new.output_mode}"
    if new.output_mode == "append" and aggregates and new.watermarks == ():
        return fatal(
            "outputMode",
            f"{change}, with an aggregation and no watermark",
            "Spark could never finish a group.",
            "Add a watermark, or use update or complete.",
            WITHOUT_MODE,
            When.START,
        )
    if new.output_mode == "complete" and new.operators is not None and not aggregates:
        return fatal(
            "outputMode",
            f"{change}, without an aggregation",
            "There is no result table to write completely.",
            "Use append or update.",
            WITHOUT_MODE,
            When.START,
        )
    if new.output_mode in ("complete", "update") and new.sink is not None and new.sink.type == FILES:
        return fatal(
            "outputMode",
            f"{change}, and the sink writes files",
            "A file sink only appends.",
            "Use append, or another sink.",
            "STREAMING_OUTPUT_MODE.UNSUPPORTED_DATASOURCE",
            When.START,
        )
    return None


def compare_projection(old: Shape, new: Shape) -> Iterator[ShapeFinding]:
    """Compare the output columns; `compare_operators` compares the state."""
    before, after = old.output_schema, new.output_schema
    if before is None or after is None or before == after:
        return
    change = f"the output had {_columns(before)} and has {_columns(after)}"
    kind = new.sink.type if new.sink else None
    if kind in UNTRACKED_SINKS:
        yield allowed("projection", change, "The sink accepts any schema.")
    elif kind == FILES:
        yield with_consequences(
            "projection",
            ChangeEffect.HARMS if _retyped(before, after) else ChangeEffect.RUNS,
            change,
            "It runs and leaves files of two schemas in one directory.",
            "Make sure that readers merge schemas, or write to a new path from a new checkpoint.",
        )
    else:
        yield with_consequences(
            "projection",
            ChangeEffect.UNKNOWN,
            change,
            "It runs if the sink accepts the new columns.",
            "Test it with a copy of the sink.",
        )


def _columns(schema: tuple[tuple[str, str], ...]) -> str:
    listed = ", ".join(f"{name} {type}" for name, type in schema[:12])
    return f"({listed}{', …' if len(schema) > 12 else ''})"


def _retyped(before: tuple[tuple[str, str], ...], after: tuple[tuple[str, str], ...]) -> bool:
    types = dict(before)
    return any(types.get(name, type) != type for name, type in after)


def compare_filters(old: Shape, new: Shape) -> Iterator[ShapeFinding]:
    """Compare the filters."""
    if old.filters is not None and new.filters is not None and old.filters != new.filters:
        yield allowed(
            "filters",
            "filters were added, removed or changed",
            "They apply from the next batch on; existing state and output do not change.",
        )
