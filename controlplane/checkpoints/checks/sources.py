"""Checks of the sources: their lines in the offset log, the logs of file sources, the input files."""

from __future__ import annotations

from collections.abc import Iterator
from posixpath import dirname
from typing import Any

from controlplane.checkpoints.checks.logs import BACKUP
from controlplane.checkpoints.findings import (
    FIRST_BATCH,
    INITIALIZATION,
    START,
    Finding,
    fails_later,
    note,
    plural,
    restart_fails,
    results_change,
)
from controlplane.checkpoints.inventory.model import Inventory
from controlplane.checkpoints.inventory.relocation import plain_path
from controlplane.checkpoints.reading import logs
from controlplane.checkpoints.reading.checkpoint import CheckpointView
from controlplane.checkpoints.reading.file_logs import FileLog
from controlplane.checkpoints.reading.input_files import InputFiles
from controlplane.checkpoints.remedies import rewind_command

RESTORE_LINE = (
    BACKUP,
    "restore the line from the previous entry, or from that batch's progress event",
)


#: What Spark calls its socket source and its rate source in progress reports.
SOCKET, RATE = "TextSocketV2", "RateStreamV2"
#: The clocks of storage, driver and server may differ by this much.
SLACK_SECONDS = 60.0


def kept(view: CheckpointView) -> Iterator[Finding]:
    """`src.not-kept`: a socket keeps no rows, and counts from 0 again in each run.

    Source: Spark's TextSocketMicroBatchStream.commit, to which a new run passes the last committed offset.
    """
    socket = next((name for name in view.history.sources if name.startswith(SOCKET)), None)
    if socket is None or view.committed is None:
        return
    yield restart_fails(
        "src.not-kept",
        "Spark's socket source cannot resume from a checkpoint: a new run fails with "
        "`Offsets committed out of order`.",
        source=socket,
        remedy=(
            "read from a source that keeps its data, such as files or Kafka",
            "or start on a new checkpoint each time",
        ),
    )


def start_times(view: CheckpointView) -> Iterator[Finding]:
    """`src.start-lost`, `src.start-unreadable`, `src.start-changed`: when the rate source first started.

    Its offset is a number, the seconds since then, and a new run that finds another time fails. Source: Spark's
    RateStreamMicroBatchStream. The socket source has such offsets and no log.
    """
    for line, offset in view.last.offsets.items() if view.last else ():
        source, seconds = view.line_sources[line], logs.whole(offset)
        is_rate = _is_rate(view, line)
        if seconds is None or is_rate is False or not view.inventory.complete:
            continue
        path = f"sources/{source}/0"
        text = view.inventory.text(path)
        started_at = _started_at(text)
        remedy = (BACKUP, f"restore {path}", "or start the query on a new checkpoint")
        if not view.inventory.is_file(path):
            message = (
                f"{path} is missing. It holds when the source first started; without it a new run fails with "
                "`startSeconds > endSeconds`."
            )
            inferred: dict[str, Any] = (
                {} if is_rate else {"likely": True, "if": "it reads Spark's rate or socket source"}
            )
            if is_rate is None:
                message += " Other sources than Spark's rate and socket source may not need it."
            yield restart_fails("src.start-lost", message, source=source, **inferred, remedy=remedy)
        elif text is not None and started_at is None:
            message = f"{path} cannot be read. A restart fails: the log file was malformed."
            yield restart_fails("src.start-unreadable", message, source=source, remedy=remedy)
        elif started_at is not None and started_at + seconds > view.inventory.collected_at + SLACK_SECONDS:
            message = f"{path} holds a later time than when the source first started. A new run fails with `startSeconds > endSeconds`."
            yield restart_fails(
                "src.start-changed", message, source=source, started_at=started_at, remedy=remedy
            )


def _is_rate(view: CheckpointView, line: str) -> bool | None:
    """Whether the line is of Spark's rate source; None where no report shows it."""
    known = view.history.sources
    if view.last is None or len(known) != len(view.last.offsets) or not line.isdigit():
        return None
    return known[int(line)].startswith(RATE)


