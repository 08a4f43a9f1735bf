"""Checks of `metadata`, offsets/ and commits/: what is missing, what runs next, what cannot be read."""

from __future__ import annotations

import json
import shlex
import uuid
from collections.abc import Iterator
from typing import Any

from controlplane.checkpoints.decoding.checksums import first_bad_chunk
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
from controlplane.checkpoints.lock import locked_by
from controlplane.checkpoints.reading.checkpoint import BatchLog, CheckpointView
from controlplane.checkpoints.reading.logs import OffsetEntry, Torn
from controlplane.checkpoints.remedies import repair_command, rewind_command

REWRITE_ID = 'write the query id, known from earlier progress events, into metadata: {"id":"<query id>"}'
CONTINUOUS = (
    "The log was written by continuous processing. A continuous query resumes from it; a micro-batch query fails in "
    "its first batch."
)
BACKUP = "copy the checkpoint to another place before you change anything"


def query_id(view: CheckpointView) -> str | None:
    """The query id in `metadata`; None where it is missing, unreadable or no UUID."""
    text = view.inventory.text("metadata")
    try:
        held = json.loads(text or "")
        return str(uuid.UUID(held["id"])) if isinstance(held, dict) else None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def metadata(view: CheckpointView) -> Iterator[Finding]:
    """`meta.missing`, `meta.unreadable`, `meta.bad-id`, `meta.id-changed`, `ckpt.repair-unfinished`."""
    if backup := locked_by(view.inventory):
        message = "A rewind, repair or undo was interrupted. Spark refuses to start until it is undone."
        remedy = (f"controlplane undo {shlex.quote(backup)}",)
        yield restart_fails("ckpt.repair-unfinished", message, when=START, remedy=remedy, backup=backup)
        return
    if not view.inventory.is_file("metadata"):
        yield from _metadata_missing(view)
        return
    found = query_id(view)
    if found is None and ("metadata" in view.inventory.contents or view.inventory.size("metadata") == 0):
        yield _bad_metadata(view)
    if found and view.history.query_id and found != view.history.query_id:
        message = (
            f"metadata holds the query id {found}, but the query was known as {view.history.query_id}. Sinks that "
            "remember the old id may take batches twice."
        )
        yield results_change(
            "meta.id-changed", message, found=found, known=view.history.query_id, remedy=(REWRITE_ID,)
        )


def _metadata_missing(view: CheckpointView) -> Iterator[Finding]:
    if (view.planned is None and view.committed is None) or not view.inventory.complete:
        return
    held: dict[str, Any] = {"last_planned_batch": view.planned, "last_committed_batch": view.committed}
    if view.target.requires_metadata:
        yield restart_fails(
            "meta.missing",
            "The file metadata is missing although the logs hold batches. Spark refuses to start.",
            when=START,
            condition="STREAMING_CHECKPOINT_MISSING_METADATA_FILE",
            remedy=(REWRITE_ID, _write_id(view)),
            **held,
        )
    else:
        message = (
            "The file metadata is missing. This Spark starts under a new query id, and sinks that remember "
        )
        yield note(
            "meta.missing",
            message + "the old one may take batches twice.",
            remedy=(REWRITE_ID, _write_id(view)),
            **held,
        )


def _bad_metadata(view: CheckpointView) -> Finding:
    data = view.inventory.contents.get("metadata", b"")
    shown = data[:80].decode("utf-8", errors="replace")
    try:
        parsed = isinstance(json.loads(data)["id"], str)
    except (ValueError, KeyError, TypeError, RecursionError):
        parsed = False
    check, why = (
        ("meta.bad-id", "its id is not a UUID")
        if parsed
        else ("meta.unreadable", "it is not JSON with an id")
    )
    if not data:
        why = "it is empty"
    message = f"The file metadata cannot be read: {why}. Spark refuses to start."
    remedy = (REWRITE_ID, _write_id(view))
    return restart_fails(check, message, when=START, remedy=remedy, content=shown, bytes=len(data))


def _write_id(view: CheckpointView) -> str:
    return repair_command(view, "--query-id", view.history.query_id or "ID")


