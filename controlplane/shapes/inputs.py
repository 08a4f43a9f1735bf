"""Comparison of sources: number, order, type, input, options and rate limits.

Spark's behavior was observed on 3.5 and 4.3 with file sources; for Kafka it follows the documentation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from controlplane.shapes.findings import (
    ChangeEffect,
    ShapeFinding,
    allowed,
    fatal,
    harmful,
    with_consequences,
)
from controlplane.shapes.model import Endpoint, Shape, place_of

OFFSET_LOG = "spark.sql.streaming.offsetLog.formatVersion"
EVOLUTION = "spark.sql.streaming.queryEvolution.enableSourceEvolution"
#: Options of rate limits, which may change freely.
RATE_LIMITS = frozenset(
    "maxfilespertrigger maxbytespertrigger maxoffsetspertrigger minoffsetspertrigger maxtriggerdelay"
    " minpartitions rowspersecond rowsperbatch rampuptime numpartitions latestfirst maxfileage".split()
)
#: Options that apply only to a query without a checkpoint.
STARTING_POINT = frozenset(
    "startingoffsets startingoffsetsbytimestamp startingversion startingtimestamp".split()
)
#: Options that select the input; the offsets in the checkpoint belong to it.
INPUT = frozenset("path subscribe subscribepattern assign streamname".split())
FILES = "FileStreamSource"
REVERT = "Revert the change of the sources, or start on a new checkpoint."


def compare_sources(old: Shape, new: Shape) -> Iterator[ShapeFinding]:
    """Findings on the sources; none where a shape lacks them, which `compare_completeness` reports."""
    if old.sources is None or new.sources is None:
        return
    if _is_named(old, new):
        yield from _by_name(old.sources, new.sources)
        return
    if len(old.sources) != len(new.sources):
        yield _number(old, len(old.sources), len(new.sources))
        return
    if _is_reordered(old.sources, new.sources):
        yield _order(old.sources)
        return
    for position, (before, after) in enumerate(zip(old.sources, new.sources, strict=True)):
        yield from _compare_pair(position, before, after)


def _is_named(old: Shape, new: Shape) -> bool:
    """Whether both shapes identify sources by name instead of position (source evolution)."""
    return all(
        shape.in_force(EVOLUTION) == "true" and all(each.name for each in shape.sources or ())
        for shape in (old, new)
    )


def _number(old: Shape, before: int, after: int) -> ShapeFinding:
    change = f"{before} source{'s' * (before != 1)} became {after}"
    if old.in_force(OFFSET_LOG) == "2":
        lost = "a removed source is silently not read, an added one is read from its start"
        return harmful("sources.count", change, f"It runs: {lost}, and positions shift.", REVERT)
    message = f"There are [{before}] sources in the checkpoint offsets and now there are [{after}] sources requested"
    return fatal("sources.count", change, f"AssertionError: {message}.", REVERT)


def _is_reordered(old: tuple[Endpoint, ...], new: tuple[Endpoint, ...]) -> bool:
    before, after = [place_of(each) for each in old], [place_of(each) for each in new]
    return before != after and sorted(before) == sorted(after)


def _order(sources: tuple[Endpoint, ...]) -> ShapeFinding:
    change, remedy = "the order of the sources has changed", "Restore the old order of the sources."
    if all(each.type in (FILES, None) for each in sources):
        return fatal(
            "sources.order",
            change,
            "Offsets belong to positions, so each source gets the offset of another. The query fails with 'Wrong basePath', "
            "unless the last batch had no data: then all input is silently read again.",
            remedy,
        )
    return harmful(
        "sources.order",
        change,
        "Offsets belong to positions, so each source continues from the offset of another. Kafka misses its partitions and "
        "reports data loss; other sources continue without an error.",
        remedy,
    )


def _compare_pair(position: int, before: Endpoint, after: Endpoint) -> Iterator[ShapeFinding]:
    at = f"source {position}"
    if _differ(before.type, after.type):
        yield fatal(
            "sources.type",
            f"{at} was {before.type} and is {after.type}",
            "The new source cannot read the offset in the checkpoint, which has another format.",
            REVERT,
        )
        return
    if _differ(before.format, after.format):
        yield with_consequences(
            "sources.type",
            ChangeEffect.HARMS,
            f"{at} was read as {before.format} and is read as {after.format}",
            "It runs: unread files are read in the new format, and values that do not fit become null.",
            "Let the old query process the old files first.",
        )
    for name in sorted({*before.options, *after.options}):
        if before.options.get(name) != after.options.get(name):
            yield from _option(at, name, before, after)


def _differ(before: str | None, after: str | None) -> bool:
    return before is not None and after is not None and before != after


def _option(at: str, name: str, before: Endpoint, after: Endpoint) -> Iterator[ShapeFinding]:
    was, now = before.options.get(name), after.options.get(name)
    change = f"{at}: {name} was {was or 'not set'} and is {now or 'not set'}"
    if name in RATE_LIMITS:
        yield allowed("sources.pace", change, "The next batch uses the new value.")
    elif name in STARTING_POINT:
        yield allowed(
            "sources.beginning",
            change,
            "The query continues from the offsets in the checkpoint.",
            ChangeEffect.IGNORED,
        )
    elif name == "path":
        yield _path(change)
    elif name == "subscribe":
        yield _topics(change, _names_in(was), _names_in(now))
    elif name in INPUT:
        yield with_consequences(
            "sources.input",
            ChangeEffect.UNKNOWN,
            change,
            "Input that is not in the checkpoint's offsets is read from its start; removed input counts as lost data.",
            "Use a new checkpoint to read other data.",
        )
    elif name == "kafka.bootstrap.servers":
        yield with_consequences(
            "sources.input",
            ChangeEffect.UNKNOWN,
            change,
            "Another address of the same cluster is harmless; in another cluster the offsets mean other records.",
            "Use a new checkpoint for another cluster.",
        )
    else:
        yield with_consequences(
            "sources.option", ChangeEffect.RUNS, change, "The next batch uses the new value.", ""
        )


def _path(change: str) -> ShapeFinding:
    return fatal(
        "sources.input",
        change,
        "IllegalArgumentException: Wrong basePath, because the files of the last batch are looked up under the new path. If "
        "that batch had no data, the query runs and reads everything in the new directory.",
        "Restore the path, or start on a new checkpoint.",
    )


def _names_in(text: str | None) -> set[str]:
    return {word.strip() for word in (text or "").split(",") if word.strip()}


def _topics(change: str, before: set[str], after: set[str]) -> ShapeFinding:
    if before <= after:
        return with_consequences(
            "sources.input",
            ChangeEffect.RUNS,
            change,
            "New topics are read from their earliest offset.",
            "Expect their whole backlog in the first batches, or set a rate limit.",
        )
    return fatal(
        "sources.input",
        change,
        "The checkpoint has partitions of removed topics, which count as data loss and fail the query unless "
        "failOnDataLoss=false.",
        "Keep the topic until all of it is read, then use a new checkpoint, or accept the loss with failOnDataLoss=false.",
        "KAFKA_DATA_LOSS",
    )


def _by_name(old: tuple[Endpoint, ...], new: tuple[Endpoint, ...]) -> Iterator[ShapeFinding]:
    before, after = {each.name: each for each in old}, {each.name: each for each in new}
    for name in sorted(str(name) for name in before.keys() - after.keys()):
        yield harmful(
            "sources.name",
            f"the source named {name} was removed or renamed",
            "It runs: unread input of the source is silently skipped; under a new name all of it is read again.",
            "Restore the old name of the source.",
        )
    for name in sorted(str(name) for name in after.keys() - before.keys()):
        yield with_consequences(
            "sources.name",
            ChangeEffect.RUNS,
            f"a source named {name} was added",
            "It is read from its start.",
        )
    for name in sorted(str(name) for name in before.keys() & after.keys()):
        for finding in _compare_pair(0, before[name], after[name]):
            yield _renamed(finding, name)


def _renamed(finding: ShapeFinding, name: str) -> ShapeFinding:
    return replace(finding, change=finding.change.replace("source 0", f"source {name}", 1))
