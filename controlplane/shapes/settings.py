"""What stands around a query: watermarks, what the checkpoint pins, trigger, version of Spark, name."""

from __future__ import annotations

from collections.abc import Iterator

from controlplane.shapes.findings import ChangeEffect, ShapeFinding, When, allowed, fatal, with_consequences
from controlplane.shapes.model import Shape

STREAMING = "spark.sql.streaming."
PARTITIONS = "spark.sql.shuffle.partitions"
PROVIDER = STREAMING + "stateStore.providerClass"
#: Setting → what people call it. The first offset entry pins them for the life of the checkpoint.
PINNED = {
    PARTITIONS: "the number of shuffle partitions",
    PROVIDER: "the state store provider",
    STREAMING + "multipleWatermarkPolicy": "the policy for several watermarks",
    STREAMING + "stateStore.encodingFormat": "the encoding of state",
    STREAMING + "stateStore.checkpointFormatVersion": "the format of state checkpoints",
    STREAMING + "offsetLog.formatVersion": "the format of the offset log",
}
#: They may be switched on and off from start to start.
FREE = (
    STREAMING + "stateStore.rocksdb.changelogCheckpointing.enabled",
    STREAMING + "stateStore.rocksdb.trackTotalNumberOfRows",
)
EVOLUTION = STREAMING + "queryEvolution.enableSourceEvolution"
SCHEMA_CHECK = STREAMING + "stateStore.stateSchemaCheck"
ASYNC = "asyncprogresstrackingenabled"
ASYNC_INTERVAL = "asyncprogresstrackingcheckpointintervalms"
#: Formats that older Sparks cannot read: setting → its first value.
FORMATS = {
    STREAMING + "offsetLog.formatVersion": "1",
    STREAMING + "stateStore.checkpointFormatVersion": "1",
}


def compare_watermarks(old: Shape, new: Shape) -> Iterator[ShapeFinding]:
    """Delays may change; a watermark that goes leaves state that nothing removes."""
    before, after = old.watermarks, new.watermarks
    if before is None or after is None or before == after:
        return
    change = f"watermarks were {_words(old)} and are {_words(new)}"
    if len(after) < len(before) and new.operators:
        yield with_consequences(
            "watermark",
            ChangeEffect.HARMS,
            change,
            "It runs where the output mode allows it; state is no longer removed, and grows.",
            "Keep a watermark, or bound the state in another way.",
        )
    else:
        yield allowed(
            "watermark", change, "The watermark in the checkpoint stands until the data moves it on."
        )


def _words(shape: Shape) -> str:
    return ", ".join(f"{each.column} − {each.delay}" for each in shape.watermarks or ()) or "none"


def compare_settings(old: Shape, new: Shape) -> Iterator[ShapeFinding]:
    """What is pinned is not used from the new program; that is harmless, and rarely what was meant."""
    for name, words in PINNED.items():
        was, now = old.in_force(name), new.setting(name)
        if was is not None and now is not None and was != now:
            yield _pinned(name, words, was, now, bool(new.operators))
    for name in FREE:
        was, now = old.setting(name), new.setting(name)
        if (was or "") != (now or ""):
            words = f"{name} was {was or 'not set'} and is {now or 'not set'}"
            yield allowed("settings.free", words, "State written either way is read either way.")
    yield from _evolution(old, new)
    if new.setting(SCHEMA_CHECK) == "false":
        yield with_consequences(
            "settings.stateSchemaCheck",
            ChangeEffect.UNKNOWN,
            "the check of the state's schema is switched off",
            "Spark no longer notices a change of keys or aggregates.",
            "Switch it on again, except for the one start that needs it.",
        )


def _pinned(name: str, words: str, was: str, now: str, stateful: bool) -> ShapeFinding:
    change = f"{words} was {_short(was)} and is {_short(now)}"
    rule = f"settings.{name.rpartition('.')[2] if name != PARTITIONS else 'shufflePartitions'}"
    spark = f"It runs with {_short(was)}: the checkpoint pins it, and the program's value is not used."
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
            "It needs an offset log that has named sources from its first batch.",
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
            "Real-time mode takes some sources, sinks and operators only, and update mode; it says at start which.",
            "Try it on a copy of the checkpoint.",
        )
    elif now in ("once", "available_now"):
        yield allowed("trigger", change, "It reads what there is and ends.")
    else:
        yield allowed("trigger", change, "Checkpoints do not depend on the trigger.")


def _continuous(change: str, new: Shape) -> Iterator[ShapeFinding]:
    if new.operators or any(each.type == "FileStreamSource" for each in new.sources or ()):
        yield fatal(
            "trigger",
            change,
            "Continuous processing knows no state and few sources: files it does not (Unknown type of trigger).",
            "Use a micro-batch trigger.",
            when=When.START,
        )
        return
    yield with_consequences(
        "trigger",
        ChangeEffect.RUNS,
        change,
        "It runs, at least once instead of exactly once, without retries of tasks.",
        "Give it a core per partition of the source.",
    )


def compare_progress_tracking(old: Shape, new: Shape) -> Iterator[ShapeFinding]:
    """Asynchronous tracking leaves gaps in the logs, which only asynchronous tracking bears."""
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
            "IllegalStateException: batch N doesn't exist, as the logs have gaps.",
            f"Run some batches with {ASYNC_INTERVAL}=0 first, then switch it off.",
        )
    elif now and not was:
        yield with_consequences(
            "progressTracking",
            ChangeEffect.RUNS,
            "asynchronous progress tracking is switched on",
            "It runs, at least once instead of exactly once; a stateful query is refused.",
            "Keep it for stateless queries that write to Kafka.",
        )


def compare_versions(old: Shape, new: Shape) -> Iterator[ShapeFinding]:
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
            "A stream-stream join's columns may be null since 4, and 3's state says otherwise.",
            f"Start once with {SCHEMA_CHECK}=false: only that differs, and results were right where it was tried.",
            "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE",
        )
    else:
        yield allowed("spark", change, "Newer Sparks read the logs and state of older ones.")


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(str(part) for part in version)


def _older(change: str, old: Shape) -> ShapeFinding:
    newer = [name for name, first in FORMATS.items() if (old.in_force(name) or first) != first]
    if newer:
        return fatal(
            "spark",
            change,
            f"It does not know the format that was written ({', '.join(_short(name) for name in newer)}).",
            "Stay on the newer Spark, or start on a new checkpoint.",
            "INVALID_LOG_VERSION",
        )
    return with_consequences(
        "spark",
        ChangeEffect.UNKNOWN,
        change,
        "It runs as long as nothing newer is in the logs or the state.",
        "Run the doctor on the checkpoint for that version of Spark first.",
    )


def compare_names(old: Shape, new: Shape) -> Iterator[ShapeFinding]:
    if old.name != new.name:
        change = f"the name was {old.name or 'none'} and is {new.name or 'none'}"
        yield allowed("name", change, "A checkpoint does not know its query's name.")


def compare_completeness(old: Shape, new: Shape) -> Iterator[ShapeFinding]:
    """What one of the shapes leaves out cannot be judged: said, not passed over."""
    for words, before, after in (
        ("sources", old.sources, new.sources),
        ("stateful operators", old.operators, new.operators),
        ("sink", old.sink, new.sink),
    ):
        if before is None or after is None:
            yield with_consequences(
                "unknown",
                ChangeEffect.UNKNOWN,
                f"{'the old' if before is None else 'the new'} shape does not tell its {words}",
                "Changes of them cannot be judged.",
                "Take a shape of a run that has finished a batch.",
            )