def entries(view: CheckpointView) -> Iterator[Finding]:
    """`log.offset-unreadable`, `log.commit-unreadable`, `log.version-unsupported`: the entries that Spark reads."""
    n = view.planned
    for batch in (n, n - 1) if n else (n,):
        entry = view.offset_entry(batch)
        if isinstance(entry, Torn):
            yield _torn(view, "offsets", batch, entry, "log.offset-unreadable", _offset_remedy(view, batch))
        elif batch == n and _is_blank(entry):
            if _is_continuous(view):
                yield note("log.continuous", CONTINUOUS)
                continue
            wrong = Torn("its second line (metadata) is blank")
            yield _torn(view, "offsets", batch, wrong, "log.offset-unreadable", _offset_remedy(view, batch))
    commit = view.commit_entry(view.committed)
    if isinstance(commit, Torn):
        yield _torn(view, "commits", view.committed, commit, "log.commit-unreadable", _commit_remedy(view))


def _is_blank(entry: OffsetEntry | Torn | None) -> bool:
    return isinstance(entry, OffsetEntry) and entry.blank_metadata


def _is_continuous(view: CheckpointView) -> bool:
    """Continuous processing leaves that line blank in every entry; damage leaves it blank in one."""
    earlier = [batch for batch in view.offsets.batches if view.planned is not None and batch < view.planned]
    return _is_blank(view.offset_entry(earlier[-1])) if earlier else True


def _torn(
    view: CheckpointView, folder: str, batch: int | None, torn: Torn, check: str, remedy: tuple[str, ...]
) -> Finding:
    path = f"{folder}/{batch}"
    if torn.version is not None:
        check, remedy = "log.version-unsupported", ("start with a Spark that reads this version of the log",)
    early = view.target.since(4, 2) and folder == "offsets" and batch == view.planned
    return restart_fails(
        check,
        f"{path} cannot be read: {torn.reason}.",
        when=INITIALIZATION if early else FIRST_BATCH,
        condition=torn.condition if view.target.since(4, 0) else "",
        remedy=remedy,
        file=path,
        bytes=view.inventory.size(path),
        beginning=(view.inventory.text(path) or "")[:80],
    )


def _offset_remedy(view: CheckpointView, batch: int | None) -> tuple[str, ...]:
    if batch == view.planned and view.in_flight:
        return (
            f"make sure that the sink has not taken batch {batch}",
            f"remove offsets/{batch}: the batch was never committed, and Spark plans it again: {repair_command(view)}",
        )
    return (
        f"list the batches to which a rewind is possible: {rewind_command(view)}",
        f"or, without a rewind: {BACKUP}, then",
        f"restore offsets/{batch} from a backup, or rewrite it from the first two lines of the entry beside it "
        "and the end offsets of that batch's progress event",
        "do not remove entries of commits/ alone: a file sink would lose the batch",
    )


def _commit_remedy(view: CheckpointView) -> tuple[str, ...]:
    k = view.committed
    return (
        f"if its watermark is known from the files: {repair_command(view)}",
        f'else rewrite commits/{k}: v1, then {{"nextBatchWatermarkMs":W}} with its watermark (0 without one)',
        f"or run batch {k} again, if the sink accepts it twice: {rewind_command(view, k)}",
    )


def order(view: CheckpointView) -> Iterator[Finding]:
    """`log.commit-ahead`, `log.commit-lag` and empty logs: how the newest entries of both logs relate."""
    n, k = view.planned, view.committed
    if n is None:
        yield from _no_offsets(view)
    elif k is not None and k > n:
        yield restart_fails(
            "log.commit-ahead",
            f"The commit log is ahead: batch {k} is committed, but the newest planned batch is {n}. "
            f"Every start runs and delivers batch {n} again and then fails.",
            condition="CONCURRENT_STREAM_LOG_UPDATE",
            remedy=(
                "stop everything that restarts the query",
                BACKUP,
                f"if batch {k} did run: restore offsets/{n + 1}…{k}",
                f"if it never ran (the history has no report of it): remove commits/{n + 1}…{k}",
                f"or rewind to batch {n}, which every start delivers again anyway: {rewind_command(view, n)}",
            ),
            newest_offsets=n,
            newest_commits=k,
        )
    elif k is None or n - k > 1:
        yield from _commit_lag(view, n, k)


