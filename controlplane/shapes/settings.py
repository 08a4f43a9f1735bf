"""Comparison of watermarks, pinned settings, trigger, progress tracking, Spark version and name."""

from __future__ import annotations

from collections.abc import Iterator

from controlplane.shapes.findings import ChangeEffect, ShapeFinding, When, allowed, fatal, with_consequences
from controlplane.shapes.model import Shape

STREAMING = "spark.sql.streaming."
PARTITIONS = "spark.sql.shuffle.partitions"
PROVIDER = STREAMING + "stateStore.providerClass"
#: Setting → its description. The first offset entry pins these settings for as long as the checkpoint exists.
PINNED = {
    PARTITIONS: "the number of shuffle partitions",
    PROVIDER: "the state store provider",
    STREAMING + "multipleWatermarkPolicy": "the policy for several watermarks",
    STREAMING + "stateStore.encodingFormat": "the encoding of state",
    STREAMING + "stateStore.checkpointFormatVersion": "the format of state checkpoints",
    STREAMING + "offsetLog.formatVersion": "the format of the offset log",
}
#: Settings that may change at every start.
FREE = (
    STREAMING + "stateStore.rocksdb.changelogCheckpointing.enabled",
    STREAMING + "stateStore.rocksdb.trackTotalNumberOfRows",
)
EVOLUTION = STREAMING + "queryEvolution.enableSourceEvolution"
SCHEMA_CHECK = STREAMING + "stateStore.stateSchemaCheck"
ASYNC = "asyncprogresstrackingenabled"
ASYNC_INTERVAL = "asyncprogresstrackingcheckpointintervalms"
#: Setting of a format that older Sparks cannot read → its oldest value.
FORMATS = {
    STREAMING + "offsetLog.formatVersion": "1",
    STREAMING + "stateStore.checkpointFormatVersion": "1",
}


def compare_watermarks(old: Shape, new: Shape) -> Iterator[ShapeFinding]:
    """Compare the watermarks. Delays may change; without a watermark, state is no longer removed."""
    before, after = old.watermarks, new.watermarks
    if before is None or after is None or before == after:
        return
    change = f"watermarks were {_watermark_text(old)} and are {_watermark_text(new)}"
    if len(after) < len(before) and new.operators:
        yield with_consequences(
            "watermark",
            ChangeEffect.HARMS,
            change,
            "It runs if the output mode allows it, but state is no longer removed and grows.",
            "Keep a watermark, or limit the state in another way.",
        )
    else:
        yield allowed(
            "watermark", change, "The watermark in the checkpoint applies until new data advances it."
        )


def _watermark_text(shape: Shape) -> str:
    return ", ".join(f"{each.column} − {each.delay}" for each in shape.watermarks or ()) or "none"


def compare_settings(old: Shape, new: Shape) -> Iterator[ShapeFinding]:
    """Compare the settings. The checkpoint's pinned values apply, whatever the new program sets."""
    for name, description in PINNED.items():
        was, now = old.in_force(name), new.setting(name)
        if was is not None and now is not None and was != now:
            yield _pinned(name, description, was, now, bool(new.operators))
    for name in FREE:
        was, now = old.setting(name), new.setting(name)
        if (was or "") != (now or ""):
            change = f"{name} was {was or 'not set'} and is {now or 'not set'}"
            yield allowed("settings.free", change, "Spark reads state written with either value.")
    yield from _evolution(old, new)
    if new.setting(SCHEMA_CHECK) == "false":
        yield with_consequences(
            "settings.stateSchemaCheck",
            ChangeEffect.UNKNOWN,
            "the state schema check is off",
            "Spark no longer detects a change of keys or aggregates.",
            "Switch it on again, except for a single start that needs it.",
        )


def _pinned(name: str, description: str, was: str, now: str, stateful: bool) -> ShapeFinding:
    change = f"{description} was {_short(was)} and is {_short(now)}"
    rule = f"settings.{name.rpartition('.')[2] if name != PARTITIONS else 'shufflePartitions'}"
    spark = f"It runs with {_short(was)}, which the checkpoint pins; the program's value is not used."
    if not stateful:
        return allowed(rule, change, spark, ChangeEffect.IGNORED)
    remedy = "Start on a new checkpoint if the new value is needed."
    if name == PARTITIONS:
        remedy = (
            "Start on a new checkpoint if the new number is needed; state in RocksDB can be repartitioned "
            "offline since Spark 4.2."
        )
    return with_consequences(rule, ChangeEffect.IGNORED, change, spark, remedy)


def _short(value: str) -> str:
    return value.rpartition(".")[2]


def _evolution(old: Shape, new: Shape) -> Iterator[ShapeFinding]:
    was, now = old.in_force(EVOLUTION) == "true", new.setting(EVOLUTION) == "true"
    if now and not was:
        yield fatal(
            "settings.sourceEvolution",
            "source evolution is switched on",
            "It needs an offset log with named sources from the first batch on.",
            "Switch it off, or start on a new checkpoint.",
            "STREAMING_QUERY_EVOLUTION_ERROR.CANNOT_ENABLE_ON_EXISTING_CHECKPOINT",
        )
    elif was and not now:
        yield fatal(
            "settings.sourceEvolution",
            "source evolution is switched off",
            "AssertionError: All sources should be named at this point.",
            "Switch it on again.",
            when=When.START,
        )


