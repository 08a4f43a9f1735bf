"""Sources of two shapes: number, order, kind, what is read, and at which pace.

What Spark did with each change was observed on 3.5 and 4.3 with files; Kafka's is by its documentation.
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
#: How much is read at a time, and where a query without a checkpoint begins: not looked at, or free to change.
PACE = frozenset(
    "maxfilespertrigger maxbytespertrigger maxoffsetspertrigger minoffsetspertrigger maxtriggerdelay"
    " minpartitions rowspersecond rowsperbatch rampuptime numpartitions latestfirst maxfileage".split()
)
BEGINNING = frozenset("startingoffsets startingoffsetsbytimestamp startingversion startingtimestamp".split())
#: What is read: an offset in the checkpoint means nothing elsewhere.
PLACE = frozenset("path subscribe subscribepattern assign streamname".split())
FILES = "FileStreamSource"
PUT_BACK = "Put the sources back as they were, or start on a new checkpoint."


def compare_sources(old: Shape, new: Shape) -> Iterator[ShapeFinding]:
    """All findings on the sources; nothing where a shape does not tell them (`comparison` says so)."""
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
    for place, (before, after) in enumerate(zip(old.sources, new.sources, strict=True)):
        yield from _one(place, before, after)


def _is_named(old: Shape, new: Shape) -> bool:
    """With source evolution sources are told apart by name, not by place."""
    return all(
        shape.in_force(EVOLUTION) == "true" and all(each.name for each in shape.sources or ())
        for shape in (old, new)
    )


def _number(old: Shape, before: int, after: int) -> ShapeFinding:
    change = f"{before} source{'s' * (before != 1)} became {after}"
    if old.in_force(OFFSET_LOG) == "2":
        lost = "a source that went is silently not read; one that came is read from its start"
        return harmful("sources.count", change, f"It runs: {lost}, and places shift.", PUT_BACK)
    words = f"There are [{before}] sources in the checkpoint offsets and now there are [{after}] sources requested"
    return fatal("sources.count", change, f"AssertionError: {words}.", PUT_BACK)


def _is_reordered(old: tuple[Endpoint, ...], new: tuple[Endpoint, ...]) -> bool:
    before, after = [place_of(each) for each in old], [place_of(each) for each in new]
    return before != after and sorted(before) == sorted(after)


def _order(sources: tuple[Endpoint, ...]) -> ShapeFinding:
    change, remedy = "the same sources stand in another order", "Put the sources back in their old order."
    if all(each.type in (FILES, None) for each in sources):
        return fatal(
            "sources.order",
            change,
            "Offsets belong to places: each source gets another one's. 'Wrong basePath' is what it fails with, "
            "unless the last batch had no data: then everything is silently read again.",
            remedy,
        )
    return harmful(
        "sources.order",
        change,
        "Offsets belong to places: each source goes on from another one's. Kafka misses the partitions and calls it "
        "data loss; others go on without a word.",
        remedy,
    )


def _one(place: int, before: Endpoint, after: Endpoint) -> Iterator[ShapeFinding]:
    at = f"source {place}"
    if _differ(before.type, after.type):
        yield fatal(
            "sources.type",
            f"{at} was {before.type} and is {after.type}",
            "The offset in the checkpoint is not of the new source's kind and cannot be read.",
            PUT_BACK,
        )
        return
    if _differ(before.format, after.format):
        yield with_consequences(
            "sources.type",
            ChangeEffect.HARMS,
            f"{at} was read as {before.format} and is read as {after.format}",
            "It runs: files that are not done yet are read in the new format, and what is not of it becomes null.",
            "Let the old query finish the old files first.",
        )
    for name in sorted({*before.options, *after.options}):
        if before.options.get(name) != after.options.get(name):
            yield from _option(at, name, before, after)


def _differ(before: str | None, after: str | None) -> bool:
    return before is not None and after is not None and before != after


def _option(at: str, name: str, before: Endpoint, after: Endpoint) -> Iterator[ShapeFinding]:
    was, now = before.options.get(name), after.options.get(name)
    change = f"{at}: {name} was {was or 'not set'} and is {now or 'not set'}"
    if name in PACE:
        yield allowed("sources.pace", change, "The next batch goes by the new value.")
    elif name in BEGINNING:
        yield allowed(
            "sources.beginning", change, "The checkpoint says where to go on.", ChangeEffect.IGNORED
        )
    elif name == "path":
        yield _path(change)
    elif name == "subscribe":
        yield _topics(change, _words(was), _words(now))
    elif name in PLACE:
        yield with_consequences(
            "sources.input",
            ChangeEffect.UNKNOWN,
            change,
            "What is not in the checkpoint's offsets is read from its earliest; what went counts as lost data.",
            "Use a new checkpoint where other data is read.",
        )
    elif name == "kafka.bootstrap.servers":
        yield with_consequences(
            "sources.input",
            ChangeEffect.UNKNOWN,
            change,
            "Another name of the same cluster does no harm; in another cluster the offsets mean other records.",
            "Use a new checkpoint for another cluster.",
        )
    else:
        yield with_consequences(
            "sources.option", ChangeEffect.RUNS, change, "The next batch goes by the new value.", ""
        )


def _path(change: str) -> ShapeFinding:
    return fatal(
        "sources.input",
        change,
        "IllegalArgumentException: Wrong basePath, as the files of the last batch are listed under the new path. Where "
        "that batch had no data it runs, and reads all that is in the new directory.",
        "Put the path back, or start on a new checkpoint.",
    )


def _words(text: str | None) -> set[str]:
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
        "Partitions of the topics that went are in the checkpoint and no longer asked for: data loss, which fails the "
        "query unless failOnDataLoss=false.",
        "Keep the topic until all of it is read, then use a new checkpoint, or accept it with failOnDataLoss=false.",
        "KAFKA_DATA_LOSS",
    )


def _by_name(old: tuple[Endpoint, ...], new: tuple[Endpoint, ...]) -> Iterator[ShapeFinding]:
    before, after = {each.name: each for each in old}, {each.name: each for each in new}
    for name in sorted(str(name) for name in before.keys() - after.keys()):
        yield harmful(
            "sources.name",
            f"the source named {name} is gone, or has another name",
            "It runs: what it held back is silently not read; under a new name all of it is read again.",
            "Give the source its old name.",
        )
    for name in sorted(str(name) for name in after.keys() - before.keys()):
        yield with_consequences(
            "sources.name",
            ChangeEffect.RUNS,
            f"there is a new source named {name}",
            "It is read from its start.",
        )
    for name in sorted(str(name) for name in before.keys() & after.keys()):
        for finding in _one(0, before[name], after[name]):
            yield _renamed(finding, name)


def _renamed(finding: ShapeFinding, name: str) -> ShapeFinding:
    return replace(finding, change=finding.change.replace("source 0", f"source {name}", 1))