def _no_offsets(view: CheckpointView) -> Iterator[Finding]:
    k = view.committed
    if k is not None:
        yield restart_fails(
            "log.offsets-empty-commits-present",
            f"offsets/ holds no batch, but commits/ holds batches up to {k}. A restart fails.",
            condition="" if view.target.since(4, 2) else "CONCURRENT_STREAM_LOG_UPDATE",
            remedy=(
                "restore offsets/ from a backup",
                "or start on a new checkpoint, and decide what the sink does with repeated rows",
            ),
            newest_commits=k,
        )
        return
    state, sources = view.inventory.names("state"), {name: log.newest for name, log in view.sources.items()}
    if view.stateful and view.target.rejects_leftover_state:
        yield restart_fails(
            "log.empty-but-state-present",
            "offsets/ and commits/ are empty, but state/ is not. Spark needs an empty state/ for batch 0.",
            condition="STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY",
            remedy=(
                "restore offsets/ and commits/",
                "or, to start over on purpose, use a new checkpoint",
            ),
            state=list(state),
        )
    elif view.stateful or any(newest is not None for newest in sources.values()):
        yield results_change(
            "log.empty-but-state-present",
            "offsets/ and commits/ are empty, but older parts of the checkpoint are there. Spark starts at batch 0 on top of "
            "them: input is read again, or skipped by a file sink that remembers the batches.",
            remedy=("restore offsets/ and commits/", "or use a new checkpoint and a new output"),
            state=list(state),
            sources=sources,
        )


def _commit_lag(view: CheckpointView, n: int, k: int | None) -> Iterator[Finding]:
    first = view.offsets.batches[0]
    if n - first < 1 or sparse(view):
        return
    last = "none" if k is None else k
    message = f"The newest commit is {last}, the newest planned batch is {n}. Only batch {n} runs again."
    yield note("log.commit-lag", message, newest_offsets=n, newest_commits=k)


def sparse(view: CheckpointView) -> bool:
    """Whether the offset log has gaps by design: asynchronous progress tracking writes only some batches."""
    return view.offsets.gaps >= 2 and len(set(view.offsets.batches) & set(view.commits.batches)) >= 2


def previous(view: CheckpointView) -> Iterator[Finding]:
    """`log.offset-previous-missing`, `log.offset-gap-old`: gaps in offsets/."""
    n = view.planned
    if n is None or not view.inventory.complete:
        return
    if n > 0 and n - 1 not in view.offsets.batches:
        yield _previous_missing(view, n)
    gaps = [
        (a, b)
        for a, b in zip(view.offsets.batches, view.offsets.batches[1:], strict=False)
        if b - a > 1 and b < n
    ]
    if gaps and not sparse(view):
        message = (
            "Older batches are missing in offsets/. A restart works, but a rewind to them is not possible."
        )
        yield note("log.offset-gap-old", message, gaps=[list(gap) for gap in gaps[:5]])


def _previous_missing(view: CheckpointView, n: int) -> Finding:
    around = [batch for batch in view.offsets.batches if batch >= n - 10]
    if sparse(view):
        message = (
            f"offsets/{n - 1} is missing because asynchronous progress tracking writes the log. A restart works "
            "with the option on and fails with it off."
        )
        remedy = (
            "keep asyncProgressTrackingEnabled=true",
            "before you turn it off, run a few batches with asyncProgressTrackingCheckpointIntervalMs=0",
        )
        return note("log.offset-previous-missing", message, remedy=remedy, offsets=around)
    return restart_fails(
        "log.offset-previous-missing",
        f"offsets/{n - 1} is missing. Spark reads it together with offsets/{n} and fails: batch {n - 1} doesn't exist.",
        remedy=(
            BACKUP,
            f"restore offsets/{n - 1}",
            f"or rewind to a batch with both entries: {rewind_command(view)}",
            f"or, if offsets/{n} was copied from elsewhere and this query never planned it, remove it",
        ),
        offsets=around,
    )


