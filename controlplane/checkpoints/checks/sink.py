"""Checks of the file sink's own log, `_spark_metadata` below the output, which is no part of the checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from posixpath import basename
from typing import Any

from controlplane.checkpoints.findings import Finding, fails_later, note, plural, results_change
from controlplane.checkpoints.inventory.model import Inventory
from controlplane.checkpoints.reading.checkpoint import SINK_LOG, CheckpointView
from controlplane.checkpoints.reading.file_logs import FileLog
from controlplane.checkpoints.reading.input_files import InputFiles
from controlplane.checkpoints.remedies import rewind_command

READERS = "immediately for readers of the output"


def ahead(view: CheckpointView) -> Iterator[Finding]:
    """`sink.metadata-ahead`, `sink.metadata-without-checkpoint`: the sink skips batches that it already has."""
    if view.sink is None or view.sink.newest is None:
        return
    known = max((batch for batch in (view.planned, view.committed) if batch is not None), default=-1)
    newest = view.sink.newest
    if newest <= known:
        return
    check = "sink.metadata-without-checkpoint" if known < 0 else "sink.metadata-ahead"
    message = f"The file sink has batches up to {newest}, but the checkpoint ends at {known}. The sink skips those between"
    evidence: dict[str, Any] = {"sink_newest": newest, "checkpoint_newest": known}
    if same_batches_again(view, newest - known):
        yield note(
            check,
            f"{message}. The same input files are planned for them again, so nothing is lost.",
            **evidence,
        )
        return
    remedy = (
        "if the batches hold exactly the same input again (same files, same limit per batch): start the query",
        f"else remove _spark_metadata/{known + 1}…{newest} and the data files they name: {_sink_rewind_command(view)}",
    )
    yield results_change(
        check,
        f"{message}, and their input is lost unless the same input is planned again.",
        remedy=remedy,
        **evidence,
    )


def _sink_rewind_command(view: CheckpointView) -> str:
    """A rewind to the batch that is next anyway changes only the sink's log."""
    return f"{rewind_command(view, view.next_batch)} --move-data"


def same_batches_again(view: CheckpointView, skipped: int) -> bool:
    """Whether the unread input is what the skipped batches held: as many files, each read alone under a limit.

    The limit is visible where a file existed before an earlier batch began and that batch left it unread.
    """
    unread = InputFiles(view).unread()
    if (
        unread is None
        or len(unread) != skipped
        or view.last is None
        or len(view.sources) != len(view.last.offsets)
    ):
        return False
    began = view.last.timestamp_ms / 1000
    counts = {len(log.entries(batch)) for log in view.sources.values() for batch in log.plain}
    return counts == {1} and len(view.sources) == 1 and all(at < began for at in unread)


def holes(view: CheckpointView) -> Iterator[Finding]:
    """`sink.metadata-missing`, `-behind`, `-gap`, `-unreadable`: readers fail, and so does the query at its next compaction."""
    log, k = view.sink, view.committed
    if log is None or view.output is None or k is None or not view.output.complete:
        return
    if log.newest is None:
        yield from _no_log(view.output, k)
        return
    if log.newest < k and log.newest < (view.offsets.batches[0] if view.offsets.batches else 0):
        return
    if log.newest < k:
        message = f"The file sink's log ends at {log.newest}, but batch {k} is committed, so readers miss the later batches"
        yield _unreadable("sink.metadata-behind", log, message, newest=log.newest, committed=k)
    for batch in log.missing[:3]:
        yield _unreadable(
            "sink.metadata-gap", log, f"{log.name_of(batch)} is missing", file=log.name_of(batch)
        )
    for batch, why in list(log.torn.items())[:3]:
        message = f"{log.name_of(batch)} cannot be read: {why}"
        yield _unreadable("sink.metadata-unreadable", log, message, file=log.name_of(batch))


def _no_log(output: Inventory, k: int) -> Iterator[Finding]:
    """`sink.metadata-missing`: data files of a file sink without its log. A batch job leaves _SUCCESS, foreachBatch too.

    Otherwise `sink.not-checked`: the folder is not where a file sink writes.
    """
    names = [path.rpartition("/")[2] for path, entry in output.entries.items() if not entry.folder]
    if "_SUCCESS" in names or not any(name.startswith("part-") for name in names):
        fault = (
            "has no _spark_metadata and no data files of a file sink" if output.exists else "does not exist"
        )
        remedy = ("name the folder that the query writes: controlplane doctor CHECKPOINT --output PATH",)
        yield note(
            "sink.not-checked",
            f"The output {output.root} {fault}, so the sink was not checked.",
            remedy=remedy,
        )
        return
    empty = FileLog(output, SINK_LOG, {}, {})
    yield _unreadable(
        "sink.metadata-missing", empty, "The file sink's log _spark_metadata is missing", after=k, committed=k
    )


def _unreadable(
    check: str, log: FileLog, message: str, *, after: int | None = None, **evidence: Any
) -> Finding:
    failing_batch = log.next_compaction(log.newest if log.newest is not None else after or 0)
    return fails_later(
        check,
        f"{message}. The query runs on and fails at batch {failing_batch}, its next compaction.",
        when=f"{READERS}; for the query in batch {failing_batch}",
        condition="BATCH_METADATA_NOT_FOUND",
        remedy=(
            "restore the files of _spark_metadata from a backup",
            "or remove the whole log: readers then list the folder and may see rows of failed attempts",
        ),
        dies_at_batch=failing_batch,
        **evidence,
    )


def data_files(view: CheckpointView) -> Iterator[Finding]:
    """`sink.data-file-missing`: the log names a data file that is missing."""
    if view.sink is None or view.output is None or not view.output.complete:
        return
    there = {basename(path) for path, entry in view.output.entries.items() if not entry.folder}
    gone = [path for path in _added(view.sink) if basename(path) not in there]
    if gone:
        message = f"{plural(len(gone), 'data file')} named in the sink's log cannot be found. Readers of the output fail."
        remedy = ("restore them from a backup",)
        yield fails_later("sink.data-file-missing", message, when=READERS, files=gone[:10], remedy=remedy)


def _added(log: FileLog) -> Iterator[str]:
    """Paths of the added files in the log. The names are unique, so they also match in a copied output."""
    return (path for path, record in log.known.items() if record.get("action") == "add")