# -- trigger, asynchronous progress, version -------------------------------------------------------


def compare_trigger(old: Shape, new: Shape) -> Iterator[ShapeFinding]:
    """Compare the trigger."""
    was, now = old.trigger, new.trigger
    if was is None or now is None or was == now:
        return
    change = f"the trigger was {was} and is {now}"
    if now == "continuous":
        yield from _continuous(change, new)
    elif now == "real_time":
        yield with_consequences(
            "trigger",
            ChangeEffect.UNKNOWN,
            change,
            "Real-time mode supports only some sources, sinks and operators, and update mode; an unsupported query fails at start.",
            "Test it on a copy of the checkpoint.",
        )
    elif now in ("once", "available_now"):
        yield allowed("trigger", change, "It processes the available data and ends.")
    else:
        yield allowed("trigger", change, "Checkpoints do not depend on the trigger.")


def _continuous(change: str, new: Shape) -> Iterator[ShapeFinding]:
    if new.operators or any(each.type == "FileStreamSource" for each in new.sources or ()):
        yield fatal(
            "trigger",
            change,
            "Continuous processing supports no state and few sources, not files (Unknown type of trigger).",
            "Use a micro-batch trigger.",
            when=When.START,
        )
        return
    yield with_consequences(
        "trigger",
        ChangeEffect.RUNS,
        change,
        "It runs with at-least-once instead of exactly-once delivery, and without task retries.",
        "Provide one core per partition of the source.",
    )


def compare_progress_tracking(old: Shape, new: Shape) -> Iterator[ShapeFinding]:
    """Compare asynchronous progress tracking, which leaves gaps in the logs that only it can read."""
    before, after = (shape.sink.options if shape.sink else {} for shape in (old, new))
    was, now = before.get(ASYNC) == "true", after.get(ASYNC) == "true"
    if was and not now and before.get(ASYNC_INTERVAL) == "0":
        yield allowed(
            "progressTracking", "asynchronous progress tracking is switched off", "The logs have no gaps."
        )
    elif was and not now:
        yield fatal(
            "progressTracking",
            "asynchronous progress tracking is switched off",
            "IllegalStateException: batch N doesn't exist, because the logs have gaps.",
            f"Run some batches with {ASYNC_INTERVAL}=0 first, then switch it off.",
        )
    elif now and not was:
        yield with_consequences(
            "progressTracking",
            ChangeEffect.RUNS,
            "asynchronous progress tracking is switched on",
            "It runs with at-least-once instead of exactly-once delivery; a stateful query is refused.",
            "Use it only for stateless queries that write to Kafka.",
        )


def compare_versions(old: Shape, new: Shape) -> Iterator[ShapeFinding]:
    """Compare the Spark version."""
    was, now = old.spark, new.spark
    if was is None or now is None or was == now:
        return
    change = f"Spark was {_dotted(was)} and is {_dotted(now)}"
    if now < was:
        yield _older(change, old)
    elif was < (4,) <= now and any(each.kind == "join" for each in old.operators or ()):
        yield fatal(
            "spark",
            change,
            "Since Spark 4 the state columns of a stream-stream join are nullable; state of Spark 3 has non-nullable ones.",
            f"Start once with {SCHEMA_CHECK}=false: only the nullability differs, and results were correct in tests.",
            "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE",
        )
    else:
        yield allowed("spark", change, "A newer Spark reads the logs and state of older versions.")


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(str(part) for part in version)


def _older(change: str, old: Shape) -> ShapeFinding:
    newer = [name for name, first in FORMATS.items() if (old.in_force(name) or first) != first]
    if newer:
        return fatal(
            "spark",
            change,
            f"It cannot read the written format ({', '.join(_short(name) for name in newer)}).",
            "Stay on the newer Spark, or start on a new checkpoint.",
            "INVALID_LOG_VERSION",
        )
    return with_consequences(
        "spark",
        ChangeEffect.UNKNOWN,
        change,
        "It runs if the logs and the state hold no newer format.",
        "Run controlplane doctor with --target-spark for that version first.",
    )


def compare_names(old: Shape, new: Shape) -> Iterator[ShapeFinding]:
    """Compare the query name."""
    if old.name != new.name:
        change = f"the name was {old.name or 'none'} and is {new.name or 'none'}"
        yield allowed("name", change, "A checkpoint does not depend on the query's name.")


def compare_completeness(old: Shape, new: Shape) -> Iterator[ShapeFinding]:
    """Report parts that a shape lacks, which cannot be compared."""
    for part, before, after in (
        ("sources", old.sources, new.sources),
        ("stateful operators", old.operators, new.operators),
        ("sink", old.sink, new.sink),
    ):
        if before is None or after is None:
            yield with_consequences(
                "unknown",
                ChangeEffect.UNKNOWN,
                f"{'the old' if before is None else 'the new'} shape has no {part}",
                "Changes of them cannot be checked.",
                "Use the shape of a run that has finished a batch.",
            )