def folders(view: CheckpointView) -> Iterator[Finding]:
    """`log.dir-named-as-batch`: a folder has the name of a file that a batch will write."""
    first = {"offsets": 0 if view.planned is None else view.planned + 1, "commits": view.next_batch}
    for log in (view.offsets, view.commits):
        for number in (number for number in log.folders if number >= first[log.folder]):
            yield _blocked(log, number, first[log.folder], view.next_batch)


def _blocked(log: BatchLog, number: int, first: int, next_batch: int) -> Finding:
    path = f"{log.folder}/{number}/"
    remedy = (f"move the folder {path} to another place",)
    message = f"The folder {path} has the name of the file that batch {number} writes. That batch fails."
    if number <= max(first, next_batch):
        condition = "CONCURRENT_STREAM_LOG_UPDATE"
        return restart_fails("log.dir-named-as-batch", message, condition=condition, remedy=remedy, path=path)
    return fails_later("log.dir-named-as-batch", message, when=f"in batch {number}", remedy=remedy, path=path)


def leftovers(view: CheckpointView) -> Iterator[Finding]:
    """`log.tmp-leftover`: temporary files of unfinished writes."""
    found = [path for path in view.inventory.entries if path.endswith(".tmp")]
    if found:
        message = f"{plural(len(found), 'temporary file')} of unfinished writes. Spark ignores them."
        yield note("log.tmp-leftover", message, files=sorted(found)[:5])


def side_files(view: CheckpointView) -> Iterator[Finding]:
    """`ckpt.crc-mismatch`: a file does not match its hidden .crc file, which Spark does not check."""
    n = view.planned
    critical = {f"offsets/{n}", f"offsets/{n - 1}"} if n is not None else set()
    for path, data in view.inventory.contents.items():
        folder, _, name = path.rpartition("/")
        sums = view.inventory.contents.get(f"{folder}/.{name}.crc".lstrip("/"))
        at = first_bad_chunk(data, sums) if sums else None
        if at is None or isinstance(_log_entry(view, path), Torn):
            continue
        message = (
            f"{path} does not match its .crc file, which Spark does not check: it was changed after it was written, "
            "or the .crc file is left of an earlier one."
        )
        if path in critical:
            remedy = ("compare it with the end offsets in the progress history", f"restore {path}")
            yield results_change("ckpt.crc-mismatch", message, file=path, byte=at, remedy=remedy)
        else:
            yield note("ckpt.crc-mismatch", message, file=path, byte=at)


def orphaned_sums(view: CheckpointView) -> Iterator[Finding]:
    """`log.orphaned-crc`: a hidden .crc file without its file, at the place where Spark writes next.

    Spark writes a log entry by renaming both, and fails where a .crc file is in the way. The entry itself is in
    place by then, so the start after that works. Seen on Spark 4.3, on a local file system.
    """
    if view.planned is None:
        return
    following = {"offsets": view.planned + 1, "commits": view.next_batch}
    following |= {f"sources/{name}": (log.newest or 0) + 1 for name, log in view.sources.items()}
    for folder, first in following.items():
        numbers = (
            name[1:-4]
            for name in view.inventory.names(folder)
            if name.startswith(".") and name.endswith(".crc")
        )
        left = sorted(
            int(n) for n in numbers if n.isascii() and n.isdigit() and len(n) < 19 and int(n) >= first
        )
        gone = [n for n in left if not view.inventory.is_file(f"{folder}/{n}")]
        if gone:
            paths = [f"{folder}/.{n}.crc" for n in gone]
            message = (
                f"{paths[0]} is left of a file that is gone. The start that reaches batch {gone[0]} fails as if a "
                "second driver wrote here; the start after it works."
            )
            remedy = (BACKUP, f"remove {', '.join(paths[:5])}")
            if gone[0] == first:
                yield restart_fails("log.orphaned-crc", message, files=paths[:20], remedy=remedy)
            else:
                later = f"in batch {gone[0]}"
                yield fails_later("log.orphaned-crc", message, when=later, files=paths[:20], remedy=remedy)


def _log_entry(view: CheckpointView, path: str) -> object:
    folder, _, name = path.rpartition("/")
    if folder not in ("offsets", "commits") or not name.isdigit():
        return None
    return view.offset_entry(int(name)) if folder == "offsets" else view.commit_entry(int(name))