def _started_at(text: str | None) -> float | None:
    """Unix seconds from the rate source's log: a version, then milliseconds."""
    version, _, value = (text or "").partition("\n")
    milliseconds = logs.whole(value)
    return None if milliseconds is None or not version.startswith("v") else milliseconds / 1000


def source_lines(view: CheckpointView) -> Iterator[Finding]:
    """`src.count-changed-in-log`, `src.missing-line-v2`, `src.no-line`: the number of sources differs from the previous batch."""
    if view.last is None:
        return
    now = view.last.offsets
    before = view.previous.offsets if view.previous else None
    if not now:
        yield _count(view, 0, len(before or ()))
    elif before is not None and view.last.version >= 2:
        for source in sorted(set(before) - set(now)):
            message = (
                f"Source {source} has no line in offsets/{view.planned}, but the batch before has one. "
                "The source is read from its beginning."
            )
            yield results_change("src.missing-line-v2", message, source=source, remedy=RESTORE_LINE)
    elif before is not None and len(before) != len(now):
        yield _count(view, len(now), len(before))


def _count(view: CheckpointView, now: int, before: int) -> Finding:
    message = f"offsets/{view.planned} names {now} sources" + (
        f", the batch before {before}. A restart fails." if before else ". A restart fails."
    )
    remedy = (BACKUP, "restore the entry; never edit its lines to fit another query")
    return restart_fails("src.count-changed-in-log", message, now=now, before=before, remedy=remedy)


def offsets(view: CheckpointView) -> Iterator[Finding]:
    """`src.offset-torn`, `src.offset-became-void`, `src.offset-regressed`: each source's offset, line by line."""
    if view.last is None:
        return
    before = view.previous.offsets if view.previous else {}
    for source, offset in view.last.offsets.items():
        old = before.get(source)
        if logs.torn_offset(offset):
            message = f"The offset of source {source} in offsets/{view.planned} is cut off. A restart fails."
            yield restart_fails("log.offset-unreadable", message, line=offset[:120], remedy=RESTORE_LINE)
        elif offset.strip() == logs.VOID:
            if old is not None and old.strip() != logs.VOID:
                message = f"Source {source} lost its offset in offsets/{view.planned}. It is read from its beginning."
                yield results_change("src.offset-became-void", message, before=old, remedy=RESTORE_LINE)
        elif old is not None:
            yield from _regressed(view, source, old, offset)


def _regressed(view: CheckpointView, source: str, old: str, new: str) -> Iterator[Finding]:
    was, now = logs.positions(old), logs.positions(new)
    lower = {path: [was[path], now[path]] for path in was.keys() & now.keys() if now[path] < was[path]}
    # In other sources a number may be a version or a time; Kafka's are by topic and partition.
    files = logs.log_offset(new) is not None
    kafka = bool(lower) and all("/" in path and path.rpartition("/")[2].isdigit() for path in lower)
    if not lower or not (files or kafka or set(lower) == {""}):
        return
    message = f"Source {source} goes back in offsets/{view.planned}"
    if set(lower) == {""} and (is_rate := _is_rate(view, source)) is not False:
        remedy = (
            f"restore sources/{source}/0: a start without it writes such an entry",
            f"then remove offsets/{view.planned}, if it was never committed",
        )
        inferred: dict[str, Any] = {} if is_rate else {"likely": True, "if": "it reads Spark's rate source"}
        yield restart_fails(
            "src.offset-regressed",
            f"{message}. The rate source fails on it.",
            before=old,
            now=new,
            **inferred,
            remedy=remedy,
        )
    elif files:
        remedy = (
            "a failed start over a lost source log writes such an entry: restore the source's log first",
            f"then remove offsets/{view.planned}, if it was never committed",
        )
        yield restart_fails(
            "src.offset-regressed", f"{message}. A restart fails.", before=old, now=new, remedy=remedy
        )
    else:
        message += ". The rows in between are read and delivered again."
        yield results_change(
            "src.offset-regressed", message, lower=dict(list(lower.items())[:10]), remedy=RESTORE_LINE
        )


def file_logs(view: CheckpointView) -> Iterator[Finding]:
    """`src.file-log-…`: gaps in the log of each file source, and its newest entry against the offsets."""
    lines = view.last.offsets if view.last else {}
    known = {view.line_sources[line]: logs.log_offset(offset) for line, offset in lines.items()}
    for name, log in view.sources.items():
        yield from _holes(log)
        wanted = known.get(name)
        if wanted is not None and (log.newest is None or log.newest < wanted):
            yield _behind(view, name, log.newest, wanted)
        elif wanted is not None and log.newest is not None and log.newest > wanted:
            message = (
                f"The log of source {name} is at {log.newest}, its offset at {wanted}. "
                "The next batch reads the files in between."
            )
            yield note("src.file-log-ahead", message, newest=log.newest, offset=wanted)
    for name, wanted in known.items():
        if wanted is not None and wanted >= 0 and name not in view.sources and view.inventory.complete:
            yield _behind(view, name, None, wanted)


def _behind(view: CheckpointView, source: str, newest: int | None, wanted: int) -> Finding:
    state = "is missing" if newest is None else f"ends at {newest}"
    message = (
        f"The log of source {source} {state}, but offsets/{view.planned} needs entry {wanted}. "
        "Do not start the query: a failed start writes a wrong offset and makes it worse."
    )
    inferred: dict[str, Any] = {}
    if newest is None and source in view.repeated_lines:
        message += f" If the query uses source {view.repeated_lines[source]} twice, as in a union with itself, ignore this finding."
        inferred = {"likely": True, "if": "it does not use a stream twice"}
    return restart_fails(
        "src.file-log-behind-offset",
        message,
        when=FIRST_BATCH,
        source=source,
        newest=newest,
        wanted=wanted,
        **inferred,
        remedy=(
            "stop everything that restarts the query",
            f"restore sources/{source} from a backup",
            f"or rewind to an entry that exists: {rewind_command(view)}",
        ),
    )


def _holes(log: FileLog) -> Iterator[Finding]:
    for batch in log.missing[:3] if log.inventory.complete else ():
        check = "src.file-log-compact-missing" if log.is_compaction(batch) else "src.file-log-gap"
        message = f"{log.name_of(batch)} is missing. The source reads it when it opens, so a restart fails."
        remedy = (f"restore {log.name_of(batch)} from a backup",)
        yield restart_fails(
            check, message, when=INITIALIZATION, newest=log.newest, interval=log.interval, remedy=remedy
        )
    for batch, why in list(log.torn.items())[:3]:
        message = f"{log.name_of(batch)} cannot be read: {why}. A restart fails."
        remedy = (f"restore {log.name_of(batch)} from a backup",)
        yield restart_fails(
            "src.file-log-unreadable", message, when=INITIALIZATION, file=log.name_of(batch), remedy=remedy
        )


def inputs(view: CheckpointView) -> Iterator[Finding]:
    """`src.inflight-input-missing`, `src.input-dir-missing`: the input that the uncommitted batch reads."""
    files = InputFiles(view)
    yield from map(_missing_folder, files.missing_folders())
    gone = [path for path in files.in_flight() if files.is_missing(path)]
    if gone and view.first_executed_batch == view.next_batch:
        message = f"{plural(len(gone), 'input file')} planned for batch {view.planned} cannot be found. Spark skips it silently."
        remedy = ("restore them under the same names before the start",)
        yield results_change(
            "src.inflight-input-missing", message, files=gone[:10], folder=dirname(gone[0]), remedy=remedy
        )


def _missing_folder(listed: Inventory) -> Finding:
    """A folder named by the user must exist; one derived from a log may be a folder below the source's own."""
    folder = plain_path(listed.root)
    message = f"The input folder {folder} does not exist."
    remedy = ("mount or restore it before the start",)
    condition = "PATH_NOT_FOUND"
    if listed.guessed:
        message += " If the source reads that folder and not a parent of it, the start fails."
        return fails_later(
            "src.input-dir-missing", message, when=START, condition=condition, folder=folder, remedy=remedy
        )
    return restart_fails(
        "src.input-dir-missing", message, when=START, condition=condition, folder=folder, remedy=remedy
    )
